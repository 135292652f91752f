// A handle of libcudnn and tensors in the virtual GPU's memory; the kernels that were
// launched, and what they got.
//
// Thread rule: one test at a time.

#ifndef VRANK_TESTS_VIRTUAL_GPU_DNN_DNN_FIXTURE_H_
#define VRANK_TESTS_VIRTUAL_GPU_DNN_DNN_FIXTURE_H_

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "tests/virtual_gpu/dnn/graph_builder.h"
#include "tests/virtual_gpu/testing/library_fixture.h"

namespace vrank::gpu::dnn {

class DnnTest : public LibraryTest {
 protected:
  DnnTest() {
    EXPECT_EQ(cudnnCreate(&handle), kSuccess);
    const char known = 1;
    for (void* address : memory)
      Upload(address, &known, 1);
    TheChannel().Clear();
  }
  ~DnnTest() override { EXPECT_EQ(cudnnDestroy(handle), kSuccess); }

  int Execute(void* plan, std::vector<int64_t> ids) {
    return Execute(plan, std::move(ids), workspace);
  }
  int Execute(void* plan, std::vector<int64_t> ids, void* with) {
    std::vector<void*> addresses;
    for (int64_t id : ids)
      addresses.push_back(memory[static_cast<size_t>(id)]);
    return cudnnBackendExecute(handle, plan, graph.Pack(ids, addresses, with));
  }
  static std::vector<FakeChannel::Written> Kernels() {
    return TheChannel().records(protocol::RecordKind::kKernel);
  }
  static std::string NameOf(const FakeChannel::Written& kernel) {
    return TheChannel().NameOf(kernel.as<protocol::Kernel>().name);
  }
  static std::vector<std::string> Names() {
    std::vector<std::string> names;
    for (const FakeChannel::Written& kernel : Kernels())
      names.push_back(NameOf(kernel));
    return names;
  }
  // The structure that a kernel got.
  template <typename T>
  static T ArgumentsOf(const FakeChannel::Written& kernel) {
    T arguments{};
    const auto bytes = kernel.tail<protocol::Kernel>();
    EXPECT_GE(bytes.size(), sizeof arguments);
    std::memcpy(&arguments, bytes.data(), std::min(bytes.size(), sizeof arguments));
    return arguments;
  }
  static std::string LastError() {
    char text[128];
    cudnnGetLastErrorString(text, sizeof text);
    return text;
  }

  cudnnContext* handle = nullptr;
  GraphBuilder graph;
  void* workspace = NewMemory<char>(1 << 20);
  std::array<void*, 8> memory = {
      NewMemory<char>(1), NewMemory<char>(1), NewMemory<char>(1), NewMemory<char>(1),
      NewMemory<char>(1), NewMemory<char>(1), NewMemory<char>(1), NewMemory<char>(1)};
};

}  // namespace vrank::gpu::dnn

#endif  // VRANK_TESTS_VIRTUAL_GPU_DNN_DNN_FIXTURE_H_
