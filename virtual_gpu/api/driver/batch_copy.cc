// libcuda, chapter "Memory management": batches of copies. Entries without a version
// are those of CUDA 12.8, which name the copy that failed; it is SIZE_MAX "if the error
// doesn't pertain to any specific copy".

#include "virtual_gpu/api/batch_copy.h"

#include "virtual_gpu/api/driver/entry.h"

using vrank::gpu::Alias;
using vrank::gpu::CallInContext;
using vrank::gpu::CopyRequest;
using vrank::gpu::Error;
using vrank::gpu::PerThread;
using vrank::gpu::ProcessGpu;

#undef cuMemcpyBatchAsync
#undef cuMemcpy3DBatchAsync

namespace {

CUresult CopyBatch(CUdeviceptr* to, CUdeviceptr* from, size_t* sizes, size_t count,
                   CUmemcpyAttributes* attributes, size_t* first_copies,
                   size_t attribute_count, size_t* failed, CUstream stream,
                   const char* api = __builtin_FUNCTION()) {
  *failed = SIZE_MAX;
  return CallInContext(
      [&](ProcessGpu& gpu) {
        std::vector<CopyRequest> requests;
        if (!vrank::gpu::IsBatchStream(stream))
          return Error::kInvalidValue;
        VRANK_RETURN_IF_FAILED(vrank::gpu::ReadBatch(to, from, sizes, count, attributes,
                                                     first_copies, attribute_count,
                                                     &requests));
        return gpu.CopyBatch(requests, stream, failed);
      },
      api);
}

CUresult CopyBatch3D(size_t count, CUDA_MEMCPY3D_BATCH_OP* operations, uint64_t flags,
                     size_t* failed, CUstream stream,
                     const char* api = __builtin_FUNCTION()) {
  *failed = SIZE_MAX;
  return CallInContext(
      [&](ProcessGpu& gpu) {
        std::vector<CopyRequest> requests;
        if (!vrank::gpu::IsBatchStream(stream))
          return Error::kInvalidValue;
        VRANK_RETURN_IF_FAILED(
            vrank::gpu::ReadBatch3D(operations, count, flags, &requests, failed));
        return gpu.CopyBatch(requests, stream, failed);
      },
      api);
}

}  // namespace

VRANK_CUDA CUresult cuMemcpyBatchAsync_v2(CUdeviceptr* to, CUdeviceptr* from,
                                          size_t* sizes, size_t count,
                                          CUmemcpyAttributes* attributes,
                                          size_t* first_copies, size_t attribute_count,
                                          CUstream stream) {
  size_t failed = 0;
  return CopyBatch(to, from, sizes, count, attributes, first_copies, attribute_count,
                   &failed, stream);
}
VRANK_CUDA CUresult cuMemcpyBatchAsync_v2_ptsz(CUdeviceptr* to, CUdeviceptr* from,
                                               size_t* sizes, size_t count,
                                               CUmemcpyAttributes* attributes,
                                               size_t* first_copies,
                                               size_t attribute_count,
                                               CUstream stream) {
  return Alias([&] {
    return cuMemcpyBatchAsync_v2(to, from, sizes, count, attributes, first_copies,
                                 attribute_count, PerThread(stream));
  });
}

VRANK_CUDA CUresult cuMemcpyBatchAsync(CUdeviceptr* to, CUdeviceptr* from,
                                       size_t* sizes, size_t count,
                                       CUmemcpyAttributes* attributes,
                                       size_t* first_copies, size_t attribute_count,
                                       size_t* failed, CUstream stream) {
  size_t ignored = 0;
  return CopyBatch(to, from, sizes, count, attributes, first_copies, attribute_count,
                   failed == nullptr ? &ignored : failed, stream);
}
VRANK_CUDA CUresult cuMemcpyBatchAsync_ptsz(CUdeviceptr* to, CUdeviceptr* from,
                                            size_t* sizes, size_t count,
                                            CUmemcpyAttributes* attributes,
                                            size_t* first_copies,
                                            size_t attribute_count, size_t* failed,
                                            CUstream stream) {
  return Alias([&] {
    return cuMemcpyBatchAsync(to, from, sizes, count, attributes, first_copies,
                              attribute_count, failed, PerThread(stream));
  });
}

VRANK_CUDA CUresult cuMemcpy3DBatchAsync_v2(size_t count,
                                            CUDA_MEMCPY3D_BATCH_OP* operations,
                                            unsigned long long flags, CUstream stream) {
  size_t failed = 0;
  return CopyBatch3D(count, operations, flags, &failed, stream);
}
VRANK_CUDA CUresult cuMemcpy3DBatchAsync_v2_ptsz(size_t count,
                                                 CUDA_MEMCPY3D_BATCH_OP* operations,
                                                 unsigned long long flags,
                                                 CUstream stream) {
  return Alias([&] {
    return cuMemcpy3DBatchAsync_v2(count, operations, flags, PerThread(stream));
  });
}

VRANK_CUDA CUresult cuMemcpy3DBatchAsync(size_t count,
                                         CUDA_MEMCPY3D_BATCH_OP* operations,
                                         size_t* failed, unsigned long long flags,
                                         CUstream stream) {
  size_t ignored = 0;
  return CopyBatch3D(count, operations, flags, failed == nullptr ? &ignored : failed,
                     stream);
}
VRANK_CUDA CUresult cuMemcpy3DBatchAsync_ptsz(size_t count,
                                              CUDA_MEMCPY3D_BATCH_OP* operations,
                                              size_t* failed, unsigned long long flags,
                                              CUstream stream) {
  return Alias([&] {
    return cuMemcpy3DBatchAsync(count, operations, failed, flags, PerThread(stream));
  });
}
