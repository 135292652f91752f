// Which kernels communicate with other GPUs, by name: NCCL's and RCCL's, and those of
// libraries whose operations no profiler announces.
//
// Names as their sources have them:
//   NCCL, RCCL    base/nccl_kernel.h; msccl's (RCCL) begin with "mscclKernel"
//   vLLM, SGLang, AITER   csrc/custom_all_reduce.cuh: cross_device_reduce_1stage, ...
//   TensorRT-LLM, PyTorch (intra-node)   oneShotAllReduceKernel, twoShotAllReduceKernel
//   PyTorch (symmetric memory)   symm_mem/CUDASymmetricMemoryOps.cu:
//                 multimem_all_reduce_kernel, one_shot_all_reduce_kernel, ...
//   DeepEP        csrc/kernels: deep_ep::intranode, internode, internode_ll; its
//                 get_dispatch_layout computes
//   Transformer Engine   userbuffers.cu: userbuffers_fp16_sum_inplace_gpu_..., and
//                 kuserbuffers_pushsend, ...
//   NVSHMEM       nvshmem..., MSCCL++ mscclpp::...
//
// Where the name does not state the operation and something else does, " [all_reduce]"
// behind the name states it.
//
// Thread rule: pure functions.

#ifndef VRANK_BASE_COMMUNICATION_KERNEL_H_
#define VRANK_BASE_COMMUNICATION_KERNEL_H_

#include <optional>
#include <string>
#include <string_view>

namespace vrank {

// "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce",
// "gather", "scatter", "send", "receive", "send_receive"; "communication" where the
// name does not state it. nullopt: the kernel does not communicate. Mangled or not.
std::optional<std::string_view> CommunicationOperation(std::string_view kernel);

// The name with its operation, one of the above. The same name where it states that
// operation.
std::string WithOperation(const std::string& kernel, std::string_view operation);

}  // namespace vrank

#endif  // VRANK_BASE_COMMUNICATION_KERNEL_H_
