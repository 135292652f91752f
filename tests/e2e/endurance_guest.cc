// A program that goes on for long, to see that neither it nor vrank grows.
//
//   endurance_guest collectives N      all-reduces, waiting for the device now and then
//   endurance_guest communicators N    init and split by turns, each destroyed
//   endurance_guest payload BYTES      one all-reduce of floats that the host wrote
//
// Rank 0 prints what it and vrank hold in memory after a tenth of the way, and at the
// end. `payload` checks every element on every rank.

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

void Require(bool fine, const char* what) {
  if (fine)
    return;
  fprintf(stderr, "endurance_guest: %s failed\n", what);
  exit(1);
}

long ResidentKib(pid_t pid) {
  const std::string path = "/proc/" + std::to_string(pid) + "/statm";
  FILE* file = fopen(path.c_str(), "r");
  long size = 0, resident = 0;
  Require(file != nullptr && fscanf(file, "%ld %ld", &size, &resident) == 2,
          "reading statm");
  fclose(file);
  return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

// vrank itself: the first of the processes above this one that run its file.
pid_t VrankPid() {
  const auto file_of = [](pid_t pid) {
    char name[4096];
    const std::string path = "/proc/" + std::to_string(pid) + "/exe";
    const ssize_t length = readlink(path.c_str(), name, sizeof name);
    return std::string(name, length > 0 ? static_cast<size_t>(length) : 0);
  };
  pid_t pid = getppid();
  for (;;) {
    const std::string path = "/proc/" + std::to_string(pid) + "/stat";
    FILE* file = fopen(path.c_str(), "r");
    int parent = 0;
    Require(file != nullptr && fscanf(file, "%*d (%*[^)]) %*c %d", &parent) == 1,
            "reading stat");
    fclose(file);
    if (parent <= 1 || file_of(parent) != file_of(pid))
      return pid;
    pid = parent;
  }
}

void PrintMemory(int rank, long done) {
  if (rank == 0)
    printf("memory after %ld: guest %ld KiB, vrank %ld KiB\n", done,
           ResidentKib(getpid()), ResidentKib(VrankPid()));
  fflush(stdout);
}

ncclComm_t Join(int rank, int size) {
  ncclUniqueId id;
  ncclComm_t comm = nullptr;
  Require(ncclGetUniqueId(&id) == ncclSuccess, "ncclGetUniqueId");
  Require(ncclCommInitRank(&comm, size, id, rank) == ncclSuccess, "ncclCommInitRank");
  return comm;
}

void Collectives(long count, int rank, int size) {
  ncclComm_t comm = Join(rank, size);
  float* data = nullptr;
  Require(cudaMalloc(reinterpret_cast<void**>(&data), 1 << 20) == cudaSuccess,
          "cudaMalloc");
  for (long i = 0; i < count; ++i) {
    Require(ncclAllReduce(data, data, 1024, ncclFloat, ncclSum, comm, nullptr) ==
                ncclSuccess,
            "ncclAllReduce");
    if (i % 1000 == 999)
      Require(cudaDeviceSynchronize() == cudaSuccess, "cudaDeviceSynchronize");
    if (i + 1 == count / 10 || i + 1 == count)
      PrintMemory(rank, i + 1);
  }
  Require(ncclCommDestroy(comm) == ncclSuccess, "ncclCommDestroy");
}

void Communicators(long count, int rank, int size) {
  ncclComm_t world = Join(rank, size);
  for (long i = 0; i < count; ++i) {
    ncclComm_t comm = nullptr;
    if (i % 2 == 0)
      comm = Join(rank, size);
    else
      Require(ncclCommSplit(world, 0, rank, &comm, nullptr) == ncclSuccess,
              "ncclCommSplit");
    Require(ncclCommDestroy(comm) == ncclSuccess, "ncclCommDestroy");
    if (i + 1 == count / 10 || i + 1 == count)
      PrintMemory(rank, i + 1);
  }
  Require(ncclCommDestroy(world) == ncclSuccess, "ncclCommDestroy");
}

// Small integers, whose sums are exact in any order.
float Element(int rank, size_t i) {
  return static_cast<float>((i * 7 + static_cast<size_t>(rank) * 13) % 1021);
}

void Payload(long bytes, int rank, int size) {
  const size_t count = static_cast<size_t>(bytes) / sizeof(float);
  ncclComm_t comm = Join(rank, size);
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i)
    values[i] = Element(rank, i);
  float* data = nullptr;
  const size_t size_bytes = count * sizeof(float);
  Require(cudaMalloc(reinterpret_cast<void**>(&data), size_bytes) == cudaSuccess,
          "cudaMalloc");
  Require(cudaMemcpy(data, values.data(), size_bytes, cudaMemcpyHostToDevice) ==
              cudaSuccess,
          "copy to the device");
  Require(ncclAllReduce(data, data, count, ncclFloat, ncclSum, comm, nullptr) ==
              ncclSuccess,
          "ncclAllReduce");
  Require(cudaMemcpy(values.data(), data, size_bytes, cudaMemcpyDeviceToHost) ==
              cudaSuccess,
          "copy to the host");
  for (size_t i = 0; i < count; ++i) {
    float sum = 0;
    for (int member = 0; member < size; ++member)
      sum += Element(member, i);
    if (values[i] != sum) {
      fprintf(stderr, "rank %d: element %zu is %g, not %g\n", rank, i,
              static_cast<double>(values[i]), static_cast<double>(sum));
      exit(1);
    }
  }
  printf("rank %d: %zu elements are right\n", rank, count);
  Require(ncclCommDestroy(comm) == ncclSuccess, "ncclCommDestroy");
}

}  // namespace

int main(int argc, char** argv) {
  Require(argc == 3, "usage: endurance_guest MODE N");
  const long count = atol(argv[2]);
  const int rank = atoi(getenv("RANK")), size = atoi(getenv("WORLD_SIZE"));
  Require(cudaSetDevice(atoi(getenv("LOCAL_RANK"))) == cudaSuccess, "cudaSetDevice");
  if (strcmp(argv[1], "collectives") == 0)
    Collectives(count, rank, size);
  else if (strcmp(argv[1], "communicators") == 0)
    Communicators(count, rank, size);
  else if (strcmp(argv[1], "payload") == 0)
    Payload(count, rank, size);
  else
    Require(false, "an unknown mode");
  return 0;
}
