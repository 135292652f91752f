// The launches of a recurrent network: products by cuBLAS and kernels of cells, in the
// order of cuDNN 9.19 on an H200. Layers run one after the other here; cuDNN overlaps
// some of them on streams of its own.
//
// Thread rule: may be called from any thread.

#ifndef VRANK_VIRTUAL_GPU_API_DNN_RECURRENT_KERNELS_H_
#define VRANK_VIRTUAL_GPU_API_DNN_RECURRENT_KERNELS_H_

#include <array>
#include <cstdint>

#include "virtual_gpu/api/dnn/recurrent.h"
#include "virtual_gpu/core/gpu.h"

namespace vrank::gpu::dnn {

// What the kernels of cells get (structure_kernel.h). The cost file reads it.
struct RecurrentArguments {
  static constexpr size_t kMostOutputs = 5;

  uint64_t bytes;      // read and written
  uint64_t exchanges;  // accesses to L2 one after the other
  const void* outputs[kMostOutputs];
};
static_assert(sizeof(RecurrentArguments) == 56);

struct RecurrentMemory {
  void* workspace = nullptr;
  uint64_t workspace_bytes = 0;
  // Written beside it: y, hy, cy and the reserve, or dx, dhx and dcx; null where
  // absent.
  std::array<void*, RecurrentArguments::kMostOutputs> outputs{};
  void* weight_gradients = nullptr;
};

Error LaunchForward(Gpu* gpu, void* stream, const Recurrent& network,
                    const Sequences& sequences, const RecurrentMemory& memory);
Error LaunchBackwardData(Gpu* gpu, void* stream, const Recurrent& network,
                         const Sequences& sequences, const RecurrentMemory& memory);
Error LaunchBackwardWeights(Gpu* gpu, void* stream, const Recurrent& network,
                            const Sequences& sequences, const RecurrentMemory& memory);

}  // namespace vrank::gpu::dnn

#endif  // VRANK_VIRTUAL_GPU_API_DNN_RECURRENT_KERNELS_H_
