// A process with several GPUs, in every way that NCCL lets one make its communicators.
//
//   several_gpus_guest MODE GPUS
//
// all        ncclCommInitAll over GPUS devices
// group      GPUS members of the world communicator, inits in one group
// threads    the same, a thread and an init per device
// nonblocking  the same group with blocking = 0
//
// Every mode sums a number per member, written by the host and read by it, and prints
// "sum S members N" and the time of a large all-reduce in microseconds.

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

void RequireCuda(cudaError_t error, const char* what) {
  if (error == cudaSuccess)
    return;
  fprintf(stderr, "several_gpus_guest: %s: %s\n", what, cudaGetErrorString(error));
  exit(1);
}
void Require(ncclResult_t result, const char* what) {
  if (result == ncclSuccess)
    return;
  fprintf(stderr, "several_gpus_guest: %s: %s (%s)\n", what, ncclGetErrorString(result),
          ncclGetLastError(nullptr));
  exit(1);
}

int FromEnvironment(const char* name) {
  const char* text = getenv(name);
  return text == nullptr ? 0 : atoi(text);
}

constexpr size_t kLarge = 64 << 20;

struct Member {
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  int* value = nullptr;
  char* large = nullptr;
  cudaEvent_t begin = nullptr, end = nullptr;
};

void Prepare(Member* member, int device, int value) {
  RequireCuda(cudaSetDevice(device), "cudaSetDevice");
  RequireCuda(cudaStreamCreateWithFlags(&member->stream, cudaStreamNonBlocking),
              "cudaStreamCreateWithFlags");
  RequireCuda(cudaMalloc(reinterpret_cast<void**>(&member->value), sizeof(int)),
              "cudaMalloc");
  RequireCuda(cudaMalloc(reinterpret_cast<void**>(&member->large), kLarge),
              "cudaMalloc");
  RequireCuda(cudaMemcpy(member->value, &value, sizeof value, cudaMemcpyHostToDevice),
              "cudaMemcpy");
  RequireCuda(cudaEventCreate(&member->begin), "cudaEventCreate");
  RequireCuda(cudaEventCreate(&member->end), "cudaEventCreate");
}

// Streams and communicators belong to devices; the thread's device is another one.
void Sum(std::vector<Member>& members, size_t first, size_t last) {
  Require(ncclGroupStart(), "ncclGroupStart");
  for (size_t i = first; i < last; ++i)
    Require(ncclAllReduce(members[i].value, members[i].value, 1, ncclInt32, ncclSum,
                          members[i].comm, members[i].stream),
            "ncclAllReduce");
  Require(ncclGroupEnd(), "ncclGroupEnd");
  for (size_t i = first; i < last; ++i)
    RequireCuda(cudaEventRecord(members[i].begin, members[i].stream),
                "cudaEventRecord");
  Require(ncclGroupStart(), "ncclGroupStart");
  for (size_t i = first; i < last; ++i)
    Require(ncclAllReduce(members[i].large, members[i].large, kLarge, ncclInt8, ncclSum,
                          members[i].comm, members[i].stream),
            "ncclAllReduce");
  Require(ncclGroupEnd(), "ncclGroupEnd");
  for (size_t i = first; i < last; ++i)
    RequireCuda(cudaEventRecord(members[i].end, members[i].stream), "cudaEventRecord");
}

void Report(Member& member) {
  while (cudaStreamQuery(member.stream) == cudaErrorNotReady)
    std::this_thread::yield();
  int sum = 0, count = 0;
  float milliseconds = 0;
  RequireCuda(cudaMemcpy(&sum, member.value, sizeof sum, cudaMemcpyDeviceToHost),
              "cudaMemcpy");
  RequireCuda(cudaEventElapsedTime(&milliseconds, member.begin, member.end),
              "cudaEventElapsedTime");
  Require(ncclCommCount(member.comm, &count), "ncclCommCount");
  printf("sum %d members %d time %.1f us\n", sum, count,
         static_cast<double>(milliseconds) * 1000);
  fflush(stdout);
}

void InitInGroup(std::vector<Member>& members, int ranks, int first, int first_device,
                 const ncclUniqueId& id, bool blocking) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = blocking ? 1 : 0;
  Require(ncclGroupStart(), "ncclGroupStart");
  for (size_t i = 0; i < members.size(); ++i) {
    RequireCuda(cudaSetDevice(first_device + static_cast<int>(i)), "cudaSetDevice");
    Require(ncclCommInitRankConfig(&members[i].comm, ranks, id,
                                   first + static_cast<int>(i), &config),
            "ncclCommInitRankConfig");
  }
  const ncclResult_t ended = ncclGroupEnd();
  if (blocking)
    return Require(ended, "ncclGroupEnd");
  int polls = 0;
  for (Member& member : members) {
    ncclResult_t state = ncclInProgress;
    for (; state == ncclInProgress; ++polls)
      Require(ncclCommGetAsyncError(member.comm, &state), "ncclCommGetAsyncError");
    Require(state, "the communicator");
  }
  printf("%s after %s polls\n", ended == ncclInProgress ? "in progress" : "at once",
         polls > static_cast<int>(members.size()) ? "several" : "single");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3)
    return 2;
  const std::string mode = argv[1];
  const int gpus = atoi(argv[2]);
  const int world = FromEnvironment("WORLD_SIZE"), rank = FromEnvironment("RANK");
  const int first = rank * gpus, ranks = world * gpus;
  // ncclCommInitAll takes the first devices.
  const int first_device = mode == "all" ? 0 : FromEnvironment("LOCAL_RANK") * gpus;
  std::vector<Member> members(static_cast<size_t>(gpus));
  for (int i = 0; i < gpus; ++i)
    Prepare(&members[static_cast<size_t>(i)], first_device + i, 100 + first + i);
  ncclUniqueId id;
  Require(ncclGetUniqueId(&id), "ncclGetUniqueId");
  if (mode == "all") {
    std::vector<ncclComm_t> comms(members.size());
    Require(ncclCommInitAll(comms.data(), gpus, nullptr), "ncclCommInitAll");
    for (size_t i = 0; i < members.size(); ++i)
      members[i].comm = comms[i];
  } else if (mode == "group" || mode == "nonblocking") {
    InitInGroup(members, ranks, first, first_device, id, mode == "group");
  }
  std::vector<std::thread> threads;
  if (mode == "threads") {
    for (int i = 0; i < gpus; ++i)
      threads.emplace_back([&, i] {
        Member& mine = members[static_cast<size_t>(i)];
        RequireCuda(cudaSetDevice(first_device + i), "cudaSetDevice");
        Require(ncclCommInitRank(&mine.comm, ranks, id, first + i), "ncclCommInitRank");
        Sum(members, static_cast<size_t>(i), static_cast<size_t>(i) + 1);
        Report(mine);
      });
  } else {
    Sum(members, 0, members.size());
    for (Member& member : members)
      Report(member);
  }
  for (std::thread& thread : threads)
    thread.join();
  for (Member& member : members)
    Require(ncclCommDestroy(member.comm), "ncclCommDestroy");
  return 0;
}
