// A training program made of random calls, to be run as several ranks.
//
//   random_guest --seed 7 --programs 100 [--steps 60] [--delay-us 300]
//
// Every rank draws the same script from the seed: collectives, groups, sends and
// receives on communicators of unequal size come in one global order, so no script
// deadlocks. What a rank does between them (work on streams, events, waits, polls,
// copies, kernels, pools, host functions, clock readings: solo_work.h) it draws from
// (seed, program, rank). It prints every time and every query answer that it sees: if
// any rank's view depended on who is real, or on how fast its process really ran, two
// runs would print different lines.
//
// --delay-us sleeps for random real times (by raw system calls, which the virtual clock
// does not see): the output must not change.

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "random_support.h"
#include "solo_work.h"

namespace {

// Words that a program sends through a collective and looks at.
constexpr size_t kWords = 512;

struct Group {
  ncclComm_t comm = nullptr;  // nullptr: this rank is not a member
  std::vector<int> ranks;     // world ranks, in order
};

int FromEnvironment(const char* name) {
  const char* text = getenv(name);
  if (text == nullptr) {
    fprintf(stderr, "random_guest: %s is not set; run it under vrank\n", name);
    exit(2);
  }
  return atoi(text);
}

class Guest {
 public:
  Guest(int rank, int size, uint64_t seed, int delay_us)
      : rank_(rank), size_(size), seed_(seed), delay_us_(delay_us), real_(rank + 1) {
    CHECK_CUDA(cudaSetDevice(FromEnvironment("LOCAL_RANK")));
    ncclUniqueId id;
    CHECK_NCCL(ncclGetUniqueId(&id));
    world_.ranks.resize(size);
    for (int i = 0; i < size; ++i)
      world_.ranks[i] = i;
    CHECK_NCCL(ncclCommInitRank(&world_.comm, size, id, rank));
    CHECK_CUDA(cudaMalloc(&buffer_, kBufferBytes));
    const size_t bytes = kWords * sizeof(float) * (size + 1);
    CHECK_CUDA(cudaMalloc(&words_, bytes));
  }

  void RunProgram(int program, int steps) {
    Random script(seed_ * 1'000'003 + program);
    Random own(script() ^ (0x9e3779b97f4a7c15u * (rank_ + 1)));
    Open(script);
    SoloWork work(rank_, buffer_, streams_);
    for (int step = 0; step < steps; ++step) {
      DelayReally();
      if (Draw(script, 3) == 0)
        Communicate(script);
      else
        work.Act(own);
    }
    CHECK_CUDA(cudaDeviceSynchronize());
    work.Close();
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
  }

  void DelayReally() {
    if (delay_us_ == 0 || Draw(real_, 4) != 0)
      return;
    timespec pause{0, Draw(real_, delay_us_) * 1000L};
    syscall(SYS_nanosleep, &pause, nullptr);
  }

  void* At(Random& random, size_t bytes) { return PlaceIn(buffer_, random, bytes); }

  // One step of the script that all members of a group take part in. Draws the same
  // numbers on every rank, whether it is a member or not.
  void Communicate(Random& script) {
    size_t which = Draw(script, static_cast<int>(groups_.size()));
    int stream = Draw(script, kStreams);
    int kind = Draw(script, 9);
    size_t bytes = DrawBytes(script);
    uint64_t more = script();
    const Group& group = groups_[which];
    if (group.comm == nullptr)
      return;
    Random shared(more);
    if (kind == 8)
      LookAtResult(group, shared, streams_[stream]);
    else if (kind == 7)
      CollectNested(which, shared, stream, bytes);
    else if (kind == 6)
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

  // Groups inside a group, on communicators of unequal size: nothing starts before the
  // outermost one ends.
  void CollectNested(size_t which, Random& shared, int stream, size_t bytes) {
    CHECK_NCCL(ncclGroupStart());
    CHECK_NCCL(ncclGroupStart());
    Collect(groups_[which], shared, 0, streams_[stream], bytes);
    CHECK_NCCL(ncclGroupStart());
    Exchange(groups_[which], shared, streams_[stream]);
    CHECK_NCCL(ncclGroupEnd());
    CHECK_NCCL(ncclGroupEnd());
    Collect(groups_[which], shared, 2, streams_[(stream + 1) % kStreams], bytes);
    CHECK_NCCL(ncclGroupEnd());
  }

  // Sends words that the host knows, the same on every rank, and copies the result
  // back: the bytes must be there, whoever of the other members is real.
  void LookAtResult(const Group& group, Random& shared, cudaStream_t stream) {
    std::vector<float> words(kWords);
    for (float& word : words)
      word = static_cast<float>(Draw(shared, 1000));
    size_t back = kWords;
    CHECK_CUDA(cudaMemcpyAsync(words_, words.data(), kWords * sizeof(float),
                               cudaMemcpyHostToDevice, stream));
    if (Draw(shared, 2) == 0) {
      CHECK_NCCL(ncclAllReduce(words_, words_ + kWords, kWords, ncclFloat, ncclSum,
                               group.comm, stream));
    } else {
      back *= group.ranks.size();
      CHECK_NCCL(ncclAllGather(words_, words_ + kWords, kWords, ncclFloat, group.comm,
                               stream));
    }
    std::vector<float> result(back);
    CHECK_CUDA(cudaMemcpyAsync(result.data(), words_ + kWords, back * sizeof(float),
                               cudaMemcpyDeviceToHost, stream));
    CHECK_CUDA(cudaStreamSynchronize(stream));
    printf("rank %d result %016" PRIx64 " at %lld\n", rank_,
           Hash(result.data(), back * sizeof(float)), Nanoseconds());
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

  int rank_, size_;
  uint64_t seed_;
  int delay_us_;
  Random real_;
  Group world_;
  std::vector<Group> groups_;
  Streams streams_{};
  void* buffer_ = nullptr;
  float* words_ = nullptr;  // what is sent, and behind it what comes back
};

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
