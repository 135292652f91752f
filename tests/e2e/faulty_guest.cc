// Ranks that go wrong, each in one way, to see what vrank says and leaves behind.
//
//   faulty_guest MODE      MODE happens on rank 1; the other ranks wait in an
//   all-reduce
//
// crash exit early hang mismatch refused orphan memory spin

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

void Require(bool fine, const char* what) {
  if (fine)
    return;
  fprintf(stderr, "faulty_guest: %s failed\n", what);
  exit(1);
}

// Starts a process of its own session that would outlive us by an hour.
void LeaveOrphan() {
  if (fork() != 0)
    return;
  setsid();
  signal(SIGTERM, SIG_IGN);
  execlp("sleep", "sleep", "3600", nullptr);
  _exit(127);
}

// Fills the device; a failed allocation must leave it usable.
void ExhaustMemory() {
  void* block = nullptr;
  size_t taken = 0;
  while (cudaMalloc(&block, size_t{1} << 30) == cudaSuccess)
    taken += size_t{1} << 30;
  Require(cudaGetLastError() == cudaErrorMemoryAllocation, "expected out of memory");
  Require(cudaDeviceSynchronize() == cudaSuccess, "synchronise after out of memory");
  printf("took %zu GiB\n", taken >> 30);
}

void GoWrong(const char* mode, ncclComm_t comm, float* data) {
  if (strcmp(mode, "crash") == 0)
    raise(SIGSEGV);
  if (strcmp(mode, "exit") == 0)
    exit(3);
  if (strcmp(mode, "early") == 0)
    exit(0);
  if (strcmp(mode, "hang") == 0)
    for (;;)
      pause();
  if (strcmp(mode, "spin") == 0)
    for (volatile bool forever = true; forever;) {
    }
  if (strcmp(mode, "mismatch") == 0)
    ncclAllReduce(data, data, 2048, ncclFloat, ncclSum, comm, nullptr);
  if (strcmp(mode, "refused") == 0) {
    cudaGraphicsResource_t resource = nullptr;
    Require(cudaGraphicsUnregisterResource(resource) == cudaSuccess,
            "cudaGraphicsUnregisterResource");
  }
}

}  // namespace

int main(int argc, char** argv) {
  const char* mode = argc > 1 ? argv[1] : "";
  int rank = atoi(getenv("RANK")), size = atoi(getenv("WORLD_SIZE"));
  if (strcmp(mode, "orphan") == 0)
    LeaveOrphan();
  if (strcmp(mode, "memory") == 0)
    ExhaustMemory();
  ncclUniqueId id;
  ncclComm_t comm = nullptr;
  float* data = nullptr;
  Require(ncclGetUniqueId(&id) == ncclSuccess, "ncclGetUniqueId");
  Require(ncclCommInitRank(&comm, size, id, rank) == ncclSuccess, "ncclCommInitRank");
  Require(cudaMalloc(reinterpret_cast<void**>(&data), 1 << 20) == cudaSuccess,
          "cudaMalloc");
  if (rank == 1)
    GoWrong(mode, comm, data);
  Require(
      ncclAllReduce(data, data, 1024, ncclFloat, ncclSum, comm, nullptr) == ncclSuccess,
      "ncclAllReduce");
  Require(cudaDeviceSynchronize() == cudaSuccess, "cudaDeviceSynchronize");
  Require(ncclCommDestroy(comm) == ncclSuccess, "ncclCommDestroy");
  printf("rank %d done\n", rank);
  return 0;
}
