// Programs of a few calls, each of which begins or ends in a way of its own.
//
//   short_programs_guest NAME   runs one; without a name, prints the names

#include <cuda_runtime_api.h>
#include <time.h>

#include <cstdio>
#include <cstring>

#include "hand_made_kernel.h"
#include "random_support.h"

namespace {

constexpr size_t kCount = 1 << 18;

float* Allocate() {
  float* memory = nullptr;
  CHECK_CUDA(cudaMalloc(reinterpret_cast<void**>(&memory), kCount * sizeof(float)));
  return memory;
}

cudaStream_t NewStream() {
  cudaStream_t stream = nullptr;
  CHECK_CUDA(cudaStreamCreate(&stream));
  return stream;
}

cudaEvent_t NewEvent() {
  cudaEvent_t event = nullptr;
  CHECK_CUDA(cudaEventCreate(&event));
  return event;
}

// --- The first call makes the context ------------------------------------------------

void FirstMalloc() {
  CHECK_CUDA(cudaFree(Allocate()));
}

void FirstFreeOfNothing() {
  CHECK_CUDA(cudaFree(nullptr));
  Allocate();
}

void FirstSetDevice() {
  CHECK_CUDA(cudaSetDevice(0));
  Allocate();
}

void FirstStream() {
  CHECK_CUDA(cudaStreamSynchronize(NewStream()));
}

void FirstEvent() {
  NewEvent();
  Allocate();
}

void FirstLaunch() {
  CHECK_CUDA(LaunchScale(nullptr, nullptr, 1024, nullptr));
  CHECK_CUDA(cudaStreamSynchronize(nullptr));
}

void FirstHostMemory() {
  float* host = nullptr;
  CHECK_CUDA(cudaMallocHost(reinterpret_cast<void**>(&host), kCount * sizeof(float)));
  CHECK_CUDA(
      cudaMemcpy(Allocate(), host, kCount * sizeof(float), cudaMemcpyHostToDevice));
}

void FirstQuestion() {
  int devices = 0;
  cudaDeviceProp properties;
  CHECK_CUDA(cudaGetDeviceCount(&devices));
  CHECK_CUDA(cudaGetDeviceProperties(&properties, 0));
  Allocate();
}

void FirstSynchronize() {
  CHECK_CUDA(cudaDeviceSynchronize());
}

// --- The last call waits for nothing -------------------------------------------------

void LastDeviceWait() {
  float* const memory = Allocate();
  CHECK_CUDA(cudaMemset(memory, 0, kCount));
  CHECK_CUDA(cudaDeviceSynchronize());
  CHECK_CUDA(cudaFree(memory));
  CHECK_CUDA(cudaDeviceSynchronize());
}

void LastStreamWait() {
  cudaStream_t const stream = NewStream();
  Allocate();
  CHECK_CUDA(cudaStreamSynchronize(stream));
}

void LastEventWait() {
  Allocate();
  CHECK_CUDA(cudaEventSynchronize(NewEvent()));
}

void LastQuestions() {
  Allocate();
  CHECK_CUDA(cudaStreamQuery(nullptr));
  CHECK_CUDA(cudaEventQuery(NewEvent()));
}

void LastElapsedTime() {
  cudaEvent_t const begin = NewEvent(), end = NewEvent();
  CHECK_CUDA(cudaEventRecord(begin, nullptr));
  CHECK_CUDA(LaunchScale(Allocate(), Allocate(), kCount, nullptr));
  CHECK_CUDA(cudaEventRecord(end, nullptr));
  CHECK_CUDA(cudaDeviceSynchronize());
  float milliseconds = 0;
  CHECK_CUDA(cudaEventElapsedTime(&milliseconds, begin, end));
}

void LastReadingOfTheClock() {
  LastDeviceWait();
  Nanoseconds();
}

void LastSleep() {
  LastDeviceWait();
  const timespec second{1, 0};
  nanosleep(&second, nullptr);
  CHECK_CUDA(cudaDeviceSynchronize());
}

void LastLaunch() {
  CHECK_CUDA(LaunchScale(Allocate(), Allocate(), kCount, nullptr));
}

void LastReset() {
  CHECK_CUDA(LaunchScale(Allocate(), Allocate(), kCount, nullptr));
  CHECK_CUDA(cudaDeviceReset());
}

void ResetInBetween() {
  LastReset();
  FirstMalloc();
}

// --- Captures ------------------------------------------------------------------------

// `clone`: a clone is launched.
void Fork(bool clone) {
  cudaStream_t const main = NewStream(), side = NewStream();
  cudaEvent_t const fork = NewEvent(), join = NewEvent();
  float *a = Allocate(), *b = Allocate();
  CHECK_CUDA(cudaStreamBeginCapture(main, cudaStreamCaptureModeGlobal));
  CHECK_CUDA(LaunchScale(a, b, kCount, main));
  CHECK_CUDA(cudaEventRecord(fork, main));
  CHECK_CUDA(cudaStreamWaitEvent(side, fork, 0));
  CHECK_CUDA(LaunchScale(a, b, kCount, side));
  CHECK_CUDA(LaunchScale(b, a, kCount / 2, main));
  CHECK_CUDA(cudaEventRecord(join, side));
  CHECK_CUDA(cudaStreamWaitEvent(main, join, 0));
  CHECK_CUDA(cudaMemsetAsync(a, 0, kCount, main));
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  CHECK_CUDA(cudaStreamEndCapture(main, &graph));
  if (clone)
    CHECK_CUDA(cudaGraphClone(&graph, graph));
  CHECK_CUDA(cudaGraphInstantiate(&exec, graph, 0));
  for (cudaStream_t stream : {main, side, main, static_cast<cudaStream_t>(nullptr)})
    CHECK_CUDA(cudaGraphLaunch(exec, stream));
  CHECK_CUDA(cudaDeviceSynchronize());
}

void CapturedFork() {
  Fork(false);
}

void ClonedFork() {
  Fork(true);
}

// What is captured and never launched does nothing.
void CaptureAlone() {
  cudaStream_t const stream = NewStream();
  float* const memory = Allocate();
  cudaGraph_t graph = nullptr;
  CHECK_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  CHECK_CUDA(LaunchScale(memory, memory, kCount, stream));
  CHECK_CUDA(cudaStreamEndCapture(stream, &graph));
}

// --- Kernels of unknown size ---------------------------------------------------------

// One block with a pointer to the last 2 of 32 GiB: by its launch it takes no time to
// speak of, beside the memsets.
void SmallGuessAtMuchMemory() {
  constexpr size_t kBytes = size_t{32} << 30, kReached = size_t{2} << 30;
  char* memory = nullptr;
  CHECK_CUDA(cudaMalloc(reinterpret_cast<void**>(&memory), kBytes));
  auto* const last = reinterpret_cast<float*>(memory + kBytes - kReached);
  for (int i = 0; i < 4; ++i) {
    CHECK_CUDA(LaunchScale(last, last, 256, nullptr));
    CHECK_CUDA(cudaMemset(memory, 0, kBytes));
  }
  CHECK_CUDA(cudaDeviceSynchronize());
}

constexpr struct {
  const char* name;
  void (*run)();
} kPrograms[] = {
#define PROGRAM(name) \
  { #name, name }
    PROGRAM(FirstMalloc),
    PROGRAM(FirstFreeOfNothing),
    PROGRAM(FirstSetDevice),
    PROGRAM(FirstStream),
    PROGRAM(FirstEvent),
    PROGRAM(FirstLaunch),
    PROGRAM(FirstHostMemory),
    PROGRAM(FirstQuestion),
    PROGRAM(FirstSynchronize),
    PROGRAM(LastDeviceWait),
    PROGRAM(LastStreamWait),
    PROGRAM(LastEventWait),
    PROGRAM(LastQuestions),
    PROGRAM(LastElapsedTime),
    PROGRAM(LastReadingOfTheClock),
    PROGRAM(LastSleep),
    PROGRAM(LastLaunch),
    PROGRAM(LastReset),
    PROGRAM(ResetInBetween),
    PROGRAM(CapturedFork),
    PROGRAM(ClonedFork),
    PROGRAM(CaptureAlone),
    PROGRAM(SmallGuessAtMuchMemory),
#undef PROGRAM
};

}  // namespace

int main(int argc, char** argv) {
  for (const auto& program : kPrograms) {
    if (argc < 2)
      printf("%s\n", program.name);
    else if (strcmp(argv[1], program.name) == 0)
      program.run();
  }
  return 0;
}
