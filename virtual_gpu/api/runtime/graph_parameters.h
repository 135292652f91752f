// The parameters of graph nodes, between cudart's structs and the virtual GPU's.
//
// Thread rule: any thread.

#ifndef VRANK_VIRTUAL_GPU_API_RUNTIME_GRAPH_PARAMETERS_H_
#define VRANK_VIRTUAL_GPU_API_RUNTIME_GRAPH_PARAMETERS_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <vector>

#include "virtual_gpu/core/gpu.h"

namespace vrank::gpu {

Error Read(Gpu& gpu, const cudaKernelNodeParams* from, GraphNodeParameters* to);
Error Read(const cudaMemcpy3DParms* from, GraphNodeParameters* to);
Error Read(const cudaMemsetParams* from, GraphNodeParameters* to);
Error Read(const cudaHostNodeParams* from, GraphNodeParameters* to);
Error Read(const cudaMemAllocNodeParams* from, GraphNodeParameters* to);
// Any node; kinds that are not modelled give kNotSupported.
Error Read(Gpu& gpu, const cudaGraphNodeParams* from, GraphNodeParameters* to);

// A plain copy as cudaMemcpyAsync describes it.
GraphNodeParameters PlainCopy(void* to, const void* from, size_t bytes,
                              cudaMemcpyKind kind);

void Write(const KernelLaunch& from, cudaKernelNodeParams* to);
void Write(const CopyRequest& from, cudaMemcpy3DParms* to);
void Write(const FillRequest& from, cudaMemsetParams* to);

// `edges` may be null: then whole nodes wait for whole nodes.
std::vector<GraphDependency> ReadDependencies(const cudaGraphNode_t* nodes,
                                              const cudaGraphEdgeData* edges,
                                              size_t count);

// Answers a list as CUDA's getters do: with a null `to` they say how many there are;
// otherwise `*count` is the room, what is left of it is cleared, and `*count` becomes
// what was written.
void WriteList(const std::vector<void*>& from, cudaGraphNode_t* to, size_t* count);

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_API_RUNTIME_GRAPH_PARAMETERS_H_
