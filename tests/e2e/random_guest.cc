// A training program made of random calls, to be run as several ranks.
//
//   random_guest --seed 7 --programs 100 [--steps 60] [--delay-us 300]
//
// Every rank draws the same script from the seed: collectives, groups, sends and
// receives on communicators of unequal size come in one global order, so no script
// deadlocks. What a rank does between them (work on streams, events, waits, polls,
// allocations, clock readings) it draws from (seed, program, rank). It prints every
// time and every query answer that it sees: if any rank's view depended on who is real,
// or on how fast its process really ran, two runs would print different lines.
//
// --delay-us sleeps for random real times (by raw system calls, which the virtual clock
// does not see): the output must not change.

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace {

#define CHECK_CUDA(call)                                            \
  do {                                                              \
    cudaError_t error = (call);                                     \
    if (error != cudaSuccess) {                                     \
      fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, \
              cudaGetErrorString(error));                           \
      exit(1);                                                      \
    }                                                               \
  } while (false)
#define CHECK_NCCL(call)                                            \
  do {                                                              \
    ncclResult_t result = (call);                                   \
    if (result != ncclSuccess) {                                    \
      fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, \
              ncclGetLastError(nullptr));                           \
      exit(1);                                                      \
    }                                                               \
  } while (false)

constexpr int kStreams = 4;
constexpr int kEvents = 6;
constexpr size_t kBufferBytes = size_t{256} << 20;

using Random = std::mt19937_64;

int Draw(Random& random, int below) {
  return static_cast<int>(random() % below);
}

// Mostly small, sometimes megabytes: both sides of the send credit.
size_t DrawBytes(Random& random) {
  return (size_t{4} << Draw(random, 22)) + 4 * Draw(random, 64);
}

long long Nanoseconds() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

struct Group {
  ncclComm_t comm = nullptr;  // nullptr: this rank is not a member
  std::vector<int> ranks;     // world ranks, in order
};

class Guest {
 public:
  Guest(int rank, int size, uint64_t seed, int delay_us)
      : rank_(rank), size_(size), seed_(seed), delay_us_(delay_us), real_(rank + 1) {
    CHECK_CUDA(cudaSetDevice(0));
    ncclUniqueId id;
    CHECK_NCCL(ncclGetUniqueId(&id));
    world_.ranks.resize(size);
    for (int i = 0; i < size; ++i)
      world_.ranks[i] = i;
    CHECK_NCCL(ncclCommInitRank(&world_.comm, size, id, rank));
    CHECK_CUDA(cudaMalloc(&buffer_, kBufferBytes));
  }

  void RunProgram(int program, int steps) {
    Random script(seed_ * 1'000'003 + program);
    Random own(script() ^ (0x9e3779b97f4a7c15u * (rank_ + 1)));
    Open(script);
    for (int step = 0; step < steps; ++step) {
      DelayReally();
      if (Draw(script, 3) == 0)
        Communicate(script);
      else
        ActAlone(own);
    }
    CHECK_CUDA(cudaDeviceSynchronize());
    printf("rank %d program %d ends at %lld\n", rank_, program, Nanoseconds());
    Close();
  }

 private:
  // A world and two splits of it, with colours that leave some ranks out.
  void Open(Random& script) {
    for (cudaStream_t& stream : streams_) {
      unsigned flags = Draw(script, 2) ? cudaStreamNonBlocking : cudaStreamDefault;
      CHECK_CUDA(cudaStreamCreateWithFlags(&stream, flags));
    }
    for (cudaEvent_t& event : events_)
      CHECK_CUDA(cudaEventCreate(&event));
    recorded_.fill(false);
    groups_ = {world_};
    for (int split = 0; split < 2; ++split) {
      std::vector<int> colors(size_), keys(size_);
      for (int i = 0; i < size_; ++i) {
        colors[i] = Draw(script, 4) - 1;
        keys[i] = Draw(script, 3);
      }
      Group group;
      CHECK_NCCL(
          ncclCommSplit(world_.comm, colors[rank_], keys[rank_], &group.comm, nullptr));
      for (int key = 0; group.comm != nullptr && key < 3; ++key)
        for (int i = 0; i < size_; ++i)
          if (colors[i] == colors[rank_] && keys[i] == key)
            group.ranks.push_back(i);
      groups_.push_back(group);
    }
  }

  void Close() {
    for (size_t i = 1; i < groups_.size(); ++i)
      if (groups_[i].comm != nullptr)
        CHECK_NCCL(ncclCommDestroy(groups_[i].comm));
    for (cudaStream_t stream : streams_)
      CHECK_CUDA(cudaStreamDestroy(stream));
    for (cudaEvent_t event : events_)
      CHECK_CUDA(cudaEventDestroy(event));
  }

  void DelayReally() {
    if (delay_us_ == 0 || Draw(real_, 4) != 0)
      return;
    timespec pause{0, Draw(real_, delay_us_) * 1000L};
    syscall(SYS_nanosleep, &pause, nullptr);
  }

  void* At(Random& random, size_t bytes) {
    size_t room = (kBufferBytes - bytes) / 256;
    return static_cast<char*>(buffer_) + random() % room * 256;
  }

  // One step of the script that all members of a group take part in. Draws the same
  // numbers on every rank, whether it is a member or not.
  void Communicate(Random& script) {
    size_t which = Draw(script, static_cast<int>(groups_.size()));
    int stream = Draw(script, kStreams);
    int kind = Draw(script, 7);
    size_t bytes = DrawBytes(script);
    uint64_t more = script();
    const Group& group = groups_[which];
    if (group.comm == nullptr)
      return;
    Random shared(more);
    if (kind == 6)
      Exchange(group, shared, streams_[stream]);
    else if (kind == 5)
      CollectInPairs(group, shared, stream, bytes);
    else
      Collect(group, shared, kind, streams_[stream], bytes);
  }

  void Collect(const Group& group, Random& shared, int kind, cudaStream_t stream,
               size_t bytes) {
    int members = static_cast<int>(group.ranks.size());
    size_t count = bytes / 4;
    int root = Draw(shared, members);
    void* in = At(shared, bytes * members);
    void* out = At(shared, bytes * members);
    switch (kind) {
      case 0:
        CHECK_NCCL(
            ncclAllReduce(in, out, count, ncclFloat, ncclSum, group.comm, stream));
        break;
      case 1:
        CHECK_NCCL(ncclAllGather(in, out, count, ncclFloat, group.comm, stream));
        break;
      case 2:
        CHECK_NCCL(
            ncclReduceScatter(in, out, count, ncclFloat, ncclMax, group.comm, stream));
        break;
      case 3:
        CHECK_NCCL(ncclBroadcast(in, out, count, ncclFloat, root, group.comm, stream));
        break;
      default:
        CHECK_NCCL(
            ncclReduce(in, out, count, ncclFloat, ncclSum, root, group.comm, stream));
    }
  }

  // Two collectives in one NCCL group, on two streams.
  void CollectInPairs(const Group& group, Random& shared, int stream, size_t bytes) {
    CHECK_NCCL(ncclGroupStart());
    Collect(group, shared, 0, streams_[stream], bytes);
    Collect(group, shared, 1, streams_[(stream + 1) % kStreams], bytes);
    CHECK_NCCL(ncclGroupEnd());
  }

  // A random set of sends and receives, fused.
  void Exchange(const Group& group, Random& shared, cudaStream_t stream) {
    int members = static_cast<int>(group.ranks.size());
    int transfers = 1 + Draw(shared, 2 * members);
    CHECK_NCCL(ncclGroupStart());
    for (int i = 0; i < transfers; ++i) {
      int from = Draw(shared, members), to = Draw(shared, members);
      size_t bytes = DrawBytes(shared);
      void* place = At(shared, bytes);
      if (group.ranks[from] == rank_)
        CHECK_NCCL(ncclSend(place, bytes, ncclInt8, to, group.comm, stream));
      if (group.ranks[to] == rank_)
        CHECK_NCCL(ncclRecv(place, bytes, ncclInt8, from, group.comm, stream));
    }
    CHECK_NCCL(ncclGroupEnd());
  }

  void ActAlone(Random& own) {
    cudaStream_t stream = Draw(own, 8) == 0 ? nullptr : streams_[Draw(own, kStreams)];
    int event = Draw(own, kEvents);
    size_t bytes = DrawBytes(own);
    switch (Draw(own, 12)) {
      case 0:
      case 1:
        CHECK_CUDA(cudaMemsetAsync(At(own, bytes), 0, bytes, stream));
        break;
      case 2:
        CHECK_CUDA(cudaMemcpyAsync(At(own, bytes), At(own, bytes), bytes,
                                   cudaMemcpyDeviceToDevice, stream));
        break;
      case 3:
        CHECK_CUDA(cudaEventRecord(events_[event], stream));
        recorded_[event] = true;
        break;
      case 4:
        CHECK_CUDA(cudaStreamWaitEvent(stream, events_[event], 0));
        break;
      case 5:
        CHECK_CUDA(cudaEventSynchronize(events_[event]));
        break;
      case 6:
        CHECK_CUDA(cudaStreamSynchronize(stream));
        break;
      case 7:
        printf("rank %d event %d: %d\n", rank_, event, cudaEventQuery(events_[event]));
        break;
      case 8:
        PollStream(stream);
        break;
      case 9:
        printf("rank %d clock %lld\n", rank_, Nanoseconds());
        break;
      case 10:
        MeasureEvents(own, event);
        break;
      default:
        AllocateOrSleep(own, bytes);
    }
  }

  void PollStream(cudaStream_t stream) {
    int polls = 0;
    while (cudaStreamQuery(stream) == cudaErrorNotReady && polls < 20)
      ++polls;
    printf("rank %d polled %d times until %lld\n", rank_, polls, Nanoseconds());
  }

  void MeasureEvents(Random& own, int event) {
    int other = Draw(own, kEvents);
    if (!recorded_[event] || !recorded_[other])
      return;
    CHECK_CUDA(cudaEventSynchronize(events_[event]));
    CHECK_CUDA(cudaEventSynchronize(events_[other]));
    float ms = 0;
    CHECK_CUDA(cudaEventElapsedTime(&ms, events_[event], events_[other]));
    printf("rank %d from %d to %d: %.9g ms\n", rank_, event, other, ms);
  }

  void AllocateOrSleep(Random& own, size_t bytes) {
    if (Draw(own, 2) == 0) {
      usleep(Draw(own, 500));
      return;
    }
    void* block = nullptr;
    CHECK_CUDA(cudaMalloc(&block, bytes));
    CHECK_CUDA(cudaMemset(block, 1, bytes));
    CHECK_CUDA(cudaFree(block));
  }

  int rank_, size_;
  uint64_t seed_;
  int delay_us_;
  Random real_;
  Group world_;
  std::vector<Group> groups_;
  std::array<cudaStream_t, kStreams> streams_{};
  std::array<cudaEvent_t, kEvents> events_{};
  std::array<bool, kEvents> recorded_{};
  void* buffer_ = nullptr;
};

int FromEnvironment(const char* name) {
  const char* text = getenv(name);
  if (text == nullptr) {
    fprintf(stderr, "random_guest: %s is not set; run it under vrank\n", name);
    exit(2);
  }
  return atoi(text);
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t seed = 1;
  int programs = 10, steps = 60, delay_us = 0;
  for (int i = 1; i + 1 < argc; i += 2) {
    std::string flag = argv[i];
    long value = atol(argv[i + 1]);
    if (flag == "--seed")
      seed = value;
    else if (flag == "--programs")
      programs = static_cast<int>(value);
    else if (flag == "--steps")
      steps = static_cast<int>(value);
    else if (flag == "--delay-us")
      delay_us = static_cast<int>(value);
  }
  Guest guest(FromEnvironment("RANK"), FromEnvironment("WORLD_SIZE"), seed, delay_us);
  for (int program = 0; program < programs; ++program)
    guest.RunProgram(program, steps);
  return 0;
}
