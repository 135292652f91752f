// cudart, chapter "Memory management": batches of copies.

#include "virtual_gpu/api/batch_copy.h"

#include "virtual_gpu/api/runtime/entry.h"

using vrank::gpu::Alias;
using vrank::gpu::Call;
using vrank::gpu::CopyRequest;
using vrank::gpu::Error;
using vrank::gpu::Gpu;
using vrank::gpu::PerThread;

VRANK_CUDART cudaError_t cudaMemcpyBatchAsync(void* const* to, const void* const* from,
                                              const size_t* sizes, size_t count,
                                              cudaMemcpyAttributes* attributes,
                                              size_t* first_copies,
                                              size_t attribute_count,
                                              cudaStream_t stream) {
  return Call([&](Gpu& gpu) {
    std::vector<CopyRequest> requests;
    size_t failed = 0;
    if (!vrank::gpu::IsBatchStream(stream))
      return Error::kInvalidValue;
    VRANK_RETURN_IF_FAILED(vrank::gpu::ReadBatch(
        to, from, sizes, count, attributes, first_copies, attribute_count, &requests));
    return gpu.CopyBatch(requests, stream, &failed);
  });
}
VRANK_CUDART cudaError_t cudaMemcpyBatchAsync_ptsz(
    void* const* to, const void* const* from, const size_t* sizes, size_t count,
    cudaMemcpyAttributes* attributes, size_t* first_copies, size_t attribute_count,
    cudaStream_t stream) {
  return Alias([&] {
    return cudaMemcpyBatchAsync(to, from, sizes, count, attributes, first_copies,
                                attribute_count, PerThread(stream));
  });
}

VRANK_CUDART cudaError_t cudaMemcpy3DBatchAsync(size_t count,
                                                cudaMemcpy3DBatchOp* operations,
                                                unsigned long long flags,
                                                cudaStream_t stream) {
  return Call([&](Gpu& gpu) {
    std::vector<CopyRequest> requests;
    size_t failed = 0;
    if (!vrank::gpu::IsBatchStream(stream))
      return Error::kInvalidValue;
    VRANK_RETURN_IF_FAILED(
        vrank::gpu::ReadBatch3D(operations, count, flags, &requests, &failed));
    return gpu.CopyBatch(requests, stream, &failed);
  });
}
VRANK_CUDART cudaError_t cudaMemcpy3DBatchAsync_ptsz(size_t count,
                                                     cudaMemcpy3DBatchOp* operations,
                                                     unsigned long long flags,
                                                     cudaStream_t stream) {
  return Alias([&] {
    return cudaMemcpy3DBatchAsync(count, operations, flags, PerThread(stream));
  });
}
