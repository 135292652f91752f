// Streams, events and pinned memory that clean up after themselves.

#ifndef EXAMPLES_GPT_TRAINER_CUDA_HANDLES_H_
#define EXAMPLES_GPT_TRAINER_CUDA_HANDLES_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <utility>

#include "examples/gpt_trainer/checks.h"

namespace gpt {

class Stream {
 public:
  Stream() {
    GPT_CHECK_CUDA(cudaStreamCreateWithFlags(&handle_, cudaStreamNonBlocking));
  }
  ~Stream() { GPT_CHECK_CUDA(cudaStreamDestroy(handle_)); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  cudaStream_t get() const { return handle_; }

 private:
  cudaStream_t handle_ = nullptr;
};

class Event {
 public:
  // Events that only order work are cheaper without timing.
  explicit Event(unsigned flags = cudaEventDisableTiming) {
    GPT_CHECK_CUDA(cudaEventCreateWithFlags(&handle_, flags));
  }
  ~Event() {
    if (handle_ != nullptr) {
      GPT_CHECK_CUDA(cudaEventDestroy(handle_));
    }
  }
  Event(Event&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Event& operator=(Event&&) = delete;

  cudaEvent_t get() const { return handle_; }
  void Record(cudaStream_t stream) const {
    GPT_CHECK_CUDA(cudaEventRecord(handle_, stream));
  }
  // `stream` goes on after the last recording.
  void Await(cudaStream_t stream) const {
    GPT_CHECK_CUDA(cudaStreamWaitEvent(stream, handle_, 0));
  }

 private:
  cudaEvent_t handle_ = nullptr;
};

// Page-locked host memory, which asynchronous copies need.
template <typename T>
class PinnedArray {
 public:
  explicit PinnedArray(size_t elements) {
    void* data = nullptr;
    GPT_CHECK_CUDA(cudaHostAlloc(&data, elements * sizeof(T), cudaHostAllocDefault));
    data_ = static_cast<T*>(data);
  }
  ~PinnedArray() { GPT_CHECK_CUDA(cudaFreeHost(data_)); }
  PinnedArray(const PinnedArray&) = delete;
  PinnedArray& operator=(const PinnedArray&) = delete;

  T* data() const { return data_; }
  T& operator[](size_t i) const { return data_[i]; }

 private:
  T* data_ = nullptr;
};

}  // namespace gpt

#endif  // EXAMPLES_GPT_TRAINER_CUDA_HANDLES_H_
