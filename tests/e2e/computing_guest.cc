// A program that computes on its CPU in each iteration, and times that.
//
//   computing_guest MICROSECONDS   of CPU time; prints what its clock shows of it

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <nvtx3/nvToolsExt.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "random_support.h"

namespace {

constexpr int kIterations = 6;
constexpr size_t kCount = 1 << 20;

// Real, and no reading of the clock that vrank sees.
long long CpuNanoseconds() {
  timespec now{};
  syscall(SYS_clock_gettime, CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

void Compute(long long nanoseconds) {
  const long long until = CpuNanoseconds() + nanoseconds;
  while (CpuNanoseconds() < until) {
  }
}

}  // namespace

int main(int, char** arguments) {
  const long long nanoseconds = atoll(arguments[1]) * 1000;
  ncclUniqueId id;
  ncclComm_t world = nullptr;
  CHECK_NCCL(ncclGetUniqueId(&id));
  CHECK_NCCL(
      ncclCommInitRank(&world, atoi(getenv("WORLD_SIZE")), id, atoi(getenv("RANK"))));
  float* data = nullptr;
  CHECK_CUDA(cudaMalloc(reinterpret_cast<void**>(&data), kCount * sizeof(float)));
  for (int i = 0; i < kIterations; ++i) {
    nvtxRangePushA("iteration");
    CHECK_CUDA(cudaMemsetAsync(data, 0, kCount * sizeof(float), nullptr));
    const long long before = Nanoseconds();
    Compute(nanoseconds);
    printf("%lld\n", Nanoseconds() - before);
    CHECK_NCCL(ncclAllReduce(data, data, kCount, ncclFloat, ncclSum, world, nullptr));
    CHECK_CUDA(cudaStreamSynchronize(nullptr));
    nvtxRangePop();
  }
  CHECK_NCCL(ncclCommDestroy(world));
}
