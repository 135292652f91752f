#include "solo_work.h"

#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <vector>

#include "hand_made_kernel.h"

namespace {

// Kinds of steps, by what they use.
constexpr int kWorkKinds = 5;
constexpr int kEventKinds = 5;
constexpr int kMemoryKinds = 6;
constexpr int kOtherKinds = 4;
constexpr size_t kMostPoolBlocks = 8;

}  // namespace

SoloWork::SoloWork(int rank, void* buffer, const Streams& streams)
    : rank_(rank), buffer_(buffer), streams_(streams) {
  for (cudaEvent_t& event : events_)
    CHECK_CUDA(cudaEventCreate(&event));
}

void SoloWork::Close() {
  for (cudaEvent_t event : events_)
    CHECK_CUDA(cudaEventDestroy(event));
  for (void* block : pool_blocks_)
    CHECK_CUDA(cudaFree(block));
}

void SoloWork::Act(Random& own) {
  const int index = Draw(own, kStreams);
  cudaStream_t stream = Draw(own, 8) == 0 ? nullptr : streams_[index];
  const size_t bytes = DrawBytes(own);
  int kind = Draw(own, kWorkKinds + kEventKinds + kMemoryKinds + kOtherKinds);
  if (kind < kWorkKinds)
    return Work(own, kind, stream, bytes);
  kind -= kWorkKinds;
  if (kind < kEventKinds)
    return UseEvent(own, kind, stream);
  kind -= kEventKinds;
  if (kind < kMemoryKinds)
    return UseMemory(own, kind, stream, bytes);
  switch (kind - kMemoryKinds) {
    case 0:
      CHECK_CUDA(cudaStreamSynchronize(stream));
      break;
    case 1:
      PollStream(stream);
      break;
    case 2:
      CallHost(index);
      break;
    default:
      usleep(static_cast<useconds_t>(Draw(own, 500)));
      printf("rank %d clock %lld\n", rank_, Nanoseconds());
  }
}

void SoloWork::Work(Random& own, int kind, cudaStream_t stream, size_t bytes) {
  switch (kind) {
    case 0:
      CHECK_CUDA(cudaMemsetAsync(At(own, bytes), Draw(own, 256), bytes, stream));
      break;
    case 1: {
      void* to = At(own, bytes);
      CHECK_CUDA(
          cudaMemcpyAsync(to, At(own, bytes), bytes, cudaMemcpyDeviceToDevice, stream));
      break;
    }
    default: {
      void* to = At(own, bytes);
      CHECK_CUDA(LaunchScale(static_cast<float*>(to),
                             static_cast<float*>(At(own, bytes)), bytes / sizeof(float),
                             stream));
    }
  }
}

void SoloWork::UseEvent(Random& own, int kind, cudaStream_t stream) {
  const int event = Draw(own, kEvents);
  switch (kind) {
    case 0:
      CHECK_CUDA(cudaEventRecord(events_[event], stream));
      recorded_[event] = true;
      break;
    case 1:
      CHECK_CUDA(cudaStreamWaitEvent(stream, events_[event], 0));
      break;
    case 2:
      CHECK_CUDA(cudaEventSynchronize(events_[event]));
      break;
    case 3:
      printf("rank %d event %d: %d\n", rank_, event, cudaEventQuery(events_[event]));
      break;
    default:
      MeasureEvents(own, event);
  }
}

void SoloWork::UseMemory(Random& own, int kind, cudaStream_t stream, size_t bytes) {
  switch (kind) {
    case 0: {
      void* block = nullptr;
      CHECK_CUDA(cudaMalloc(&block, bytes));
      CHECK_CUDA(cudaMemset(block, 1, bytes));
      CHECK_CUDA(cudaFree(block));
      break;
    }
    case 1:
    case 2:
      TakeFromPool(stream, bytes);
      break;
    case 3:
      GiveToPool(own, stream);
      break;
    case 4:
      PrintPool();
      break;
    default:
      CopyBack(own, stream);
  }
}

void SoloWork::PollStream(cudaStream_t stream) {
  int polls = 0;
  while (cudaStreamQuery(stream) == cudaErrorNotReady && polls < 20)
    ++polls;
  printf("rank %d polled %d times until %lld\n", rank_, polls, Nanoseconds());
}

void SoloWork::MeasureEvents(Random& own, int event) {
  const int other = Draw(own, kEvents);
  if (!recorded_[event] || !recorded_[other])
    return;
  CHECK_CUDA(cudaEventSynchronize(events_[event]));
  CHECK_CUDA(cudaEventSynchronize(events_[other]));
  float ms = 0;
  CHECK_CUDA(cudaEventElapsedTime(&ms, events_[event], events_[other]));
  printf("rank %d from %d to %d: %.9g ms\n", rank_, event, other, ms);
}

// Known bytes on a way through the device; half of the time the copy itself blocks.
void SoloWork::CopyBack(Random& own, cudaStream_t stream) {
  std::vector<uint64_t> sent(64), back(64);
  for (uint64_t& word : sent)
    word = own();
  const size_t bytes = sent.size() * sizeof(uint64_t);
  void* place = At(own, bytes);
  CHECK_CUDA(
      cudaMemcpyAsync(place, sent.data(), bytes, cudaMemcpyHostToDevice, stream));
  if (Draw(own, 2) == 0) {
    CHECK_CUDA(cudaDeviceSynchronize());
    CHECK_CUDA(cudaMemcpy(back.data(), place, bytes, cudaMemcpyDeviceToHost));
  } else {
    CHECK_CUDA(
        cudaMemcpyAsync(back.data(), place, bytes, cudaMemcpyDeviceToHost, stream));
    CHECK_CUDA(cudaStreamSynchronize(stream));
  }
  printf("rank %d copied back %016" PRIx64 " at %lld\n", rank_,
         Hash(back.data(), bytes), Nanoseconds());
}

// A host function is over when a wait for its stream is.
void SoloWork::CallHost(int stream) {
  CHECK_CUDA(cudaLaunchHostFunc(
      streams_[stream],
      [](void* counter) { ++*static_cast<std::atomic<int>*>(counter); },
      &host_calls_[stream]));
  CHECK_CUDA(cudaStreamSynchronize(streams_[stream]));
  printf("rank %d host calls %d at %lld\n", rank_, host_calls_[stream].load(),
         Nanoseconds());
}

void SoloWork::TakeFromPool(cudaStream_t stream, size_t bytes) {
  if (pool_blocks_.size() == kMostPoolBlocks)
    return;
  void* block = nullptr;
  CHECK_CUDA(cudaMallocAsync(&block, bytes, stream));
  CHECK_CUDA(cudaMemsetAsync(block, 0, bytes, stream));
  pool_blocks_.push_back(block);
}

// By any stream: the next user of the memory may have to wait for this one.
void SoloWork::GiveToPool(Random& own, cudaStream_t stream) {
  if (pool_blocks_.empty())
    return;
  const auto which =
      static_cast<size_t>(Draw(own, static_cast<int>(pool_blocks_.size())));
  CHECK_CUDA(cudaFreeAsync(pool_blocks_[which], stream));
  pool_blocks_.erase(pool_blocks_.begin() + static_cast<ptrdiff_t>(which));
}

void SoloWork::PrintPool() {
  cudaMemPool_t pool = nullptr;
  uint64_t used = 0, reserved = 0;
  CHECK_CUDA(cudaDeviceGetDefaultMemPool(&pool, 0));
  CHECK_CUDA(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used));
  CHECK_CUDA(
      cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &reserved));
  printf("rank %d pool %" PRIu64 " of %" PRIu64 "\n", rank_, used, reserved);
}
