// A rank that makes a communicator in its second iteration, as a program does that
// evaluates or saves now and then: neighbours sum in every iteration, and from the
// second on so do every other ranks.
//
// --coarse: the neighbours' communicator comes then, too; before, the world sums.

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <nvtx3/nvToolsExt.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "random_support.h"

namespace {

constexpr size_t kCount = 1 << 16;
constexpr int kIterations = 3;

int FromEnvironment(const char* name) {
  const char* text = getenv(name);
  return text == nullptr ? 0 : atoi(text);
}

}  // namespace

int main(int argc, char** argv) {
  const bool coarse = argc > 1 && strcmp(argv[1], "--coarse") == 0;
  const int rank = FromEnvironment("RANK");
  const int size = FromEnvironment("WORLD_SIZE");
  float* buffer = nullptr;
  cudaStream_t stream = nullptr;
  ncclUniqueId id;
  ncclComm_t world = nullptr, pair = nullptr, column = nullptr;
  CHECK_CUDA(cudaSetDevice(FromEnvironment("LOCAL_RANK")));
  CHECK_NCCL(ncclGetUniqueId(&id));
  CHECK_NCCL(ncclCommInitRank(&world, size, id, rank));
  if (!coarse)
    CHECK_NCCL(ncclCommSplit(world, rank / 2, rank, &pair, nullptr));
  CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK_CUDA(cudaMalloc(reinterpret_cast<void**>(&buffer), kCount * sizeof(float)));
  for (int iteration = 0; iteration < kIterations; ++iteration) {
    nvtxRangePushA("iteration");
    if (iteration == 1 && coarse)
      CHECK_NCCL(ncclCommSplit(world, rank / 2, rank, &pair, nullptr));
    if (iteration == 1)
      CHECK_NCCL(ncclCommSplit(world, rank % 2, rank, &column, nullptr));
    CHECK_NCCL(ncclAllReduce(buffer, buffer, kCount, ncclFloat, ncclSum,
                             pair == nullptr ? world : pair, stream));
    if (column != nullptr)
      CHECK_NCCL(ncclAllReduce(buffer, buffer, kCount / 2, ncclFloat, ncclSum, column,
                               stream));
    CHECK_CUDA(cudaStreamSynchronize(stream));
    nvtxRangePop();
  }
  CHECK_NCCL(ncclCommDestroy(column));
  CHECK_NCCL(ncclCommDestroy(pair));
  CHECK_NCCL(ncclCommDestroy(world));
  CHECK_CUDA(cudaFree(buffer));
  printf("rank %d done\n", rank);
  return 0;
}
