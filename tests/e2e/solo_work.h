// What a rank of random_guest does without the others: work on its streams, events,
// waits, questions, memory, copies to the host and host functions, and the clock.
//
// Everything that it sees it prints, so that two runs can be compared by their lines.
//
// Thread rule: one thread. Host functions count in atomics that are read only after a
// wait for their stream.

#ifndef VRANK_TESTS_E2E_SOLO_WORK_H_
#define VRANK_TESTS_E2E_SOLO_WORK_H_

#include <cuda_runtime_api.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <vector>

#include "random_support.h"

constexpr int kStreams = 4;
constexpr int kEvents = 6;
constexpr size_t kBufferBytes = size_t{256} << 20;
using Streams = std::array<cudaStream_t, kStreams>;

// A random place for so many bytes in the buffer.
inline void* PlaceIn(void* buffer, Random& random, size_t bytes) {
  const size_t room = (kBufferBytes - bytes) / 256;
  return static_cast<char*>(buffer) + random() % room * 256;
}

class SoloWork {
 public:
  SoloWork(int rank, void* buffer, const Streams& streams);
  void Act(Random& own);
  // Gives everything back. REQUIRES: the device is idle.
  void Close();

 private:
  void* At(Random& own, size_t bytes) { return PlaceIn(buffer_, own, bytes); }
  void Work(Random& own, int kind, cudaStream_t stream, size_t bytes);
  void UseEvent(Random& own, int kind, cudaStream_t stream);
  void UseMemory(Random& own, int kind, cudaStream_t stream, size_t bytes);
  void PollStream(cudaStream_t stream);
  void MeasureEvents(Random& own, int event);
  void CopyBack(Random& own, cudaStream_t stream);
  void CallHost(int stream);
  void TakeFromPool(cudaStream_t stream, size_t bytes);
  void GiveToPool(Random& own, cudaStream_t stream);
  void PrintPool();

  const int rank_;
  void* const buffer_;
  const Streams streams_;
  std::array<cudaEvent_t, kEvents> events_{};
  std::array<bool, kEvents> recorded_{};
  std::array<std::atomic<int>, kStreams> host_calls_{};
  std::vector<void*> pool_blocks_;
};

#endif  // VRANK_TESTS_E2E_SOLO_WORK_H_
