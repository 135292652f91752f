// The parameters of graph nodes, between libcuda's structs and the virtual GPU's.
//
// Thread rule: any thread.

#ifndef VRANK_VIRTUAL_GPU_API_DRIVER_GRAPH_PARAMETERS_H_
#define VRANK_VIRTUAL_GPU_API_DRIVER_GRAPH_PARAMETERS_H_

#include "virtual_gpu/api/driver/entry.h"
#include "virtual_gpu/core/graph_types.h"

namespace vrank::gpu {

// A list of name, value, ..., end: a buffer with a launch's parameters laid out, and
// its size. May be null.
Error ReadExtra(void** extra, KernelLaunch* launch);

Error Read(const CUDA_KERNEL_NODE_PARAMS_v1* from, GraphNodeParameters* to);
Error Read(const CUDA_KERNEL_NODE_PARAMS_v2* from, GraphNodeParameters* to);
Error Read(const CUDA_MEMCPY3D* from, GraphNodeParameters* to);
Error Read(const CUDA_MEMSET_NODE_PARAMS* from, GraphNodeParameters* to);
Error Read(const CUDA_HOST_NODE_PARAMS* from, GraphNodeParameters* to);
Error Read(const CUDA_MEM_ALLOC_NODE_PARAMS* from, GraphNodeParameters* to);
// Any node; kinds that are not modelled give kNotSupported.
Error Read(const CUgraphNodeParams* from, GraphNodeParameters* to);

void Write(const KernelLaunch& from, CUDA_KERNEL_NODE_PARAMS_v1* to);
void Write(const KernelLaunch& from, CUDA_KERNEL_NODE_PARAMS_v2* to);
void Write(const CopyRequest& from, CUDA_MEMCPY3D* to);
void Write(const FillRequest& from, CUDA_MEMSET_NODE_PARAMS* to);
void Write(const HostCallParameters& from, CUDA_HOST_NODE_PARAMS* to);
void Write(const AllocationParameters& from, CUDA_MEM_ALLOC_NODE_PARAMS* to);

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_API_DRIVER_GRAPH_PARAMETERS_H_
