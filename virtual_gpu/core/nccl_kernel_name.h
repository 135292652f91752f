// The names under which NCCL's kernels appear in a profile.
//
// NCCL 2.28 builds one kernel per operation, reduction, type and algorithm and launches
// it for every protocol (src/device/generate.py; a group of sends and receives is
// "SendRecv"). Signed integers share the unsigned ones' kernels, minimum and maximum
// are one, and an average is a scaled sum. Which algorithm NCCL would choose is not
// modelled here: the names say RING_LL, as the one kernel that serves them all does.
//
// Thread rule: any thread. Names live as long as the process.

#ifndef VRANK_VIRTUAL_GPU_CORE_NCCL_KERNEL_NAME_H_
#define VRANK_VIRTUAL_GPU_CORE_NCCL_KERNEL_NAME_H_

#include "base/guest/protocol.h"

namespace vrank::gpu {

// Mangled: "_Z39ncclDevKernel_AllReduce_Sum_f32_RING_LL24ncclDevKernelArgsStorage...".
const char* NcclKernelName(const protocol::Collective& call);
const char* NcclTransferKernelName();

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_NCCL_KERNEL_NAME_H_
