// What an engine of cuDNN's computes for one operation graph: attention.h and
// convolution.h each have a kind.
//
// Thread rule: never changes once it was made, so that several threads may execute it.

#ifndef VRANK_VIRTUAL_GPU_API_DNN_COMPUTATION_H_
#define VRANK_VIRTUAL_GPU_API_DNN_COMPUTATION_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "virtual_gpu/api/dnn/cudnn_abi.h"
#include "virtual_gpu/core/gpu.h"

namespace vrank::gpu::dnn {

class Computation {
 public:
  virtual ~Computation() = default;

  // By which programs choose among engines.
  virtual std::vector<NumericalNote> NumericalNotes() const { return {}; }
  // 0: it is executed without a workspace.
  virtual uint64_t WorkspaceBytes() const = 0;
  // `outputs`: the addresses of `written`; `workspace`: WorkspaceBytes of the GPU's
  // memory.
  virtual Error Launch(Gpu* gpu, void* stream, std::span<void* const> outputs,
                       void* workspace) const = 0;

  std::vector<int64_t> written;  // unique ids of tensors in memory
};

// One for each engine, the best first.
using Computations = std::vector<std::shared_ptr<const Computation>>;

}  // namespace vrank::gpu::dnn

#endif  // VRANK_VIRTUAL_GPU_API_DNN_COMPUTATION_H_
