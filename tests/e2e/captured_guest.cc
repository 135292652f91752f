// A rank whose iterations are launches of a CUDA graph with collectives inside.
//
//   captured_guest [--check] [--iterations N] [--child | --update | --clone]
//
// The graph forks into two streams with a communicator each (pairs of ranks, and the
// world), sends along a ring, and joins; a second graph holds a copy from the host, a
// sum over the world, and the copy back; a third one, made anew in each iteration,
// holds fused collectives and a communicator of one rank, and is launched in a blocking
// stream and in the legacy default stream. Between launches the program communicates
// eagerly.
//
// --child: the second graph is launched as a child of another one. --update: it is
// updated in each iteration. --clone: what is launched are clones of clones, the first
// of which are launched themselves and outlive what they were made from.
//
// --check: the sums that come back must be those of what all ranks sent, which they are
// where all ranks are real.

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <nvtx3/nvToolsExt.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "hand_made_kernel.h"
#include "random_support.h"

namespace {

constexpr size_t kCount = 1 << 20;
constexpr size_t kWords = 64;

int FromEnvironment(const char* name) {
  const char* text = getenv(name);
  return text == nullptr ? 0 : atoi(text);
}

class Guest {
 public:
  Guest(int rank, int size) : rank_(rank), size_(size) {
    CHECK_CUDA(cudaSetDevice(FromEnvironment("LOCAL_RANK")));
    ncclUniqueId id;
    CHECK_NCCL(ncclGetUniqueId(&id));
    CHECK_NCCL(ncclCommInitRank(&world_, size, id, rank));
    CHECK_NCCL(ncclCommSplit(world_, rank / 2, rank, &pair_, nullptr));
    CHECK_NCCL(ncclCommSplit(world_, rank, rank, &self_, nullptr));
    CHECK_CUDA(cudaStreamCreate(&blocking_));
    CHECK_CUDA(cudaStreamCreateWithFlags(&main_, cudaStreamNonBlocking));
    CHECK_CUDA(cudaStreamCreateWithFlags(&side_, cudaStreamNonBlocking));
    CHECK_CUDA(cudaEventCreateWithFlags(&fork_, cudaEventDisableTiming));
    CHECK_CUDA(cudaEventCreateWithFlags(&join_, cudaEventDisableTiming));
    for (float** buffer : {&a_, &b_, &received_})
      CHECK_CUDA(cudaMalloc(reinterpret_cast<void**>(buffer), kCount * sizeof(float)));
    CHECK_CUDA(cudaMalloc(reinterpret_cast<void**>(&gathered_),
                          kCount * sizeof(float) * static_cast<size_t>(size)));
    CHECK_CUDA(cudaMalloc(reinterpret_cast<void**>(&words_), kWords * sizeof(int)));
    CHECK_CUDA(
        cudaMallocHost(reinterpret_cast<void**>(&host_), 2 * kWords * sizeof(int)));
  }

  bool child = false, update = false, clone = false;

  void Run(int iterations, bool check) {
    cudaGraphExec_t step = Capture([&] { Step(); });
    cudaGraphExec_t sum = Capture([&] { SumWords(); });
    cudaGraphExec_t inner = nullptr;
    if (child) {
      inner = sum;
      sum = Capture([&] { CHECK_CUDA(cudaGraphLaunch(inner, main_)); });
    }
    for (int iteration = 0; iteration < iterations; ++iteration) {
      nvtxRangePushA("iteration");
      for (size_t i = 0; i < kWords; ++i)
        host_[i] = Word(rank_, iteration, i);
      for (int micro_batch = 0; micro_batch < 3; ++micro_batch)
        CHECK_CUDA(cudaGraphLaunch(step, main_));
      if (update)
        Update(sum);
      CHECK_CUDA(cudaGraphLaunch(sum, main_));
      MixedInManyStreams();
      CHECK_NCCL(ncclAllReduce(b_, b_, kCount / 4, ncclFloat, ncclMax, pair_, main_));
      CHECK_CUDA(cudaStreamSynchronize(main_));
      nvtxRangePop();
      if (check)
        Check(iteration);
    }
    CHECK_CUDA(cudaGraphExecDestroy(step));
    CHECK_CUDA(cudaGraphExecDestroy(sum));
    // A communicator is released once no graph holds operations of it.
    if (inner != nullptr)
      CHECK_CUDA(cudaGraphExecDestroy(inner));
    CHECK_NCCL(ncclCommDestroy(self_));
    CHECK_NCCL(ncclCommDestroy(pair_));
    CHECK_NCCL(ncclCommDestroy(world_));
    printf("rank %d done\n", rank_);
  }

 private:
  static int Word(int rank, int iteration, size_t index) {
    return rank * 1000 + iteration * 17 + static_cast<int>(index);
  }

  template <typename Calls>
  cudaGraph_t CaptureGraph(Calls calls) {
    cudaGraph_t graph = nullptr;
    CHECK_CUDA(cudaStreamBeginCapture(main_, cudaStreamCaptureModeThreadLocal));
    calls();
    CHECK_CUDA(cudaStreamEndCapture(main_, &graph));
    return graph;
  }

  template <typename Calls>
  cudaGraphExec_t Capture(Calls calls) {
    cudaGraph_t graph = CaptureGraph(calls);
    cudaGraphExec_t exec = nullptr;
    if (clone)
      graph = CloneOf(graph);
    CHECK_CUDA(cudaGraphInstantiate(&exec, graph, 0));
    if (clone) {
      CHECK_CUDA(cudaGraphLaunch(exec, main_));
      CHECK_CUDA(cudaGraphExecDestroy(exec));
      graph = CloneOf(graph);
      CHECK_CUDA(cudaGraphInstantiate(&exec, graph, 0));
    }
    CHECK_CUDA(cudaGraphDestroy(graph));
    return exec;
  }

  // In the original's place.
  static cudaGraph_t CloneOf(cudaGraph_t graph) {
    cudaGraph_t copy = nullptr;
    CHECK_CUDA(cudaGraphClone(&copy, graph));
    CHECK_CUDA(cudaGraphDestroy(graph));
    return copy;
  }

  // Two branches, one per communicator, and a ring of transfers behind both.
  void Step() {
    CHECK_CUDA(LaunchScale(a_, b_, kCount, main_));
    CHECK_CUDA(cudaEventRecord(fork_, main_));
    CHECK_CUDA(cudaStreamWaitEvent(side_, fork_, 0));
    CHECK_NCCL(ncclAllReduce(a_, a_, kCount, ncclFloat, ncclSum, pair_, main_));
    CHECK_CUDA(LaunchScale(b_, a_, kCount / 2, main_));
    CHECK_NCCL(ncclAllGather(a_, gathered_, kCount, ncclFloat, world_, side_));
    CHECK_CUDA(LaunchScale(gathered_, gathered_, kCount, side_));
    CHECK_CUDA(cudaEventRecord(join_, side_));
    CHECK_CUDA(cudaStreamWaitEvent(main_, join_, 0));
    CHECK_NCCL(ncclGroupStart());
    CHECK_NCCL(ncclSend(b_, kCount / 8, ncclFloat, (rank_ + 1) % size_, world_, main_));
    CHECK_NCCL(ncclRecv(received_, kCount / 8, ncclFloat, (rank_ + size_ - 1) % size_,
                        world_, main_));
    CHECK_NCCL(ncclGroupEnd());
    CHECK_CUDA(cudaMemsetAsync(received_, 0, kCount, main_));
  }

  void Update(cudaGraphExec_t exec) {
    cudaGraph_t graph = CaptureGraph([&] { SumWords(); });
    cudaGraphExecUpdateResultInfo result{};
    CHECK_CUDA(cudaGraphExecUpdate(exec, graph, &result));
    CHECK_CUDA(cudaGraphDestroy(graph));
  }

  // Two collectives and a pair of transfers as one launch, beside a kernel; then a sum
  // of this rank alone.
  void Mixed() {
    CHECK_CUDA(cudaEventRecord(fork_, main_));
    CHECK_CUDA(cudaStreamWaitEvent(side_, fork_, 0));
    CHECK_CUDA(LaunchScale(gathered_, gathered_, kCount / 3, side_));
    CHECK_NCCL(ncclGroupStart());
    CHECK_NCCL(ncclAllReduce(a_, a_, kCount / 2, ncclFloat, ncclSum, pair_, main_));
    CHECK_NCCL(ncclBroadcast(b_, b_, kCount / 16, ncclFloat, 1, pair_, main_));
    CHECK_NCCL(ncclSend(a_, kCount / 32, ncclFloat, 1 - rank_ % 2, pair_, main_));
    CHECK_NCCL(
        ncclRecv(received_, kCount / 32, ncclFloat, 1 - rank_ % 2, pair_, main_));
    CHECK_NCCL(ncclGroupEnd());
    CHECK_NCCL(ncclAllReduce(a_, b_, kCount / 4, ncclFloat, ncclSum, self_, main_));
    CHECK_CUDA(cudaEventRecord(join_, side_));
    CHECK_CUDA(cudaStreamWaitEvent(main_, join_, 0));
  }

  void MixedInManyStreams() {
    cudaGraphExec_t mixed = Capture([&] { Mixed(); });
    CHECK_CUDA(cudaGraphLaunch(mixed, main_));
    CHECK_CUDA(cudaGraphLaunch(mixed, blocking_));
    CHECK_CUDA(LaunchScale(a_, b_, kCount / 8, nullptr));
    CHECK_CUDA(cudaGraphLaunch(mixed, nullptr));
    CHECK_CUDA(LaunchScale(b_, a_, kCount / 8, blocking_));
    CHECK_CUDA(cudaStreamSynchronize(blocking_));
    CHECK_CUDA(cudaGraphExecDestroy(mixed));
  }

  void SumWords() {
    CHECK_CUDA(cudaMemcpyAsync(words_, host_, kWords * sizeof(int),
                               cudaMemcpyHostToDevice, main_));
    CHECK_NCCL(ncclAllReduce(words_, words_, kWords, ncclInt, ncclSum, world_, main_));
    CHECK_CUDA(cudaMemcpyAsync(host_ + kWords, words_, kWords * sizeof(int),
                               cudaMemcpyDeviceToHost, main_));
  }

  void Check(int iteration) {
    for (size_t i = 0; i < kWords; ++i) {
      int expected = 0;
      for (int rank = 0; rank < size_; ++rank)
        expected += Word(rank, iteration, i);
      if (host_[kWords + i] == expected)
        continue;
      fprintf(stderr, "rank %d iteration %d word %zu: %d instead of %d\n", rank_,
              iteration, i, host_[kWords + i], expected);
      exit(1);
    }
  }

  const int rank_, size_;
  ncclComm_t world_ = nullptr, pair_ = nullptr, self_ = nullptr;
  cudaStream_t main_ = nullptr, side_ = nullptr, blocking_ = nullptr;
  cudaEvent_t fork_ = nullptr, join_ = nullptr;
  float *a_ = nullptr, *b_ = nullptr, *received_ = nullptr, *gathered_ = nullptr;
  int *words_ = nullptr, *host_ = nullptr;
};

}  // namespace

int main(int argc, char** argv) {
  bool check = false, child = false, update = false, clone = false;
  int iterations = 4;
  for (int i = 1; i < argc; ++i) {
    if (strcmp(argv[i], "--check") == 0)
      check = true;
    else if (strcmp(argv[i], "--child") == 0)
      child = true;
    else if (strcmp(argv[i], "--update") == 0)
      update = true;
    else if (strcmp(argv[i], "--clone") == 0)
      clone = true;
    else if (strcmp(argv[i], "--iterations") == 0 && i + 1 < argc)
      iterations = atoi(argv[++i]);
  }
  Guest guest(FromEnvironment("RANK"), FromEnvironment("WORLD_SIZE"));
  guest.child = child;
  guest.update = update;
  guest.clone = clone;
  guest.Run(iterations, check);
  return 0;
}
