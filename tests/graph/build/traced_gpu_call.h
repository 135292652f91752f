// One call of the program while it runs: opens its row and closes it.

#ifndef VRANK_TESTS_GRAPH_BUILD_TRACED_GPU_CALL_H_
#define VRANK_TESTS_GRAPH_BUILD_TRACED_GPU_CALL_H_

#include "tests/graph/build/traced_gpu.h"

namespace vrank::graph {

// CUPTI's number of the one context.
inline constexpr uint32_t kTracedContext = 1;

struct TracedGpu::CallScope {
  CallScope(TracedGpu* gpu, const char* function, bool is_driver = false) : gpu(gpu) {
    gpu->call_ = {};
    gpu->call_.function = gpu->Name(function);
    gpu->call_.is_driver = is_driver;
    gpu->call_.correlation = ++gpu->correlation_;
    gpu->call_.start_ns = gpu->channel_.Now().nanoseconds();
    gpu->wait_start_ns_ = gpu->queue_start_ns_ = -1;
    gpu->call_first_op_ = gpu->program_.size();
  }
  ~CallScope() {
    gpu->Consume();
    gpu->call_.end_ns = gpu->channel_.Now().nanoseconds();
    if (gpu->queue_start_ns_ >= 0)
      gpu->trace_.overheads.push_back({TracedOverhead::Kind::kLaunchQueueFull,
                                       gpu->call_.correlation, 0, gpu->queue_start_ns_,
                                       gpu->queue_end_ns_});
    gpu->trace_.calls.push_back(gpu->call_);
  }
  TracedGpu* gpu;
};

}  // namespace vrank::graph

#endif  // VRANK_TESTS_GRAPH_BUILD_TRACED_GPU_CALL_H_
