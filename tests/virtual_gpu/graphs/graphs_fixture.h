// A virtual GPU on a fake channel, with steps for captures and launches, and the times
// that the engine gives to what was written.
//
// Thread rule: one test, one object.

#ifndef VRANK_TESTS_VIRTUAL_GPU_GRAPHS_GRAPHS_FIXTURE_H_
#define VRANK_TESTS_VIRTUAL_GPU_GRAPHS_GRAPHS_FIXTURE_H_

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "tests/virtual_gpu/core/gpu_fixture.h"

namespace vrank::gpu {

class GraphsTest : public GpuTest {
 protected:
  void* Begin(void* stream, CaptureMode mode = CaptureMode::kGlobal) {
    EXPECT_EQ(graphs().BeginCapture(stream, mode, nullptr, {}), Error::kSuccess);
    return stream;
  }
  // The graph; nullptr where the capture fails, which `error` must say then.
  void* End(void* stream, Error error = Error::kSuccess) {
    void* graph = nullptr;
    EXPECT_EQ(graphs().EndCapture(stream, &graph), error);
    EXPECT_EQ(graph != nullptr, error == Error::kSuccess);
    return graph;
  }
  void* Instantiate(void* graph, uint64_t flags = 0) {
    Instantiation how{.flags = flags};
    void* exec = nullptr;
    EXPECT_EQ(graphs().Instantiate(graph, &how, &exec), Error::kSuccess);
    EXPECT_EQ(how.result, InstantiateResult::kSuccess);
    return exec;
  }
  void* NewGraph() {
    void* graph = nullptr;
    EXPECT_EQ(graphs().Create(&graph), Error::kSuccess);
    return graph;
  }
  void* Add(void* graph, GraphNodeParameters parameters,
            const std::vector<void*>& after = {}) {
    std::vector<GraphDependency> dependencies;
    for (void* node : after)
      dependencies.push_back({node, {}});
    void* node = nullptr;
    EXPECT_EQ(graphs().AddNode(graph, dependencies, &parameters, &node),
              Error::kSuccess);
    return node;
  }
  // A kernel that takes `grid` blocks, by which tests know it, and writes `out`.
  KernelLaunch KernelOf(uint32_t grid, void* const* out) {
    KernelLaunch launch;
    launch.kernel = gpu->FindKernel("_Z6kernelPf");
    launch.grid[0] = grid;
    kernel_arguments_[0] = const_cast<void**>(out);
    launch.arguments = kernel_arguments_;
    return launch;
  }
  Error LaunchGrid(void* stream, uint32_t grid, void* out = nullptr) {
    KernelLaunch launch = KernelOf(grid, &out);
    launch.stream = stream;
    return gpu->LaunchKernel(launch);
  }
  CaptureStatus StatusOf(void* stream) {
    CaptureInfo info;
    EXPECT_EQ(graphs().GetCaptureInfo(stream, &info), Error::kSuccess);
    return info.status;
  }
  size_t NodesOf(void* graph) {
    std::vector<void*> nodes;
    EXPECT_EQ(graphs().GetNodes(graph, &nodes), Error::kSuccess);
    return nodes.size();
  }
  Graphs& graphs() { return gpu->graphs(); }

 private:
  void* kernel_arguments_[1] = {};
};

}  // namespace vrank::gpu

#endif  // VRANK_TESTS_VIRTUAL_GPU_GRAPHS_GRAPHS_FIXTURE_H_
