// Programs that ask whether the GPU has finished, and host functions.
//
//   polling_guest NAME   runs one, and prints what its clock shows in nanoseconds

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <sched.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "random_support.h"

namespace {

constexpr size_t kBytes = size_t{2} << 30;

// Some milliseconds of work.
void Work(void* memory, cudaStream_t stream) {
  for (int i = 0; i < 20; ++i)
    CHECK_CUDA(cudaMemsetAsync(memory, 0, kBytes, stream));
}

struct Job {
  void* memory = nullptr;
  cudaStream_t stream = nullptr;
  cudaEvent_t begin = nullptr, end = nullptr;
};

Job Prepare() {
  Job job;
  CHECK_CUDA(cudaMalloc(&job.memory, kBytes));
  CHECK_CUDA(cudaStreamCreateWithFlags(&job.stream, cudaStreamNonBlocking));
  CHECK_CUDA(cudaEventCreate(&job.begin));
  CHECK_CUDA(cudaEventCreate(&job.end));
  CHECK_CUDA(cudaEventRecord(job.begin, job.stream));
  Work(job.memory, job.stream);
  CHECK_CUDA(cudaEventRecord(job.end, job.stream));
  return job;
}

// As PyTorch's allocator asks at every allocation, which makes no other call.
void AsksInPassing() {
  const Job job = Prepare();
  const long long before = Nanoseconds();
  for (int i = 0; i < 500; ++i)
    if (cudaEventQuery(job.end) != cudaErrorNotReady)
      exit(1);
  const long long asked = Nanoseconds() - before;
  CHECK_CUDA(cudaDeviceSynchronize());
  printf("%lld %lld\n", asked, Nanoseconds() - before);
}

template <typename Query>
void Poll(Query query) {
  const Job job = Prepare();
  const long long before = Nanoseconds();
  long long asked = 1;
  while (query(job) == cudaErrorNotReady)
    ++asked;
  const long long polled = Nanoseconds() - before;
  CHECK_CUDA(cudaDeviceSynchronize());
  printf("%lld %lld %lld\n", asked, polled, Nanoseconds() - before);
}

void PollsAnEvent() {
  Poll([](const Job& job) { return cudaEventQuery(job.end); });
}

void PollsAStream() {
  Poll([](const Job& job) { return cudaStreamQuery(job.stream); });
}

void PollsAndYields() {
  Poll([](const Job& job) {
    sched_yield();
    return cudaEventQuery(job.end);
  });
}

ncclComm_t World() {
  ncclUniqueId id;
  ncclComm_t world = nullptr;
  CHECK_NCCL(ncclGetUniqueId(&id));
  CHECK_NCCL(
      ncclCommInitRank(&world, atoi(getenv("WORLD_SIZE")), id, atoi(getenv("RANK"))));
  return world;
}

bool IsFirst() {
  return strcmp(getenv("RANK"), "0") == 0;
}

void Reduce(const Job& job, ncclComm_t communicator) {
  CHECK_NCCL(ncclAllReduce(job.memory, job.memory, 4, ncclFloat, ncclSum, communicator,
                           job.stream));
  CHECK_CUDA(cudaEventRecord(job.end, job.stream));
}

// The other rank sleeps before it joins.
void PollsForASleeper() {
  ncclComm_t const world = World();
  const Job job = Prepare();
  CHECK_CUDA(cudaDeviceSynchronize());
  const long long before = Nanoseconds();
  if (!IsFirst())
    usleep(30000);
  Reduce(job, world);
  while (cudaEventQuery(job.end) == cudaErrorNotReady) {
  }
  printf("%lld\n", Nanoseconds() - before);
  CHECK_NCCL(ncclCommDestroy(world));
}

// The other rank waits for this one, which asks until a time has come.
void PollsUntilALimit() {
  ncclComm_t const polled = World(), awaited = World();
  const Job job = Prepare();
  CHECK_CUDA(cudaDeviceSynchronize());
  const long long before = Nanoseconds();
  if (IsFirst()) {
    Reduce(job, polled);
    while (Nanoseconds() - before < 50'000'000)
      if (cudaEventQuery(job.end) != cudaErrorNotReady)
        exit(1);
    printf("%lld\n", Nanoseconds() - before);
  }
  cudaStream_t apart = nullptr;
  CHECK_CUDA(cudaStreamCreateWithFlags(&apart, cudaStreamNonBlocking));
  CHECK_NCCL(
      ncclAllReduce(job.memory, job.memory, 4, ncclFloat, ncclSum, awaited, apart));
  CHECK_CUDA(cudaStreamSynchronize(apart));
  if (!IsFirst()) {
    printf("%lld\n", Nanoseconds() - before);
    Reduce(job, polled);
  }
  CHECK_CUDA(cudaDeviceSynchronize());
  CHECK_NCCL(ncclCommDestroy(polled));
  CHECK_NCCL(ncclCommDestroy(awaited));
}

void CUDART_CB Sleep(void* slept_ns) {
  const long long before = Nanoseconds();
  usleep(200000);
  *static_cast<long long*>(slept_ns) = Nanoseconds() - before;
}

// Milliseconds between the events around a host function.
void HostFunction() {
  Job job = Prepare();
  CHECK_CUDA(cudaDeviceSynchronize());
  long long slept = 0;
  CHECK_CUDA(cudaEventRecord(job.begin, job.stream));
  CHECK_CUDA(cudaLaunchHostFunc(job.stream, Sleep, &slept));
  CHECK_CUDA(cudaMemsetAsync(job.memory, 0, 4, job.stream));
  CHECK_CUDA(cudaEventRecord(job.end, job.stream));
  CHECK_CUDA(cudaStreamSynchronize(job.stream));
  float milliseconds = 0;
  CHECK_CUDA(cudaEventElapsedTime(&milliseconds, job.begin, job.end));
  printf("%lld %.6f\n", slept, milliseconds);
}

// As a node of a graph, which is launched twice.
void HostNode() {
  Job job = Prepare();
  CHECK_CUDA(cudaDeviceSynchronize());
  long long slept = 0;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  CHECK_CUDA(cudaStreamBeginCapture(job.stream, cudaStreamCaptureModeGlobal));
  CHECK_CUDA(cudaLaunchHostFunc(job.stream, Sleep, &slept));
  CHECK_CUDA(cudaMemsetAsync(job.memory, 0, 4, job.stream));
  CHECK_CUDA(cudaStreamEndCapture(job.stream, &graph));
  CHECK_CUDA(cudaGraphInstantiate(&exec, graph, 0));
  CHECK_CUDA(cudaEventRecord(job.begin, job.stream));
  CHECK_CUDA(cudaGraphLaunch(exec, job.stream));
  CHECK_CUDA(cudaGraphLaunch(exec, job.stream));
  CHECK_CUDA(cudaEventRecord(job.end, job.stream));
  CHECK_CUDA(cudaStreamSynchronize(job.stream));
  float milliseconds = 0;
  CHECK_CUDA(cudaEventElapsedTime(&milliseconds, job.begin, job.end));
  printf("%lld %.6f\n", slept, milliseconds);
}

// On rank 0 alone, before an all-reduce of all ranks.
void HostFunctionOfOneRank() {
  ncclComm_t const world = World();
  Job job = Prepare();
  CHECK_CUDA(cudaDeviceSynchronize());
  long long slept = 0;
  CHECK_CUDA(cudaEventRecord(job.begin, job.stream));
  if (IsFirst())
    CHECK_CUDA(cudaLaunchHostFunc(job.stream, Sleep, &slept));
  CHECK_NCCL(
      ncclAllReduce(job.memory, job.memory, 4, ncclFloat, ncclSum, world, job.stream));
  CHECK_CUDA(cudaEventRecord(job.end, job.stream));
  CHECK_CUDA(cudaEventSynchronize(job.end));
  float milliseconds = 0;
  CHECK_CUDA(cudaEventElapsedTime(&milliseconds, job.begin, job.end));
  printf("%lld %.6f\n", slept, milliseconds);
  CHECK_NCCL(ncclCommDestroy(world));
}

constexpr struct {
  const char* name;
  void (*run)();
} kPrograms[] = {
    {"asks_in_passing", AsksInPassing},
    {"polls_an_event", PollsAnEvent},
    {"polls_a_stream", PollsAStream},
    {"polls_and_yields", PollsAndYields},
    {"polls_for_a_sleeper", PollsForASleeper},
    {"polls_until_a_limit", PollsUntilALimit},
    {"host_function", HostFunction},
    {"host_node", HostNode},
    {"host_function_of_one_rank", HostFunctionOfOneRank},
};

}  // namespace

int main(int argc, char** argv) {
  CHECK_CUDA(cudaSetDevice(atoi(getenv("LOCAL_RANK"))));
  for (const auto& program : kPrograms)
    if (argc == 2 && strcmp(argv[1], program.name) == 0)
      program.run();
  return 0;
}
