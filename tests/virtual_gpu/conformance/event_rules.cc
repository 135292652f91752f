// CUDA runtime API, "Event management".

#include <atomic>

#include "tests/virtual_gpu/conformance/rule.h"

namespace conformance {
namespace {

cudaEvent_t NewEvent(unsigned flags = cudaEventDefault) {
  cudaEvent_t event = nullptr;
  EXPECT_OK(cudaEventCreateWithFlags(&event, flags));
  return event;
}

// cudaEventQuery: "If [cudaEventRecord] has not been called on event, then cudaSuccess
// is returned"; cudaEventSynchronize likewise "does nothing".
void UnrecordedEventsAreComplete() {
  cudaEvent_t event = NewEvent();
  EXPECT_OK(cudaEventQuery(event));
  EXPECT_OK(cudaEventSynchronize(event));
  EXPECT_OK(cudaStreamWaitEvent(nullptr, event, 0));
  EXPECT_OK(cudaEventDestroy(event));
}

// cudaEventElapsedTime: "If either event has not been recorded,
// cudaErrorInvalidResource- Handle is returned"; the same where an event was made with
// cudaEventDisableTiming.
void ElapsedTimeNeedsTwoTimedEvents() {
  cudaEvent_t recorded = NewEvent();
  cudaEvent_t never = NewEvent();
  cudaEvent_t untimed = NewEvent(cudaEventDisableTiming);
  float milliseconds = 0;
  EXPECT_OK(cudaEventRecord(recorded, nullptr));
  EXPECT_OK(cudaEventRecord(untimed, nullptr));
  EXPECT_OK(cudaDeviceSynchronize());
  EXPECT_ERROR(cudaErrorInvalidResourceHandle,
               cudaEventElapsedTime(&milliseconds, recorded, never));
  EXPECT_ERROR(cudaErrorInvalidResourceHandle,
               cudaEventElapsedTime(&milliseconds, untimed, recorded));
  for (cudaEvent_t event : {recorded, never, untimed})
    EXPECT_OK(cudaEventDestroy(event));
}

// cudaEventElapsedTime: "Computes the elapsed time between two events (in
// milliseconds)".
void ElapsedTimeRuns() {
  cudaEvent_t start = NewEvent();
  cudaEvent_t end = NewEvent();
  void* address = nullptr;
  EXPECT_OK(cudaMalloc(&address, 64 << 20));
  EXPECT_OK(cudaEventRecord(start, nullptr));
  for (int i = 0; i < 10; ++i)
    EXPECT_OK(cudaMemsetAsync(address, i, 64 << 20, nullptr));
  EXPECT_OK(cudaEventRecord(end, nullptr));
  EXPECT_OK(cudaEventSynchronize(end));
  float forward = -1;
  float backward = 1;
  EXPECT_OK(cudaEventElapsedTime(&forward, start, end));
  EXPECT_OK(cudaEventElapsedTime(&backward, end, start));
  EXPECT_THAT(forward >= 0);
  EXPECT_THAT(backward == -forward);
  EXPECT_OK(cudaFree(address));
  EXPECT_OK(cudaEventDestroy(start));
  EXPECT_OK(cudaEventDestroy(end));
}

// cudaEventSynchronize: "Waits until the completion of all work currently captured in
// event."
void EventWaitCoversWhatCameBefore() {
  cudaStream_t stream;
  EXPECT_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  cudaEvent_t event = NewEvent(cudaEventBlockingSync);
  std::atomic<bool> ran{false};
  EXPECT_OK(cudaLaunchHostFunc(
      stream, [](void* flag) { static_cast<std::atomic<bool>*>(flag)->store(true); },
      &ran));
  EXPECT_OK(cudaEventRecord(event, stream));
  EXPECT_OK(cudaEventSynchronize(event));
  EXPECT_THAT(ran.load());
  EXPECT_OK(cudaEventQuery(event));
  EXPECT_OK(cudaEventDestroy(event));
  EXPECT_OK(cudaStreamDestroy(stream));
}

// A polling loop ends (cudaEventQuery: cudaErrorNotReady until the work is done).
void PollingEnds() {
  cudaEvent_t event = NewEvent();
  void* address = nullptr;
  EXPECT_OK(cudaMalloc(&address, 64 << 20));
  EXPECT_OK(cudaMemsetAsync(address, 1, 64 << 20, nullptr));
  EXPECT_OK(cudaEventRecord(event, nullptr));
  cudaError_t state = cudaErrorNotReady;
  for (long i = 0; i < 100'000'000 && state == cudaErrorNotReady; ++i)
    state = cudaEventQuery(event);
  EXPECT_THAT(state == cudaSuccess);
  EXPECT_OK(cudaFree(address));
  EXPECT_OK(cudaEventDestroy(event));
}

// cudaEventRecord: "cudaEventRecord() can be called multiple times on the same event
// and will overwrite the previously captured state." Waits that were issued before keep
// what they captured.
void RecordingAgainOverwrites() {
  cudaEvent_t event = NewEvent();
  cudaEvent_t first = NewEvent();
  void* address = nullptr;
  EXPECT_OK(cudaMalloc(&address, 1 << 20));
  EXPECT_OK(cudaEventRecord(event, nullptr));
  EXPECT_OK(cudaEventRecord(first, nullptr));
  EXPECT_OK(cudaMemsetAsync(address, 1, 1 << 20, nullptr));
  EXPECT_OK(cudaEventRecord(event, nullptr));
  EXPECT_OK(cudaEventSynchronize(event));
  float milliseconds = -1;
  EXPECT_OK(cudaEventElapsedTime(&milliseconds, first, event));
  EXPECT_THAT(milliseconds >= 0);
  EXPECT_OK(cudaFree(address));
  EXPECT_OK(cudaEventDestroy(event));
  EXPECT_OK(cudaEventDestroy(first));
}

// cudaEventCreateWithFlags: "cudaErrorInvalidValue" for flags that do not exist.
void FlagsAreChecked() {
  cudaEvent_t event = nullptr;
  EXPECT_ERROR(cudaErrorInvalidValue, cudaEventCreateWithFlags(&event, 0x100));
}

// cudaEventDestroy: "An event may be destroyed before it is complete [...] the call
// does not block."
void EventsMayBeDestroyedEarly() {
  cudaStream_t stream;
  EXPECT_OK(cudaStreamCreate(&stream));
  cudaEvent_t event = NewEvent();
  EXPECT_OK(cudaEventRecord(event, stream));
  EXPECT_OK(cudaStreamWaitEvent(nullptr, event, 0));
  EXPECT_OK(cudaEventDestroy(event));
  EXPECT_OK(cudaDeviceSynchronize());
  EXPECT_OK(cudaStreamDestroy(stream));
}

constexpr Rule kRules[] = {
    {"unrecorded events are complete", UnrecordedEventsAreComplete},
    {"elapsed time needs two timed events", ElapsedTimeNeedsTwoTimedEvents},
    {"elapsed time runs", ElapsedTimeRuns},
    {"an event wait covers what came before", EventWaitCoversWhatCameBefore},
    {"polling ends", PollingEnds},
    {"recording again overwrites", RecordingAgainOverwrites},
    {"flags are checked", FlagsAreChecked},
    {"events may be destroyed early", EventsMayBeDestroyedEarly},
};

}  // namespace

std::span<const Rule> EventRules() {
  return kRules;
}

}  // namespace conformance
