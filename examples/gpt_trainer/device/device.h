// The seam between the trainer and what it runs on.
//
// Everything above this folder is written once, in terms of streams, events, device
// memory, communicators (communicator.h), matrix products (matrix_multiply.h) and
// kernels (kernels/kernels.h). It is compiled twice:
//
//   cuda/  CUDA, cuBLAS and NCCL; an element is bf16. What runs on a cluster.
//   host/  threads of one process: a stream is a thread that works off a queue, a rank
//          is a thread that issues work, an element is fp32. What tests train with: it
//          computes real values, and a missing wait is a race as on a GPU.
//
// A backend is a folder: its backend.h states the types below, its sources define the
// functions, its kernel_tools.h says how a kernel's body meets threads. The build adds
// one of the two folders to the include path; nothing else chooses.
//
// Failures end the process (checks.h). All work is asynchronous and ordered by streams,
// as CUDA documents it.

#ifndef EXAMPLES_GPT_TRAINER_DEVICE_DEVICE_H_
#define EXAMPLES_GPT_TRAINER_DEVICE_DEVICE_H_

#include <cstddef>
#include <utility>

#include "backend.h"

namespace gpt {

// Memory of the device; null where it is full.
void* AllocateOnDevice(size_t bytes);
void FreeOnDevice(void* data);

void SetToZero(void* data, size_t bytes, StreamHandle stream);
// `host` is page-locked (PinnedArray).
void CopyToDevice(void* device, const void* host, size_t bytes, StreamHandle stream);
void CopyToHost(void* host, const void* device, size_t bytes, StreamHandle stream);
void CopyOnDevice(void* to, const void* from, size_t bytes, StreamHandle stream);

// Waits for all streams of this rank.
void SynchronizeDevice();

class Stream {
 public:
  Stream();
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  StreamHandle get() const { return handle_; }

 private:
  StreamHandle handle_{};
};

class Event {
 public:
  // Events that only order work are cheaper without timing.
  enum class Timing { kNone, kRecorded };

  explicit Event(Timing timing = Timing::kNone);
  ~Event();
  Event(Event&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  Event& operator=(Event&&) = delete;

  void Record(StreamHandle stream) const;
  // `stream` goes on after the last recording.
  void Await(StreamHandle stream) const;
  // The host goes on after the last recording.
  void Synchronize() const;
  // REQUIRES: both were made with timing, recorded, and have ended.
  float MillisecondsSince(const Event& earlier) const;

 private:
  EventHandle handle_{};
};

// Page-locked host memory, which asynchronous copies need.
void* AllocatePinned(size_t bytes);
void FreePinned(void* data);

template <typename T>
class PinnedArray {
 public:
  explicit PinnedArray(size_t elements)
      : data_(static_cast<T*>(AllocatePinned(elements * sizeof(T)))) {}
  ~PinnedArray() { FreePinned(data_); }
  PinnedArray(const PinnedArray&) = delete;
  PinnedArray& operator=(const PinnedArray&) = delete;

  T* data() const { return data_; }
  T& operator[](size_t i) const { return data_[i]; }

 private:
  T* data_;
};

}  // namespace gpt

#endif  // EXAMPLES_GPT_TRAINER_DEVICE_DEVICE_H_
