// cudart, chapter "Memory management": copies and memsets.

#include "virtual_gpu/api/runtime/copy_request.h"
#include "virtual_gpu/api/runtime/entry.h"

using vrank::gpu::Call;
using vrank::gpu::CopyDirection;
using vrank::gpu::CopyRequest;
using vrank::gpu::Error;
using vrank::gpu::FillRequest;
using vrank::gpu::Gpu;
using vrank::gpu::Leave;
using vrank::gpu::PerThread;

namespace {

constexpr bool kBlocking = false;
constexpr bool kAsynchronous = true;

bool IsDirection(cudaMemcpyKind kind) {
  return kind >= cudaMemcpyHostToHost && kind <= cudaMemcpyDefault;
}

cudaError_t Copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                 cudaStream_t stream, bool asynchronous,
                 const char* api = __builtin_FUNCTION()) {
  if (!IsDirection(kind))
    return Leave(cudaErrorInvalidMemcpyDirection);
  CopyRequest request{.to = to, .from = from, .row_bytes = bytes};
  request.direction = static_cast<CopyDirection>(kind);
  request.stream = stream;
  request.asynchronous = asynchronous;
  return Call([&](Gpu& gpu) { return gpu.Copy(request); }, api);
}

cudaError_t Copy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                   size_t width, size_t height, cudaMemcpyKind kind,
                   cudaStream_t stream, bool asynchronous,
                   const char* api = __builtin_FUNCTION()) {
  if (!IsDirection(kind))
    return Leave(cudaErrorInvalidMemcpyDirection);
  if (width > to_pitch || width > from_pitch)
    return Leave(cudaErrorInvalidPitchValue);
  CopyRequest request{.to = to, .from = from, .row_bytes = width, .rows = height};
  request.to_pitch = to_pitch;
  request.from_pitch = from_pitch;
  request.direction = static_cast<CopyDirection>(kind);
  request.stream = stream;
  request.asynchronous = asynchronous;
  return Call([&](Gpu& gpu) { return gpu.Copy(request); }, api);
}

// Start of the block at `position` (x in bytes where no array takes part).
char* BlockStart(const cudaPitchedPtr& pointer, const cudaPos& position) {
  return static_cast<char*>(pointer.ptr) +
         (position.z * pointer.ysize + position.y) * pointer.pitch + position.x;
}

cudaError_t Copy3D(const cudaMemcpy3DParms* parameters, cudaStream_t stream,
                   bool asynchronous, const char* api = __builtin_FUNCTION()) {
  CopyRequest request;
  const Error error = vrank::gpu::ReadCopy(parameters, &request);
  if (error != Error::kSuccess)
    return Leave(error);
  request.stream = stream;
  request.asynchronous = asynchronous;
  return Call([&](Gpu& gpu) { return gpu.Copy(request); }, api);
}

cudaError_t Fill(const FillRequest& request, const char* api = __builtin_FUNCTION()) {
  return Call([&](Gpu& gpu) { return gpu.Fill(request); }, api);
}

cudaError_t Fill1D(void* to, int value, size_t bytes, cudaStream_t stream,
                   bool asynchronous, const char* api = __builtin_FUNCTION()) {
  return Fill({.to = to,
               .value = static_cast<unsigned>(value),
               .elements = bytes,
               .stream = stream,
               .asynchronous = asynchronous},
              api);
}

cudaError_t Fill2D(void* to, size_t pitch, int value, size_t width, size_t height,
                   cudaStream_t stream, bool asynchronous,
                   const char* api = __builtin_FUNCTION()) {
  if (width > pitch)
    return Leave(cudaErrorInvalidPitchValue);
  return Fill({.to = to,
               .value = static_cast<unsigned>(value),
               .elements = width,
               .rows = height,
               .pitch = pitch,
               .stream = stream,
               .asynchronous = asynchronous},
              api);
}

cudaError_t Fill3D(const cudaPitchedPtr& to, int value, const cudaExtent& extent,
                   cudaStream_t stream, bool asynchronous,
                   const char* api = __builtin_FUNCTION()) {
  if (extent.width > to.pitch)
    return Leave(cudaErrorInvalidPitchValue);
  return Fill({.to = to.ptr,
               .value = static_cast<unsigned>(value),
               .elements = extent.width,
               .rows = extent.height,
               .depth = extent.depth,
               .pitch = to.pitch,
               .plane = to.pitch * to.ysize,
               .stream = stream,
               .asynchronous = asynchronous},
              api);
}

}  // namespace

// Arrays are not modelled; without them the extent counts bytes.
Error vrank::gpu::ReadCopy(const cudaMemcpy3DParms* parameters, CopyRequest* request) {
  if (parameters == nullptr)
    return Error::kInvalidValue;
  if (parameters->srcArray != nullptr || parameters->dstArray != nullptr)
    return Error::kNotSupported;
  if (!IsDirection(parameters->kind))
    return Error::kInvalidCopyDirection;
  const cudaPitchedPtr& to = parameters->dstPtr;
  const cudaPitchedPtr& from = parameters->srcPtr;
  const cudaExtent& extent = parameters->extent;
  if (extent.width > to.pitch || extent.width > from.pitch)
    return Error::kInvalidPitch;
  *request = {.to = BlockStart(to, parameters->dstPos),
              .from = BlockStart(from, parameters->srcPos),
              .row_bytes = extent.width,
              .rows = extent.height,
              .depth = extent.depth};
  request->to_pitch = to.pitch;
  request->from_pitch = from.pitch;
  request->to_plane = to.pitch * to.ysize;
  request->from_plane = from.pitch * from.ysize;
  request->direction = static_cast<CopyDirection>(parameters->kind);
  return Error::kSuccess;
}

VRANK_CUDART cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes,
                                    cudaMemcpyKind kind) {
  return Copy(to, from, bytes, kind, nullptr, kBlocking);
}
VRANK_CUDART cudaError_t cudaMemcpy_ptds(void* to, const void* from, size_t bytes,
                                         cudaMemcpyKind kind) {
  return Copy(to, from, bytes, kind, cudaStreamPerThread, kBlocking);
}

VRANK_CUDART cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes,
                                         cudaMemcpyKind kind, cudaStream_t stream) {
  return Copy(to, from, bytes, kind, stream, kAsynchronous);
}
VRANK_CUDART cudaError_t cudaMemcpyAsync_ptsz(void* to, const void* from, size_t bytes,
                                              cudaMemcpyKind kind,
                                              cudaStream_t stream) {
  return Copy(to, from, bytes, kind, PerThread(stream), kAsynchronous);
}

// The devices are part of the addresses.
VRANK_CUDART cudaError_t cudaMemcpyPeer(void* to, int, const void* from, int,
                                        size_t bytes) {
  return Copy(to, from, bytes, cudaMemcpyDeviceToDevice, nullptr, kBlocking);
}

VRANK_CUDART cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int,
                                             size_t bytes, cudaStream_t stream) {
  return Copy(to, from, bytes, cudaMemcpyDeviceToDevice, stream, kAsynchronous);
}

VRANK_CUDART cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from,
                                      size_t from_pitch, size_t width, size_t height,
                                      cudaMemcpyKind kind) {
  return Copy2D(to, to_pitch, from, from_pitch, width, height, kind, nullptr,
                kBlocking);
}
VRANK_CUDART cudaError_t cudaMemcpy2D_ptds(void* to, size_t to_pitch, const void* from,
                                           size_t from_pitch, size_t width,
                                           size_t height, cudaMemcpyKind kind) {
  return Copy2D(to, to_pitch, from, from_pitch, width, height, kind,
                cudaStreamPerThread, kBlocking);
}

VRANK_CUDART cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from,
                                           size_t from_pitch, size_t width,
                                           size_t height, cudaMemcpyKind kind,
                                           cudaStream_t stream) {
  return Copy2D(to, to_pitch, from, from_pitch, width, height, kind, stream,
                kAsynchronous);
}
VRANK_CUDART cudaError_t cudaMemcpy2DAsync_ptsz(void* to, size_t to_pitch,
                                                const void* from, size_t from_pitch,
                                                size_t width, size_t height,
                                                cudaMemcpyKind kind,
                                                cudaStream_t stream) {
  return Copy2D(to, to_pitch, from, from_pitch, width, height, kind, PerThread(stream),
                kAsynchronous);
}

VRANK_CUDART cudaError_t cudaMemcpy3D(const cudaMemcpy3DParms* parameters) {
  return Copy3D(parameters, nullptr, kBlocking);
}
VRANK_CUDART cudaError_t cudaMemcpy3D_ptds(const cudaMemcpy3DParms* parameters) {
  return Copy3D(parameters, cudaStreamPerThread, kBlocking);
}

VRANK_CUDART cudaError_t cudaMemcpy3DAsync(const cudaMemcpy3DParms* parameters,
                                           cudaStream_t stream) {
  return Copy3D(parameters, stream, kAsynchronous);
}
VRANK_CUDART cudaError_t cudaMemcpy3DAsync_ptsz(const cudaMemcpy3DParms* parameters,
                                                cudaStream_t stream) {
  return Copy3D(parameters, PerThread(stream), kAsynchronous);
}

VRANK_CUDART cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  return Fill1D(to, value, bytes, nullptr, kBlocking);
}
VRANK_CUDART cudaError_t cudaMemset_ptds(void* to, int value, size_t bytes) {
  return Fill1D(to, value, bytes, cudaStreamPerThread, kBlocking);
}

VRANK_CUDART cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes,
                                         cudaStream_t stream) {
  return Fill1D(to, value, bytes, stream, kAsynchronous);
}
VRANK_CUDART cudaError_t cudaMemsetAsync_ptsz(void* to, int value, size_t bytes,
                                              cudaStream_t stream) {
  return Fill1D(to, value, bytes, PerThread(stream), kAsynchronous);
}

VRANK_CUDART cudaError_t cudaMemset2D(void* to, size_t pitch, int value, size_t width,
                                      size_t height) {
  return Fill2D(to, pitch, value, width, height, nullptr, kBlocking);
}
VRANK_CUDART cudaError_t cudaMemset2D_ptds(void* to, size_t pitch, int value,
                                           size_t width, size_t height) {
  return Fill2D(to, pitch, value, width, height, cudaStreamPerThread, kBlocking);
}

VRANK_CUDART cudaError_t cudaMemset2DAsync(void* to, size_t pitch, int value,
                                           size_t width, size_t height,
                                           cudaStream_t stream) {
  return Fill2D(to, pitch, value, width, height, stream, kAsynchronous);
}
VRANK_CUDART cudaError_t cudaMemset2DAsync_ptsz(void* to, size_t pitch, int value,
                                                size_t width, size_t height,
                                                cudaStream_t stream) {
  return Fill2D(to, pitch, value, width, height, PerThread(stream), kAsynchronous);
}

VRANK_CUDART cudaError_t cudaMemset3D(cudaPitchedPtr to, int value, cudaExtent extent) {
  return Fill3D(to, value, extent, nullptr, kBlocking);
}
VRANK_CUDART cudaError_t cudaMemset3D_ptds(cudaPitchedPtr to, int value,
                                           cudaExtent extent) {
  return Fill3D(to, value, extent, cudaStreamPerThread, kBlocking);
}

VRANK_CUDART cudaError_t cudaMemset3DAsync(cudaPitchedPtr to, int value,
                                           cudaExtent extent, cudaStream_t stream) {
  return Fill3D(to, value, extent, stream, kAsynchronous);
}
VRANK_CUDART cudaError_t cudaMemset3DAsync_ptsz(cudaPitchedPtr to, int value,
                                                cudaExtent extent,
                                                cudaStream_t stream) {
  return Fill3D(to, value, extent, PerThread(stream), kAsynchronous);
}
