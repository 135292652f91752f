// cudart, chapter "Memory management": device variables.

#include "virtual_gpu/api/runtime/copy_request.h"
#include "virtual_gpu/api/runtime/entry.h"
#include "virtual_gpu/api/runtime/registry.h"

using vrank::gpu::Alias;
using vrank::gpu::Call;
using vrank::gpu::Error;
using vrank::gpu::Gpu;
using vrank::gpu::Leave;
using vrank::gpu::Locate;
using vrank::gpu::PerThread;
using vrank::gpu::Registry;

// The address of byte `offset` of the variable, where `count` bytes fit.
cudaError_t vrank::gpu::Locate(const void* symbol, size_t count, size_t offset,
                               void** address) {
  return Call([&](Gpu& gpu) {
    size_t bytes = 0;
    VRANK_RETURN_IF_FAILED(Registry::Get().FindVariable(gpu, symbol, address, &bytes));
    if (offset > bytes || count > bytes - offset)
      return Error::kInvalidValue;
    *address = static_cast<char*>(*address) + offset;
    return Error::kSuccess;
  });
}

VRANK_CUDART cudaError_t cudaGetSymbolAddress(void** address, const void* symbol) {
  if (address == nullptr)
    return Leave(cudaErrorInvalidValue);
  return Locate(symbol, 0, 0, address);
}

VRANK_CUDART cudaError_t cudaGetSymbolSize(size_t* size, const void* symbol) {
  if (size == nullptr)
    return Leave(cudaErrorInvalidValue);
  return Call([&](Gpu& gpu) {
    void* address = nullptr;
    return Registry::Get().FindVariable(gpu, symbol, &address, size);
  });
}

VRANK_CUDART cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* from,
                                            size_t count, size_t offset,
                                            cudaMemcpyKind kind) {
  void* to = nullptr;
  const cudaError_t error = Locate(symbol, count, offset, &to);
  return error != cudaSuccess ? error : cudaMemcpy(to, from, count, kind);
}

VRANK_CUDART cudaError_t cudaMemcpyFromSymbol(void* to, const void* symbol,
                                              size_t count, size_t offset,
                                              cudaMemcpyKind kind) {
  void* from = nullptr;
  const cudaError_t error = Locate(symbol, count, offset, &from);
  return error != cudaSuccess ? error : cudaMemcpy(to, from, count, kind);
}

VRANK_CUDART cudaError_t cudaMemcpyToSymbolAsync(const void* symbol, const void* from,
                                                 size_t count, size_t offset,
                                                 cudaMemcpyKind kind,
                                                 cudaStream_t stream) {
  void* to = nullptr;
  const cudaError_t error = Locate(symbol, count, offset, &to);
  return error != cudaSuccess ? error : cudaMemcpyAsync(to, from, count, kind, stream);
}
VRANK_CUDART cudaError_t cudaMemcpyToSymbolAsync_ptsz(const void* symbol,
                                                      const void* from, size_t count,
                                                      size_t offset,
                                                      cudaMemcpyKind kind,
                                                      cudaStream_t stream) {
  return Alias([&] {
    return cudaMemcpyToSymbolAsync(symbol, from, count, offset, kind,
                                   PerThread(stream));
  });
}

VRANK_CUDART cudaError_t cudaMemcpyFromSymbolAsync(void* to, const void* symbol,
                                                   size_t count, size_t offset,
                                                   cudaMemcpyKind kind,
                                                   cudaStream_t stream) {
  void* from = nullptr;
  const cudaError_t error = Locate(symbol, count, offset, &from);
  return error != cudaSuccess ? error : cudaMemcpyAsync(to, from, count, kind, stream);
}
VRANK_CUDART cudaError_t cudaMemcpyFromSymbolAsync_ptsz(void* to, const void* symbol,
                                                        size_t count, size_t offset,
                                                        cudaMemcpyKind kind,
                                                        cudaStream_t stream) {
  return Alias([&] {
    return cudaMemcpyFromSymbolAsync(to, symbol, count, offset, kind,
                                     PerThread(stream));
  });
}
