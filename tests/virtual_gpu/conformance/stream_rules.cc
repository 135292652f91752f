// CUDA runtime API, "Stream management", "Stream synchronization behavior", "Execution
// control" (host functions).

#include <atomic>
#include <cstdint>
#include <vector>

#include "tests/virtual_gpu/conformance/rule.h"

namespace conformance {
namespace {

// A host function that notes its turn.
struct Turn {
  std::vector<int>* turns;
  int number;
};
void Note(void* data) {
  auto* turn = static_cast<Turn*>(data);
  turn->turns->push_back(turn->number);
}
void Raise(void* flag) {
  static_cast<std::atomic<bool>*>(flag)->store(true);
}

// "The default stream has priority 0"; numerically lower is higher. Priorities outside
// the range are clamped (cudaStreamCreateWithPriority).
void PrioritiesAreClamped() {
  int least = 1;
  int greatest = 1;
  EXPECT_OK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  EXPECT_THAT(least == 0 && greatest <= 0);
  cudaStream_t stream;
  EXPECT_OK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, -1000));
  int priority = 1;
  EXPECT_OK(cudaStreamGetPriority(stream, &priority));
  EXPECT_THAT(priority == greatest);
  unsigned flags = 0;
  EXPECT_OK(cudaStreamGetFlags(stream, &flags));
  EXPECT_THAT(flags == cudaStreamNonBlocking);
  EXPECT_OK(cudaStreamDestroy(stream));
}

// cudaStreamCreateWithFlags: "cudaErrorInvalidValue" for flags that do not exist.
void FlagsAreChecked() {
  cudaStream_t stream;
  EXPECT_ERROR(cudaErrorInvalidValue, cudaStreamCreateWithFlags(&stream, 0x40));
}

// The driver API's handles are pointers to opaque structures (CUstream_st, CUevent_st),
// and so aligned. PyTorch's c10::StreamId relies on the lowest bit of a stream's.
void HandlesAreAligned() {
  for (int i = 0; i < 3; ++i) {
    cudaStream_t stream;
    cudaEvent_t event;
    EXPECT_OK(cudaStreamCreate(&stream));
    EXPECT_OK(cudaEventCreate(&event));
    EXPECT_THAT(reinterpret_cast<uintptr_t>(stream) % 8 == 0);
    EXPECT_THAT(reinterpret_cast<uintptr_t>(event) % 8 == 0);
  }
}

// cudaStreamGetId: the id is unique for the life of the program.
void StreamsHaveDistinctIds() {
  cudaStream_t first;
  cudaStream_t second;
  EXPECT_OK(cudaStreamCreate(&first));
  EXPECT_OK(cudaStreamCreate(&second));
  unsigned long long a = 0;
  unsigned long long b = 0;
  EXPECT_OK(cudaStreamGetId(first, &a));
  EXPECT_OK(cudaStreamGetId(second, &b));
  EXPECT_THAT(a != b);
  EXPECT_OK(cudaStreamDestroy(first));
  EXPECT_OK(cudaStreamDestroy(second));
}

// cudaStreamSynchronize: "Blocks until stream has completed all operations"; after it
// cudaStreamQuery "Returns cudaSuccess if all operations in stream have completed".
void SynchronizedStreamIsComplete() {
  cudaStream_t stream;
  EXPECT_OK(cudaStreamCreate(&stream));
  void* address = nullptr;
  EXPECT_OK(cudaMalloc(&address, 1 << 20));
  for (int i = 0; i < 10; ++i)
    EXPECT_OK(cudaMemsetAsync(address, i, 1 << 20, stream));
  EXPECT_OK(cudaStreamSynchronize(stream));
  EXPECT_OK(cudaStreamQuery(stream));
  EXPECT_OK(cudaFree(address));
  EXPECT_OK(cudaStreamDestroy(stream));
}

// cudaLaunchHostFunc: the host function "will be called after all previously enqueued
// work completes" and "blocks all work that comes after it".
void HostFunctionsRunInStreamOrder() {
  cudaStream_t stream;
  EXPECT_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  std::vector<int> turns;
  Turn calls[20];
  for (int i = 0; i < 20; ++i) {
    calls[i] = {&turns, i};
    EXPECT_OK(cudaLaunchHostFunc(stream, Note, &calls[i]));
  }
  EXPECT_OK(cudaStreamSynchronize(stream));
  EXPECT_THAT(turns.size() == 20);
  for (size_t i = 0; i < turns.size(); ++i)
    EXPECT_THAT(turns[i] == static_cast<int>(i));
  EXPECT_OK(cudaStreamDestroy(stream));
}

// cudaStreamWaitEvent: "Makes all future work submitted to stream wait for all work
// captured in event."
void WaitsCarryOverToOtherStreams() {
  cudaStream_t first;
  cudaStream_t second;
  cudaEvent_t event;
  EXPECT_OK(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
  EXPECT_OK(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
  EXPECT_OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  std::atomic<bool> ran{false};
  EXPECT_OK(cudaLaunchHostFunc(first, Raise, &ran));
  EXPECT_OK(cudaEventRecord(event, first));
  EXPECT_OK(cudaStreamWaitEvent(second, event, 0));
  EXPECT_OK(cudaStreamSynchronize(second));
  EXPECT_THAT(ran.load());
  EXPECT_OK(cudaEventDestroy(event));
  EXPECT_OK(cudaStreamDestroy(first));
  EXPECT_OK(cudaStreamDestroy(second));
}

// "The legacy default stream is an implicit stream which synchronizes with all other
// streams in the same CUcontext except for non-blocking streams."
void LegacyStreamWaitsForBlockingStreams() {
  cudaStream_t stream;
  EXPECT_OK(cudaStreamCreate(&stream));
  std::atomic<bool> ran{false};
  EXPECT_OK(cudaLaunchHostFunc(stream, Raise, &ran));
  void* address = nullptr;
  EXPECT_OK(cudaMallocAsync(&address, 64, cudaStreamLegacy));
  EXPECT_OK(cudaMemsetAsync(address, 0, 64, cudaStreamLegacy));
  EXPECT_OK(cudaStreamSynchronize(cudaStreamLegacy));
  EXPECT_THAT(ran.load());
  EXPECT_OK(cudaFreeAsync(address, cudaStreamLegacy));
  EXPECT_OK(cudaStreamDestroy(stream));
}

// The other direction: work in a blocking stream begins after earlier legacy work.
void BlockingStreamsWaitForTheLegacyStream() {
  cudaStream_t stream;
  EXPECT_OK(cudaStreamCreate(&stream));
  std::atomic<bool> ran{false};
  EXPECT_OK(cudaLaunchHostFunc(cudaStreamLegacy, Raise, &ran));
  std::atomic<bool> later{false};
  EXPECT_OK(cudaLaunchHostFunc(stream, Raise, &later));
  EXPECT_OK(cudaStreamSynchronize(stream));
  EXPECT_THAT(ran.load() && later.load());
  EXPECT_OK(cudaStreamDestroy(stream));
}

// "The per-thread default stream [...] will synchronize with the legacy default
// stream."
void PerThreadStreamIsABlockingStream() {
  std::atomic<bool> ran{false};
  EXPECT_OK(cudaLaunchHostFunc(cudaStreamLegacy, Raise, &ran));
  std::atomic<bool> later{false};
  EXPECT_OK(cudaLaunchHostFunc(cudaStreamPerThread, Raise, &later));
  EXPECT_OK(cudaStreamSynchronize(cudaStreamPerThread));
  EXPECT_THAT(ran.load() && later.load());
}

// cudaDeviceSynchronize: "Blocks until the device has completed all preceding requested
// tasks." cudaStreamDestroy: "the function will return immediately and the resources
// associated with stream will be released automatically once the device has completed
// all work in stream."
void DeviceWaitCoversDestroyedStreams() {
  cudaStream_t stream;
  EXPECT_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  std::atomic<bool> ran{false};
  EXPECT_OK(cudaLaunchHostFunc(stream, Raise, &ran));
  EXPECT_OK(cudaStreamDestroy(stream));
  EXPECT_OK(cudaDeviceSynchronize());
  EXPECT_THAT(ran.load());
}

// cudaStreamIsCapturing: "cudaStreamCaptureStatusNone: The stream is not capturing."
void StreamsDoNotCaptureUnasked() {
  cudaStream_t stream;
  EXPECT_OK(cudaStreamCreate(&stream));
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusActive;
  EXPECT_OK(cudaStreamIsCapturing(stream, &status));
  EXPECT_THAT(status == cudaStreamCaptureStatusNone);
  EXPECT_OK(cudaStreamDestroy(stream));
}

constexpr Rule kRules[] = {
    {"priorities are clamped", PrioritiesAreClamped},
    {"flags are checked", FlagsAreChecked},
    {"handles are aligned", HandlesAreAligned},
    {"streams have distinct ids", StreamsHaveDistinctIds},
    {"a synchronised stream is complete", SynchronizedStreamIsComplete},
    {"host functions run in stream order", HostFunctionsRunInStreamOrder},
    {"waits carry over to other streams", WaitsCarryOverToOtherStreams},
    {"the legacy stream waits for blocking streams",
     LegacyStreamWaitsForBlockingStreams},
    {"blocking streams wait for the legacy stream",
     BlockingStreamsWaitForTheLegacyStream},
    {"the per-thread stream is a blocking stream", PerThreadStreamIsABlockingStream},
    {"a device wait covers destroyed streams", DeviceWaitCoversDestroyedStreams},
    {"streams do not capture unasked", StreamsDoNotCaptureUnasked},
};

}  // namespace

std::span<const Rule> StreamRules() {
  return kRules;
}

}  // namespace conformance
