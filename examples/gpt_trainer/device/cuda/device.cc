// Streams, events and memory by the CUDA runtime.

#include "examples/gpt_trainer/device/device.h"

#include "examples/gpt_trainer/device/cuda/cuda_checks.h"

namespace gpt {

void* AllocateOnDevice(size_t bytes) {
  void* data = nullptr;
  const cudaError_t status = cudaMalloc(&data, bytes);
  if (status == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();  // the caller handles it
    return nullptr;
  }
  GPT_CHECK_CUDA(status);
  return data;
}

void FreeOnDevice(void* data) {
  GPT_CHECK_CUDA(cudaFree(data));
}

void SetToZero(void* data, size_t bytes, StreamHandle stream) {
  GPT_CHECK_CUDA(cudaMemsetAsync(data, 0, bytes, stream));
}

void CopyToDevice(void* device, const void* host, size_t bytes, StreamHandle stream) {
  GPT_CHECK_CUDA(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, stream));
}

void CopyToHost(void* host, const void* device, size_t bytes, StreamHandle stream) {
  GPT_CHECK_CUDA(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, stream));
}

void CopyOnDevice(void* to, const void* from, size_t bytes, StreamHandle stream) {
  GPT_CHECK_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream));
}

void SynchronizeDevice() {
  GPT_CHECK_CUDA(cudaDeviceSynchronize());
}

Stream::Stream() {
  GPT_CHECK_CUDA(cudaStreamCreateWithFlags(&handle_, cudaStreamNonBlocking));
}

Stream::~Stream() {
  GPT_CHECK_CUDA(cudaStreamDestroy(handle_));
}

Event::Event(Timing timing) {
  GPT_CHECK_CUDA(cudaEventCreateWithFlags(
      &handle_, timing == Timing::kNone ? cudaEventDisableTiming : cudaEventDefault));
}

Event::~Event() {
  if (handle_ != nullptr) {
    GPT_CHECK_CUDA(cudaEventDestroy(handle_));
  }
}

void Event::Record(StreamHandle stream) const {
  GPT_CHECK_CUDA(cudaEventRecord(handle_, stream));
}

void Event::Await(StreamHandle stream) const {
  GPT_CHECK_CUDA(cudaStreamWaitEvent(stream, handle_, 0));
}

void Event::Synchronize() const {
  GPT_CHECK_CUDA(cudaEventSynchronize(handle_));
}

float Event::MillisecondsSince(const Event& earlier) const {
  float milliseconds = 0.0f;
  GPT_CHECK_CUDA(cudaEventElapsedTime(&milliseconds, earlier.handle_, handle_));
  return milliseconds;
}

void* AllocatePinned(size_t bytes) {
  void* data = nullptr;
  GPT_CHECK_CUDA(cudaHostAlloc(&data, bytes, cudaHostAllocDefault));
  return data;
}

void FreePinned(void* data) {
  GPT_CHECK_CUDA(cudaFreeHost(data));
}

}  // namespace gpt
