// cudart, chapter "Graph management": user objects, and the memory of graphs.

#include "virtual_gpu/api/runtime/entry.h"

using vrank::gpu::Call;
using vrank::gpu::Error;
using vrank::gpu::Gpu;
using vrank::gpu::GraphMemoryAttribute;
using vrank::gpu::Leave;

// `flags` must be cudaUserObjectNoDestructorSync: nobody may wait for the destructor.
VRANK_CUDART cudaError_t cudaUserObjectCreate(cudaUserObject_t* object, void* data,
                                              cudaHostFn_t destroy, unsigned references,
                                              unsigned flags) {
  if (flags != cudaUserObjectNoDestructorSync)
    return Leave(cudaErrorInvalidValue);
  return Call([&](Gpu& gpu) {
    return gpu.graphs().CreateUserObject(data, destroy, references,
                                         reinterpret_cast<void**>(object));
  });
}

VRANK_CUDART cudaError_t cudaUserObjectRetain(cudaUserObject_t object, unsigned count) {
  return Call([&](Gpu& gpu) { return gpu.graphs().RetainUserObject(object, count); });
}

VRANK_CUDART cudaError_t cudaUserObjectRelease(cudaUserObject_t object,
                                               unsigned count) {
  return Call([&](Gpu& gpu) { return gpu.graphs().ReleaseUserObject(object, count); });
}

VRANK_CUDART cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph,
                                                   cudaUserObject_t object,
                                                   unsigned count, unsigned flags) {
  if (flags > cudaGraphUserObjectMove)
    return Leave(cudaErrorInvalidValue);
  return Call([&](Gpu& gpu) {
    return gpu.graphs().RetainForGraph(graph, object, count,
                                       flags == cudaGraphUserObjectMove);
  });
}

VRANK_CUDART cudaError_t cudaGraphReleaseUserObject(cudaGraph_t graph,
                                                    cudaUserObject_t object,
                                                    unsigned count) {
  return Call(
      [&](Gpu& gpu) { return gpu.graphs().ReleaseFromGraph(graph, object, count); });
}

VRANK_CUDART cudaError_t cudaDeviceGraphMemTrim(int device) {
  return Call([&](Gpu& gpu) { return gpu.graphs().TrimMemory(device); });
}

VRANK_CUDART cudaError_t cudaDeviceGetGraphMemAttribute(
    int device, cudaGraphMemAttributeType attribute, void* value) {
  return Call([&](Gpu& gpu) {
    return gpu.graphs().GetMemoryAttribute(device,
                                           static_cast<GraphMemoryAttribute>(attribute),
                                           static_cast<uint64_t*>(value));
  });
}

VRANK_CUDART cudaError_t cudaDeviceSetGraphMemAttribute(
    int device, cudaGraphMemAttributeType attribute, void* value) {
  return Call([&](Gpu& gpu) {
    if (value == nullptr || *static_cast<uint64_t*>(value) != 0)
      return Error::kInvalidValue;
    return gpu.graphs().ResetMemoryAttribute(
        device, static_cast<GraphMemoryAttribute>(attribute));
  });
}
