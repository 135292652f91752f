// Ranks that go on without one that has failed.
//
//   shrinking_guest FAILURE NOTICE LIST   rank 1 fails, the others shrink the
//   communicator
//
// FAILURE: exit (with 3), kill (by SIGKILL); pair: rank 2 exits with 4 as well, once
// the others have gone on without rank 1
//
// NOTICE: poll (query the stream, ask for an asynchronous error), watch (block, while a
// thread asks for the error and aborts the work), patience (query the stream for 300
// ms, whatever the error is), never (block; rank 1 fails once the others do)
//
// LIST, of the members to leave out: right (rank 1), other (the last rank), mixed (rank
// 0 leaves out 1, the others the last rank)
//
// A survivor says what it read of its communicator and of the new one, where it checks
// sums and places exactly, and ends with 0.

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
#include <vector>

namespace {

constexpr int kCount = 64;

void Require(bool fine, const char* what) {
  if (fine)
    return;
  fprintf(stderr, "shrinking_guest: %s failed: %s\n", what, ncclGetLastError(nullptr));
  exit(1);
}

void Nccl(ncclResult_t result, const char* what) {
  Require(result == ncclSuccess, what);
}

void Cuda(cudaError_t result, const char* what) {
  Require(result == cudaSuccess, what);
}

struct Job {
  int rank, size;
  ncclComm_t comm;
  cudaStream_t stream;
  float *data, *all;
};

double Milliseconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

ncclResult_t Issue(const Job& job, int step) {
  const std::vector<float> mine(kCount,
                                static_cast<float>((job.rank + 1) * (step + 1)));
  Cuda(cudaMemcpyAsync(job.data, mine.data(), kCount * sizeof(float),
                       cudaMemcpyHostToDevice, job.stream),
       "copying to the device");
  return ncclAllReduce(job.data, job.data, kCount, ncclFloat, ncclSum, job.comm,
                       job.stream);
}

// What a member that is lost never joins. The loss may be known by now.
void IssueInVain(const Job& job) {
  const ncclResult_t result = Issue(job, 3);
  Require(result == ncclSuccess || result == ncclRemoteError, "ncclAllReduce");
}

std::vector<float> Read(const Job& job, const float* from, int count) {
  std::vector<float> host(static_cast<size_t>(count), -1.0F);
  Cuda(cudaMemcpyAsync(host.data(), from, host.size() * sizeof(float),
                       cudaMemcpyDeviceToHost, job.stream),
       "copying to the host");
  Cuda(cudaStreamSynchronize(job.stream), "the wait");
  return host;
}

// Where members are played their bytes are made up.
bool Exact() {
  return getenv("SHRINKING_PLAYED") == nullptr;
}

// One step with every member: a sum, and who is where.
void Step(const Job& job, const std::vector<int>& members, int step) {
  Nccl(Issue(job, step), "ncclAllReduce");
  float sum = 0;
  for (const int member : members)
    sum += static_cast<float>((member + 1) * (step + 1));
  for (const float value : Read(job, job.data, kCount))
    Require(value == sum || !Exact(), "the sum");
  const auto own = static_cast<float>(job.rank);
  Cuda(cudaMemcpyAsync(job.data, &own, sizeof own, cudaMemcpyHostToDevice, job.stream),
       "copying to the device");
  Nccl(ncclAllGather(job.data, job.all, 1, ncclFloat, job.comm, job.stream),
       "ncclAllGather");
  const auto places = Read(job, job.all, static_cast<int>(members.size()));
  for (size_t i = 0; i < members.size(); ++i)
    Require(places[i] == static_cast<float>(members[i]) || !Exact(),
            "the place of a member");
}

ncclResult_t Health(const Job& job) {
  ncclResult_t health = ncclSuccess;
  Nccl(ncclCommGetAsyncError(job.comm, &health), "ncclCommGetAsyncError");
  return health;
}

std::vector<int> Excluded(const char* list, const Job& job) {
  const bool other =
      strcmp(list, "other") == 0 || (strcmp(list, "mixed") == 0 && job.rank != 0);
  return {other ? job.size - 1 : 1};
}

ncclComm_t Shrink(const Job& job, std::vector<int> excluded) {
  ncclComm_t child = nullptr;
  Nccl(ncclCommShrink(job.comm, excluded.data(), static_cast<int>(excluded.size()),
                      &child, nullptr, NCCL_SHRINK_ABORT),
       "ncclCommShrink");
  return child;
}

// Returns the communicator without the members that `list` says.
ncclComm_t NoticeAndShrink(const Job& job, const char* notice, const char* list) {
  ncclComm_t child = nullptr;
  if (strcmp(notice, "watch") == 0) {
    std::thread watcher([&] {
      while (Health(job) == ncclSuccess)
        usleep(50'000);
      child = Shrink(job, Excluded(list, job));
    });
    Cuda(cudaStreamSynchronize(job.stream), "the wait that another thread ends");
    watcher.join();
    return child;
  }
  if (strcmp(notice, "never") == 0)
    cudaStreamSynchronize(job.stream);
  const bool asks = strcmp(notice, "poll") == 0;
  for (int i = 0; asks ? Health(job) == ncclSuccess : i < 30; ++i) {
    cudaStreamQuery(job.stream);
    usleep(10'000);
  }
  return Shrink(job, Excluded(list, job));
}

void GoOnWith(Job* job, ncclComm_t child, const std::vector<int>& members) {
  Cuda(cudaStreamSynchronize(job->stream), "synchronizing after it");
  // What was never reduced has no bytes; it may be looked at.
  Read(*job, job->data, kCount);
  Require(Health(*job) == ncclRemoteError, "the asynchronous error");
  printf("rank %d: told: %s\n", job->rank, ncclGetLastError(job->comm));
  Nccl(ncclCommAbort(job->comm), "ncclCommAbort");
  job->comm = child;
  int size = 0, place = 0;
  Nccl(ncclCommCount(child, &size), "ncclCommCount");
  Nccl(ncclCommUserRank(child, &place), "ncclCommUserRank");
  Require(size == static_cast<int>(members.size()) &&
              members[static_cast<size_t>(place)] == job->rank,
          "the place in the new communicator");
  Require(Health(*job) == ncclSuccess, "the new communicator");
  const double began = Milliseconds();
  for (int step = 0; step < 5; ++step)
    Step(*job, members, step);
  Require(Milliseconds() > began, "the clock");
}

}  // namespace

int main(int argc, char** argv) {
  Require(argc == 4, "reading the arguments");
  setvbuf(stdout, nullptr, _IOLBF, 0);
  Job job{};
  job.rank = atoi(getenv("RANK"));
  job.size = atoi(getenv("WORLD_SIZE"));
  Cuda(cudaSetDevice(atoi(getenv("LOCAL_RANK"))), "cudaSetDevice");
  Cuda(cudaStreamCreateWithFlags(&job.stream, cudaStreamNonBlocking),
       "cudaStreamCreate");
  for (float** buffer : {&job.data, &job.all})
    Cuda(cudaMalloc(reinterpret_cast<void**>(buffer), 1 << 20), "cudaMalloc");
  ncclUniqueId id;
  Nccl(ncclGetUniqueId(&id), "ncclGetUniqueId");
  Nccl(ncclCommInitRank(&job.comm, job.size, id, job.rank), "ncclCommInitRank");
  std::vector<int> members;
  for (int i = 0; i < job.size; ++i)
    members.push_back(i);
  for (int step = 0; step < 3; ++step)
    Step(job, members, step);
  if (job.rank == 1) {
    // Whoever learns of the loss first has nothing to block for.
    if (strcmp(argv[2], "never") == 0)
      usleep(10'000);
    if (strcmp(argv[1], "kill") == 0)
      raise(SIGKILL);
    _exit(3);
  }
  IssueInVain(job);
  members.erase(members.begin() + 1);
  GoOnWith(&job, NoticeAndShrink(job, argv[2], argv[3]), members);
  if (strcmp(argv[1], "pair") == 0) {
    if (job.rank == 2)
      _exit(4);
    // The second member of the new communicator.
    IssueInVain(job);
    members.erase(members.begin() + 1);
    while (Health(job) == ncclSuccess)
      usleep(10'000);
    GoOnWith(&job, Shrink(job, {1}), members);
  }
  Nccl(ncclCommDestroy(job.comm), "ncclCommDestroy");
  printf("rank %d: went on with %zu\n", job.rank, members.size());
  return 0;
}
