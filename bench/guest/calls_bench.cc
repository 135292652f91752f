// What the calls of a training program cost it, end to end: a real rank of a real run.
//
//   vrank emulate --world-size 8 --layout tp=8 --real 0 -- calls_bench
//
// Each row is timed in bursts that the launch queue and the ring hold, so that the
// emulator's speed does not matter, and between bursts the device is waited for.
// Printed are the fastest burst and the median, in nanoseconds of real time per call,
// and the median of the calling thread's CPU time. Both clocks are read by raw system
// calls: clock_gettime would tell the emulated one. The rows that ask the emulator
// ("blocking") need a second core for it.
//
// What being traced costs is the difference to the same run with `vrank trace`: of a
// launch it is that of two records, the call's and the kernel's.
//
//   vrank trace --world-size 8 --layout tp=8 --ranks 0 -o slices -- calls_bench
//
// Targets: a launch < 300 ns, a collective < 2 us on the calling thread, a transfer in
// a group < 1 us with any number of peers (give a larger world size), a question whose
// answer is known < 200 ns, a blocking one < 10 us; a record of a trace < 300 ns.

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

// What nvcc generates calls to (crt/host_runtime.h of the toolkit).
extern "C" {
void** __cudaRegisterFatBinary(void* image);
void __cudaRegisterFunction(void** image, const char* host_function,
                            char* device_function, const char* device_name,
                            int thread_limit, uint3* thread_id, uint3* block_id,
                            dim3* block, dim3* grid, int* warp_size);
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes,
                                     CUstream_st* stream);
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared_bytes,
                                       void* stream);
}

namespace {

constexpr int kBursts = 400;
constexpr int kCallsPerBurst = 200;
constexpr size_t kCount = 1 << 20;

void Check(bool fine, const char* what) {
  if (fine)
    return;
  fprintf(stderr, "calls_bench: %s failed\n", what);
  exit(1);
}

double RealNanoseconds(clockid_t clock) {
  timespec now;
  syscall(SYS_clock_gettime, clock, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

// Times `call`; `prepare` runs before each burst, outside of the time.
template <typename Prepare, typename Function>
void Measure(const char* name, int calls, Prepare prepare, Function call,
             int count = kBursts) {
  for (int i = 0; i < calls; ++i)
    call();
  std::vector<double> bursts, cpu;
  for (int burst = 0; burst < count; ++burst) {
    prepare();
    const double cpu_begin = RealNanoseconds(CLOCK_THREAD_CPUTIME_ID);
    const double begin = RealNanoseconds(CLOCK_MONOTONIC);
    for (int i = 0; i < calls; ++i)
      call();
    bursts.push_back((RealNanoseconds(CLOCK_MONOTONIC) - begin) / calls);
    cpu.push_back((RealNanoseconds(CLOCK_THREAD_CPUTIME_ID) - cpu_begin) / calls);
  }
  std::sort(bursts.begin(), bursts.end());
  std::sort(cpu.begin(), cpu.end());
  printf("%-44s %9.0f ns %9.0f ns %9.0f ns\n", name, bursts.front(),
         bursts[bursts.size() / 2], cpu[cpu.size() / 2]);
  fflush(stdout);
}

const char stub = 0;
float* data;

void Launch() {
  const float* in = data;
  unsigned long count = kCount;
  void* arguments[] = {&data, &in, &count};
  Check(cudaLaunchKernel(&stub, dim3(4096, 1, 1), dim3(256, 1, 1), arguments, 0,
                         nullptr) == cudaSuccess,
        "cudaLaunchKernel");
}

// kernel<<<4096, 256>>>(...), as nvcc 13 expands it.
void LaunchWithChevrons() {
  if (__cudaPushCallConfiguration(dim3(4096, 1, 1), dim3(256, 1, 1), 0, nullptr) != 0)
    return;
  dim3 grid, block;
  size_t shared_bytes = 0;
  cudaStream_t stream = nullptr;
  Check(
      __cudaPopCallConfiguration(&grid, &block, &shared_bytes, &stream) == cudaSuccess,
      "__cudaPopCallConfiguration");
  const float* in = data;
  unsigned long count = kCount;
  void* arguments[] = {&data, &in, &count};
  Check(cudaLaunchKernel(&stub, grid, block, arguments, shared_bytes, stream) ==
            cudaSuccess,
        "cudaLaunchKernel");
}

}  // namespace

int main() {
  const int rank = atoi(getenv("RANK")), size = atoi(getenv("WORLD_SIZE"));
  __cudaRegisterFunction(__cudaRegisterFatBinary(nullptr), &stub, nullptr,
                         "_Z5scalePfPKfm", -1, nullptr, nullptr, nullptr, nullptr,
                         nullptr);
  ncclUniqueId id;
  ncclComm_t comm = nullptr;
  Check(ncclGetUniqueId(&id) == ncclSuccess, "ncclGetUniqueId");
  Check(ncclCommInitRank(&comm, size, id, rank) == ncclSuccess, "ncclCommInitRank");
  Check(cudaMalloc(reinterpret_cast<void**>(&data), kCount * sizeof(float)) ==
            cudaSuccess,
        "cudaMalloc");
  cudaEvent_t event = nullptr;
  Check(cudaEventCreate(&event) == cudaSuccess, "cudaEventCreate");
  const auto idle = [] {
    Check(cudaDeviceSynchronize() == cudaSuccess, "cudaDeviceSynchronize");
  };

  printf("%-44s %12s %12s %12s\n", "call", "fastest", "median", "median CPU");
  Measure("kernel<<<grid, block>>>(3 arguments)", kCallsPerBurst, idle,
          LaunchWithChevrons);
  Measure("cudaLaunchKernel, 3 arguments", kCallsPerBurst, idle, Launch);
  Measure("ncclAllReduce", kCallsPerBurst, idle, [&] {
    Check(ncclAllReduce(data, data, kCount, ncclFloat, ncclSum, comm, nullptr) ==
              ncclSuccess,
          "ncclAllReduce");
  });
  // An exchange with every other rank, as PyTorch's all-to-all writes it.
  const int transfers = 2 * (size - 1);
  int transfer = 0;
  Measure(
      "ncclSend or ncclRecv in a group", transfers, idle,
      [&] {
        if (transfer == 0)
          ncclGroupStart();
        const int peer = (rank + 1 + transfer / 2) % size;
        const ncclResult_t result =
            transfer % 2 == 0 ? ncclSend(data, 64, ncclFloat, peer, comm, nullptr)
                              : ncclRecv(data, 64, ncclFloat, peer, comm, nullptr);
        Check(result == ncclSuccess, "a transfer");
        transfer = (transfer + 1) % transfers;
        if (transfer == 0)
          Check(ncclGroupEnd() == ncclSuccess, "ncclGroupEnd");
      },
      10);
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  Measure("pthread_mutex_lock and pthread_mutex_unlock", kCallsPerBurst, idle, [&] {
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
  });
  Measure("cudaEventRecord", kCallsPerBurst, idle,
          [&] { cudaEventRecord(event, nullptr); });
  const auto record = [&] {
    Launch();
    cudaEventRecord(event, nullptr);
    idle();
    Check(cudaEventQuery(event) == cudaSuccess, "cudaEventQuery");
  };
  Measure("cudaEventQuery, answer known", kCallsPerBurst, record,
          [&] { cudaEventQuery(event); });
  Measure("cudaEventSynchronize, answer known", kCallsPerBurst, record,
          [&] { cudaEventSynchronize(event); });
  Measure("a launch and a blocking cudaStreamSynchronize", 20, idle, [] {
    Launch();
    cudaStreamSynchronize(nullptr);
  });
  return 0;
}
