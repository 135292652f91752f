// A program on a GPU that is not vrank's: all-reduces on a stream, one rank late.
// Prints how long each took by its own clock, in milliseconds.
//
//   held_guest CALLS LATE_MS [FAILING_RANK]

#include <cuda.h>
#include <nccl.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace {

double NowMs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

void Check(ncclResult_t result, const char* what) {
  if (result == ncclSuccess)
    return;
  fprintf(stderr, "%s: %s: %s\n", what, ncclGetErrorString(result),
          ncclGetLastError(nullptr));
  exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  const int rank = atoi(getenv("RANK")), ranks = atoi(getenv("WORLD_SIZE"));
  const int calls = atoi(argv[1]), late_ms = atoi(argv[2]);
  const int failing = argc > 3 ? atoi(argv[3]) : -1;
  ncclUniqueId id;
  Check(ncclGetUniqueId(&id), "ncclGetUniqueId");
  ncclComm_t communicator = nullptr;
  Check(ncclCommInitRank(&communicator, ranks, id, rank), "ncclCommInitRank");
  CUstream stream = nullptr;
  cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
  CUdeviceptr buffer = 0;
  constexpr size_t kCount = 1 << 20;
  cuMemAlloc(&buffer, kCount * sizeof(float));
  auto* const data = reinterpret_cast<float*>(buffer);
  for (int i = 0; i < calls; ++i) {
    if (rank == ranks - 1)
      usleep(static_cast<useconds_t>(late_ms) * 1000);
    if (rank == failing)
      return 3;
    const double begin = NowMs();
    Check(ncclAllReduce(data, data, kCount, ncclFloat32, ncclSum, communicator,
                        reinterpret_cast<cudaStream_t>(stream)),
          "ncclAllReduce");
    cuStreamSynchronize(stream);
    printf("%.3f %lld\n", NowMs() - begin, static_cast<long long>(time(nullptr)));
  }
  Check(ncclCommDestroy(communicator), "ncclCommDestroy");
  cuMemFree(buffer);
  return 0;
}
