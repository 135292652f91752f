// The communication of a data-parallel trainer, and two faults that real ones have.
//
// Every rank reads its shard of the samples, one a step, and averages gradients with
// all others after each. Ranks whose shard is longer wait for ever in their last step:
//
//   data_parallel --samples N        rank r takes samples r, r + ranks, ...: the shards
//                                    are equally long only if N divides by the ranks
//                 --drop-last        leaves out the samples that are too many
//                 --long-samples R   rank R's samples are four times as long: nothing
//                                    hangs, and every rank trains at its pace
//
// Ranks and their number come from RANK and WORLD_SIZE. The id of the communicator is
// that of NCCL_COMM_ID.

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <nvtx3/nvToolsExt.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr size_t kGradients = size_t{1} << 24;      // floats
constexpr size_t kActivations = size_t{256} << 20;  // bytes of a sample

[[noreturn]] void Fail(const char* what, const char* why) {
  fprintf(stderr, "data_parallel: %s: %s\n", what, why);
  exit(1);
}

void Check(cudaError_t error, const char* what) {
  if (error != cudaSuccess)
    Fail(what, cudaGetErrorString(error));
}

void Check(ncclResult_t result, const char* what) {
  if (result != ncclSuccess)
    Fail(what, ncclGetLastError(nullptr));
}

int FromEnvironment(const char* name) {
  const char* text = getenv(name);
  if (text == nullptr)
    Fail(name, "is not set; start one process per rank, as torchrun does");
  return atoi(text);
}

struct Options {
  int samples = 32;
  bool drop_last = false;
  int long_samples = -1;
};

Options ReadOptions(int count, char** arguments) {
  Options options;
  for (int i = 1; i < count; ++i) {
    const bool has_value = i + 1 < count;
    if (strcmp(arguments[i], "--drop-last") == 0)
      options.drop_last = true;
    else if (strcmp(arguments[i], "--samples") == 0 && has_value)
      options.samples = atoi(arguments[++i]);
    else if (strcmp(arguments[i], "--long-samples") == 0 && has_value)
      options.long_samples = atoi(arguments[++i]);
    else
      Fail(arguments[i], "is no option; see the head of data_parallel.cc");
  }
  return options;
}

void* Allocate(size_t bytes) {
  void* memory = nullptr;
  Check(cudaMalloc(&memory, bytes), "cudaMalloc");
  return memory;
}

}  // namespace

int main(int count, char** arguments) {
  const Options options = ReadOptions(count, arguments);
  const int rank = FromEnvironment("RANK"), ranks = FromEnvironment("WORLD_SIZE");
  Check(cudaSetDevice(FromEnvironment("LOCAL_RANK")), "cudaSetDevice");
  ncclUniqueId id;
  ncclComm_t everyone = nullptr;
  Check(ncclGetUniqueId(&id), "ncclGetUniqueId");
  Check(ncclCommInitRank(&everyone, ranks, id, rank), "ncclCommInitRank");

  cudaStream_t stream = nullptr;
  Check(cudaStreamCreate(&stream), "cudaStreamCreate");
  const size_t activations = kActivations * (rank == options.long_samples ? 4 : 1);
  void* const gradients = Allocate(kGradients * sizeof(float));
  void* const sample = Allocate(activations);
  const int samples =
      options.drop_last ? options.samples / ranks * ranks : options.samples;
  for (int next = rank; next < samples; next += ranks) {
    nvtxRangePushA("iteration");
    // Stands for the forward and backward pass: it takes as long as its memory.
    Check(cudaMemsetAsync(sample, 0, activations, stream), "cudaMemsetAsync");
    Check(ncclAllReduce(gradients, gradients, kGradients, ncclFloat, ncclAvg, everyone,
                        stream),
          "ncclAllReduce");
    Check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    nvtxRangePop();
  }
  Check(ncclCommDestroy(everyone), "ncclCommDestroy");
  Check(cudaFree(sample), "cudaFree");
  Check(cudaFree(gradients), "cudaFree");
}
