// Buffers, streams and events for the rules about captures and graphs.
//
// Thread rule: one thread.

#ifndef VRANK_TESTS_VIRTUAL_GPU_CONFORMANCE_GRAPH_SUPPORT_H_
#define VRANK_TESTS_VIRTUAL_GPU_CONFORMANCE_GRAPH_SUPPORT_H_

#include <cstring>

#include "tests/virtual_gpu/conformance/rule.h"

namespace conformance {

inline constexpr size_t kBytes = 4096;

// Device memory and page-locked host memory, given back at the end.
struct Buffers {
  unsigned char* host = nullptr;
  unsigned char* device = nullptr;
  Buffers() {
    EXPECT_OK(cudaMallocHost(reinterpret_cast<void**>(&host), kBytes));
    EXPECT_OK(cudaMalloc(reinterpret_cast<void**>(&device), kBytes));
    std::memset(host, 0, kBytes);
  }
  ~Buffers() {
    EXPECT_OK(cudaFreeHost(host));
    EXPECT_OK(cudaFree(device));
  }
};

struct Stream {
  cudaStream_t handle;
  explicit Stream(unsigned flags = cudaStreamNonBlocking) {
    EXPECT_OK(cudaStreamCreateWithFlags(&handle, flags));
  }
  ~Stream() { EXPECT_OK(cudaStreamDestroy(handle)); }
  operator cudaStream_t() const { return handle; }
};

struct Event {
  cudaEvent_t handle;
  Event() { EXPECT_OK(cudaEventCreateWithFlags(&handle, cudaEventDisableTiming)); }
  ~Event() { EXPECT_OK(cudaEventDestroy(handle)); }
  operator cudaEvent_t() const { return handle; }
};

inline size_t NodesOf(cudaGraph_t graph) {
  size_t count = 0;
  EXPECT_OK(cudaGraphGetNodes(graph, nullptr, &count));
  return count;
}

}  // namespace conformance

#endif  // VRANK_TESTS_VIRTUAL_GPU_CONFORMANCE_GRAPH_SUPPORT_H_
