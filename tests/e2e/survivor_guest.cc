// Ranks that go on for a while after one of them has failed.
//
//   survivor_guest FAILURE REACTION     rank 1 fails, the others react
//
// FAILURE: exit (with 3), kill (by SIGKILL), early (exit with 0), other (another
// collective), hang (in something that vrank does not see), init (exit with 3 before
// the others have a communicator), sleep (a millisecond, 3,000 times, and end well),
// sleep-on (for ever)
//
// REACTION: block (in cudaStreamSynchronize), poll (NCCL's own example: query the
// stream, ask for an asynchronous error), watch (block, while a thread asks for the
// error and aborts), ignore (the error, for ever), next (issue more until a call
// fails), timeout (block, while a thread aborts after 300 ms, whatever the error is),
// patience (query the stream for 300 ms, then abort)
//
// A survivor that got NCCL's error aborts its communicator, copies to the host its
// weights, the sum of an all-reduce that it had waited for before, and that of the one
// that has failed; says so and ends with 7.

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <thread>

namespace {

void Require(bool fine, const char* what) {
  if (fine)
    return;
  fprintf(stderr, "survivor_guest: %s failed\n", what);
  exit(1);
}

struct Job {
  int rank;
  ncclComm_t comm;
  cudaStream_t stream;
  float *data, *weights, *sum;
};

ncclResult_t Reduce(const Job& job) {
  return ncclAllReduce(job.data, job.data, 1024, ncclFloat, ncclSum, job.comm,
                       job.stream);
}

ncclResult_t Health(const Job& job) {
  ncclResult_t health = ncclSuccess;
  Require(ncclCommGetAsyncError(job.comm, &health) == ncclSuccess,
          "ncclCommGetAsyncError");
  return health;
}

[[noreturn]] void End(const Job& job, ncclResult_t health, bool aborted) {
  printf("rank %d: %s: %s\n", job.rank, ncclGetErrorString(health),
         ncclGetLastError(job.comm));
  if (!aborted)
    Require(ncclCommAbort(job.comm) == ncclSuccess, "ncclCommAbort");
  Require(cudaStreamSynchronize(job.stream) == cudaSuccess, "synchronizing after it");
  float first = 0;
  Require(cudaMemcpy(&first, job.weights, sizeof first, cudaMemcpyDeviceToHost) ==
              cudaSuccess,
          "copying after it");
  Require(first == 1.5F, "the weight");
  for (const float* result : {job.sum, job.data}) {
    float value = -1;
    Require(
        cudaMemcpy(&value, result, sizeof value, cudaMemcpyDeviceToHost) == cudaSuccess,
        "copying a sum");
    printf("rank %d: %s %g\n", job.rank, result == job.sum ? "sum" : "no sum",
           static_cast<double>(value));
  }
  usleep(1000);
  printf("rank %d: saved %g\n", job.rank, static_cast<double>(first));
  exit(7);
}

double Milliseconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

// How long after it began to wait the rank goes on.
void GoOn(const Job& job, double began) {
  Require(cudaStreamSynchronize(job.stream) == cudaSuccess, "the wait");
  printf("rank %d: went on after %.1f ms\n", job.rank, Milliseconds() - began);
  exit(0);
}

void React(const char* how, const Job& job) {
  const double began = Milliseconds();
  if (strcmp(how, "timeout") == 0) {
    std::thread([&] {
      usleep(300'000);
      Require(ncclCommAbort(job.comm) == ncclSuccess, "ncclCommAbort");
    }).detach();
    GoOn(job, began);
  } else if (strcmp(how, "patience") == 0) {
    for (int i = 0; i < 30 && cudaStreamQuery(job.stream) == cudaErrorNotReady; ++i)
      usleep(10'000);
    Require(ncclCommAbort(job.comm) == ncclSuccess, "ncclCommAbort");
    GoOn(job, began);
  }
  if (strcmp(how, "block") == 0 || strcmp(how, "ignore") == 0) {
    const cudaError_t error = cudaStreamSynchronize(job.stream);
    printf("rank %d: wait: %s\n", job.rank, cudaGetErrorString(error));
    Require(error == cudaErrorLaunchTimeout, "the wait's error");
    Require(Health(job) == ncclRemoteError, "the asynchronous error");
    while (strcmp(how, "ignore") == 0)
      pause();
    Require(cudaStreamQuery(job.stream) == cudaErrorNotReady, "the stream's query");
  } else if (strcmp(how, "poll") == 0) {
    while (cudaStreamQuery(job.stream) == cudaErrorNotReady &&
           Health(job) == ncclSuccess)
      usleep(1000);
  } else if (strcmp(how, "watch") == 0) {
    std::thread([&] {
      while (Health(job) == ncclSuccess)
        usleep(100'000);
      End(job, Health(job), false);
    }).detach();
    cudaStreamSynchronize(job.stream);  // fails, or the watcher has aborted already
    pause();
  } else if (strcmp(how, "next") == 0) {
    ncclResult_t result = ncclSuccess;
    while (result == ncclSuccess) {
      result = Reduce(job);
      usleep(1000);
    }
    End(job, result, false);
  }
  End(job, Health(job), false);
}

// Each rank says on the board that it has got there; who `waits` is the last to go on.
void AwaitOthers(const char* where, bool waits, int size) {
  const std::string path = std::string(getenv("SURVIVORS_BOARD")) + "/" + where + "-";
  fclose(fopen((path + getenv("RANK")).c_str(), "w"));
  for (int rank = 0; waits && rank < size; ++rank)
    while (access((path + std::to_string(rank)).c_str(), F_OK) != 0)
      usleep(1000);
}

void Fail(const char* how, const Job& job) {
  if (strcmp(how, "exit") == 0)
    exit(3);
  if (strcmp(how, "kill") == 0)
    raise(SIGKILL);
  if (strcmp(how, "early") == 0)
    exit(0);
  if (strcmp(how, "other") == 0)
    ncclAllGather(job.data, job.data, 16, ncclFloat, job.comm, job.stream);
  const bool sleeps = strcmp(how, "sleep") == 0;
  for (int i = 0; sleeps && i < 3000; ++i)
    usleep(1000);
  if (sleeps)
    exit(0);
  while (strcmp(how, "sleep-on") == 0)
    usleep(1000);
  while (strcmp(how, "hang") == 0)
    pause();
}

}  // namespace

int main(int argc, char** argv) {
  Require(argc == 3, "reading the arguments");
  setvbuf(stdout, nullptr, _IOLBF, 0);
  Job job{};
  job.rank = atoi(getenv("RANK"));
  Require(cudaSetDevice(atoi(getenv("LOCAL_RANK"))) == cudaSuccess, "cudaSetDevice");
  Require(cudaStreamCreate(&job.stream) == cudaSuccess, "cudaStreamCreate");
  for (float** buffer : {&job.data, &job.weights, &job.sum})
    Require(cudaMalloc(reinterpret_cast<void**>(buffer), 1 << 20) == cudaSuccess,
            "cudaMalloc");
  const float weight = 1.5F;
  Require(cudaMemcpy(job.weights, &weight, sizeof weight, cudaMemcpyHostToDevice) ==
              cudaSuccess,
          "cudaMemcpy");
  const bool fails = job.rank == 1;
  const int size = atoi(getenv("WORLD_SIZE"));
  // With a context, a rank has begun.
  AwaitOthers("begun", fails, size);
  if (fails && strcmp(argv[1], "init") == 0)
    exit(3);
  ncclUniqueId id;
  Require(ncclGetUniqueId(&id) == ncclSuccess, "ncclGetUniqueId");
  const ncclResult_t made = ncclCommInitRank(&job.comm, size, id, job.rank);
  if (strcmp(argv[1], "init") == 0) {
    Require(job.comm != nullptr, "the failed communicator");
    job.sum = job.weights;  // there was none
    End(job, made, /*aborted=*/false);
  }
  Require(made == ncclSuccess, "ncclCommInitRank");
  // From here on all have it.
  Require(ncclAllReduce(job.weights, job.sum, 1, ncclFloat, ncclSum, job.comm,
                        job.stream) == ncclSuccess &&
              cudaStreamSynchronize(job.stream) == cudaSuccess,
          "the sum");
  AwaitOthers("summed", fails, size);
  Require(Reduce(job) == ncclSuccess, "ncclAllReduce");
  if (fails) {
    Require(cudaStreamSynchronize(job.stream) == cudaSuccess, "the first wait");
    Fail(argv[1], job);
  }
  const ncclResult_t issued = Reduce(job);
  // The failure may have come before that.
  while (issued != ncclSuccess && strcmp(argv[2], "ignore") == 0)
    pause();
  if (issued != ncclSuccess)
    End(job, issued, false);
  React(argv[2], job);
  return 0;
}
