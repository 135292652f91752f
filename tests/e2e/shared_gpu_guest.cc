// Processes of a node that use each other's GPUs.
//
//   shared_gpu_guest stray GIB       each rank takes GIB on GPU 0, beside its own GPU
//   shared_gpu_guest one GIB         rank 1 alone does, after 20 GiB on its own; so do
//   all shared_gpu_guest unset           nobody chooses a device shared_gpu_guest
//   reversed GIB    rank 0 has the last GPU, and so on
//
// Prints for each rank whether it has the memory, and what cudaMemGetInfo and NVML say
// of GPU 0. All ranks meet at the end, so that no memory is given back before.

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <nvml.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

constexpr size_t kGiB = size_t{1} << 30;

int FromEnvironment(const char* name) {
  const char* text = getenv(name);
  return text == nullptr ? 0 : atoi(text);
}

void Require(bool holds, const char* what) {
  if (holds)
    return;
  fprintf(stderr, "shared_gpu_guest: %s: %s\n", what, ncclGetLastError(nullptr));
  exit(1);
}

bool Take(size_t bytes) {
  void* address = nullptr;
  const cudaError_t error = cudaMalloc(&address, bytes);
  Require(error == cudaSuccess || error == cudaErrorMemoryAllocation, "cudaMalloc");
  cudaGetLastError();
  return error == cudaSuccess;
}

double UsedByCuda(int device) {
  size_t free_bytes = 0, total = 0;
  Require(cudaSetDevice(device) == cudaSuccess, "cudaSetDevice");
  Require(cudaMemGetInfo(&free_bytes, &total) == cudaSuccess, "cudaMemGetInfo");
  return static_cast<double>(total - free_bytes) / kGiB;
}

double UsedByNvml(unsigned device) {
  nvmlDevice_t handle = nullptr;
  nvmlMemory_t memory = {};
  Require(nvmlInit() == NVML_SUCCESS, "nvmlInit");
  Require(nvmlDeviceGetHandleByIndex(device, &handle) == NVML_SUCCESS, "handle");
  Require(nvmlDeviceGetMemoryInfo(handle, &memory) == NVML_SUCCESS, "memory");
  return static_cast<double>(memory.used) / kGiB;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2)
    return 2;
  const std::string mode = argv[1];
  const size_t bytes = argc > 2 ? static_cast<size_t>(atoi(argv[2])) * kGiB : 0;
  const int world = FromEnvironment("WORLD_SIZE"), rank = FromEnvironment("RANK");
  const int local = FromEnvironment("LOCAL_RANK");
  int own = local;
  if (mode == "reversed")
    own = FromEnvironment("LOCAL_WORLD_SIZE") - 1 - local;
  if (mode != "unset")
    Require(cudaSetDevice(own) == cudaSuccess, "cudaSetDevice");
  ncclUniqueId id;
  ncclComm_t comm = nullptr;
  Require(ncclGetUniqueId(&id) == ncclSuccess, "ncclGetUniqueId");
  Require(ncclCommInitRank(&comm, world, id, rank) == ncclSuccess, "ncclCommInitRank");
  void* few = nullptr;
  Require(cudaMalloc(&few, 512) == cudaSuccess, "cudaMalloc");
  const auto meet = [&] {
    Require(
        ncclAllReduce(few, few, 1, ncclInt32, ncclSum, comm, nullptr) == ncclSuccess,
        "ncclAllReduce");
    Require(cudaDeviceSynchronize() == cudaSuccess, "cudaDeviceSynchronize");
  };
  bool has = true;
  if (mode == "reversed")
    has = Take(bytes);
  if (mode == "one")
    has = Take(20 * kGiB);
  if (mode == "stray" || (mode == "one" && rank == 1)) {
    const bool stays = cudaSetDevice(0) == cudaSuccess && Take(bytes);
    has = has && stays;
  }
  Require(cudaSetDevice(own) == cudaSuccess, "cudaSetDevice");
  meet();
  const double by_nvml = UsedByNvml(0);
  const double used = mode == "reversed" ? 0 : UsedByCuda(0);
  printf("rank %d has %d cuda %.2f nvml %.2f\n", rank, has ? 1 : 0, used, by_nvml);
  fflush(stdout);
  Require(cudaSetDevice(own) == cudaSuccess, "cudaSetDevice");
  meet();
  return 0;
}
