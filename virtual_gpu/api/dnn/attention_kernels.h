// The kernels that cuDNN launches for attention, with NVIDIA's names and shapes.
//
// Seen on an H200 with cuDNN 9.19 (docs/validation.md). On other GPUs the names say
// another architecture, and the shapes are assumed to be the same.
//
// Thread rule: may be called from any thread.

#ifndef VRANK_VIRTUAL_GPU_API_DNN_ATTENTION_KERNELS_H_
#define VRANK_VIRTUAL_GPU_API_DNN_ATTENTION_KERNELS_H_

#include <span>

#include "virtual_gpu/api/dnn/attention.h"
#include "virtual_gpu/core/gpu.h"

namespace vrank::gpu::dnn {

// `outputs`: what the attention writes; `workspace`: WorkspaceBytes of the GPU's
// memory.
Error LaunchAttention(Gpu* gpu, void* stream, const Attention& attention,
                      std::span<void* const> outputs, void* workspace);

}  // namespace vrank::gpu::dnn

#endif  // VRANK_VIRTUAL_GPU_API_DNN_ATTENTION_KERNELS_H_
