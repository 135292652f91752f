// What calls of CUDA cost their host thread on this machine's first GPU.
//
//   host_costs_bench [ROUNDS]     default 2000
//
// Rows are those of base/guest/host_costs.def that a program without NCCL can show: the
// id, then the median and the 90th percentile in nanoseconds. Below them, once each:
// what the first use of the driver, of a kernel and of a module costs. Queues are kept
// short, so that no launch waits for a place in one. On a machine with a GPU:
//
//   nvcc -O1 -o host_costs_bench bench/driver/host_costs_bench.cu -lcuda

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

void Check(cudaError_t error, const char* call) {
  if (error == cudaSuccess)
    return;
  fprintf(stderr, "host_costs_bench: %s: %s\n", call, cudaGetErrorString(error));
  exit(1);
}
#define CHECK(call) Check(call, #call)

__global__ void Nothing(int* out) {
  if (out != nullptr)
    *out = 1;
}

// Kernels that differ, each of which is loaded at its first launch.
template <int kNumber>
__global__ void Distinct(int* out) {
  if (out != nullptr)
    *out = kNumber * 3 + static_cast<int>(threadIdx.x) % (kNumber + 2);
}

template <typename Call>
double Nanoseconds(Call call) {
  const auto begin = Clock::now();
  call();
  return std::chrono::duration<double, std::nano>(Clock::now() - begin).count();
}

void Print(const char* id, std::vector<double> times, const char* what) {
  std::sort(times.begin(), times.end());
  printf("%-22s %12.0f %12.0f  %s\n", id, times[times.size() / 2],
         times[times.size() * 9 / 10], what);
}

class Bench {
 public:
  explicit Bench(int rounds) : rounds_(rounds) {
    CHECK(cudaStreamCreate(&stream_));
    CHECK(cudaStreamCreate(&other_));
    CHECK(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming));
    CHECK(cudaMalloc(&device_, kBytes));
    CHECK(cudaMallocHost(&pinned_, kBytes));
  }

  void Run() {
    Row("kLaunch", "<<<1, 32>>>", [&] { Nothing<<<1, 32, 0, stream_>>>(nullptr); });
    Row("kCopyAsync", "cudaMemcpyAsync, 4 KiB, page-locked to device", [&] {
      CHECK(cudaMemcpyAsync(device_, pinned_, kBytes, cudaMemcpyHostToDevice, stream_));
    });
    Row("kCopyAsync", "cudaMemsetAsync, 4 KiB",
        [&] { CHECK(cudaMemsetAsync(device_, 0, kBytes, stream_)); });
    Row("kCopyBlocking", "cudaMemcpy, 4 KiB, device to page-locked, with its wait",
        [&] { CHECK(cudaMemcpy(pinned_, device_, kBytes, cudaMemcpyDeviceToHost)); });
    Row("kEventRecord", "cudaEventRecord",
        [&] { CHECK(cudaEventRecord(event_, stream_)); });
    Row("kStreamWait", "cudaStreamWaitEvent",
        [&] { CHECK(cudaStreamWaitEvent(other_, event_, 0)); });
    Row("kQuery", "cudaEventQuery, ended", [&] { CHECK(cudaEventQuery(event_)); });
    Row("kQuery", "cudaStreamQuery, idle", [&] { CHECK(cudaStreamQuery(stream_)); });
    Row("kSynchronize", "cudaStreamSynchronize, idle",
        [&] { CHECK(cudaStreamSynchronize(stream_)); });
    Row("kSynchronize", "cudaDeviceSynchronize, idle",
        [&] { CHECK(cudaDeviceSynchronize()); });
    Row(
        "kCreate", "cudaEventCreateWithFlags, cudaEventDestroy: each",
        [&] {
          cudaEvent_t made;
          CHECK(cudaEventCreateWithFlags(&made, cudaEventDisableTiming));
          CHECK(cudaEventDestroy(made));
        },
        2);
    Row("kAttribute", "cudaGetDevice", [&] {
      int device;
      CHECK(cudaGetDevice(&device));
    });
    Row("kAttribute", "cudaMemGetInfo", [&] {
      size_t free_bytes, total_bytes;
      CHECK(cudaMemGetInfo(&free_bytes, &total_bytes));
    });
    Row("kAttribute", "cudaPointerGetAttributes", [&] {
      cudaPointerAttributes attributes;
      CHECK(cudaPointerGetAttributes(&attributes, device_));
    });
    Row("kClockRead", "steady_clock::now", [] { (void)Clock::now(); });
    Row("kYield", "sched_yield", [] { sched_yield(); });
    Allocations();
    HostFunctions();
    Graphs();
    FirstLaunches(std::make_integer_sequence<int, 64>());
  }

 private:
  static constexpr size_t kBytes = 4096;

  // `calls`: how many that one round makes.
  template <typename Call>
  void Row(const char* id, const char* what, Call call, int calls = 1) {
    std::vector<double> times;
    for (int i = 0; i < rounds_; ++i) {
      times.push_back(Nanoseconds(call) / calls);
      if (i % 64 == 63)
        CHECK(cudaDeviceSynchronize());
    }
    CHECK(cudaDeviceSynchronize());
    Print(id, std::move(times), what);
  }

  void Allocations() {
    for (const size_t bytes : {size_t{2} << 20, size_t{64} << 20, size_t{1} << 30}) {
      std::vector<double> taken, given;
      for (int i = 0; i < 50; ++i) {
        void* block = nullptr;
        taken.push_back(Nanoseconds([&] { CHECK(cudaMalloc(&block, bytes)); }));
        given.push_back(Nanoseconds([&] { CHECK(cudaFree(block)); }));
      }
      printf("%zu MiB:\n", bytes >> 20);
      Print("kMalloc", std::move(taken), "cudaMalloc");
      Print("kMalloc", std::move(given), "cudaFree");
    }
    std::vector<double> locked;
    for (int i = 0; i < 20; ++i) {
      void* block = nullptr;
      locked.push_back(
          Nanoseconds([&] { CHECK(cudaHostAlloc(&block, size_t{16} << 20, 0)); }));
      CHECK(cudaFreeHost(block));
    }
    Print("kMalloc", std::move(locked), "cudaHostAlloc, 16 MiB");
    void* block = nullptr;
    CHECK(cudaMallocAsync(&block, 1 << 20, stream_));
    CHECK(cudaFreeAsync(block, stream_));
    Row(
        "kPoolMalloc", "cudaMallocAsync, cudaFreeAsync, 1 MiB: each",
        [&] {
          CHECK(cudaMallocAsync(&block, 1 << 20, stream_));
          CHECK(cudaFreeAsync(block, stream_));
        },
        2);
  }

  // From the launch to the function's first line, and what the launch costs.
  void HostFunctions() {
    std::vector<double> launched, ran;
    for (int i = 0; i < rounds_ / 4; ++i) {
      Clock::time_point began;
      const auto begin = Clock::now();
      launched.push_back(Nanoseconds([&] {
        CHECK(cudaLaunchHostFunc(
            stream_,
            [](void* at) { *static_cast<Clock::time_point*>(at) = Clock::now(); },
            &began));
      }));
      CHECK(cudaStreamSynchronize(stream_));
      ran.push_back(std::chrono::duration<double, std::nano>(began - begin).count());
    }
    Print("kLaunch", std::move(launched), "cudaLaunchHostFunc");
    Print("kHostFunction", std::move(ran), "from its launch to its first line");
  }

  void Graphs() {
    constexpr int kNodes = 1000;
    std::vector<double> captured, instantiated, launched, one;
    for (int i = 0; i < 30; ++i) {
      cudaGraph_t graph;
      cudaGraphExec_t exec;
      captured.push_back(
          Nanoseconds([&] {
            CHECK(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
            for (int node = 0; node < kNodes; ++node)
              Nothing<<<1, 32, 0, stream_>>>(nullptr);
            CHECK(cudaStreamEndCapture(stream_, &graph));
          }) /
          kNodes);
      instantiated.push_back(
          Nanoseconds([&] { CHECK(cudaGraphInstantiate(&exec, graph, 0)); }) / kNodes);
      CHECK(cudaGraphLaunch(exec, stream_));
      CHECK(cudaStreamSynchronize(stream_));
      launched.push_back(Nanoseconds([&] { CHECK(cudaGraphLaunch(exec, stream_)); }));
      CHECK(cudaStreamSynchronize(stream_));
      CHECK(cudaGraphExecDestroy(exec));
      CHECK(cudaGraphDestroy(graph));
      CHECK(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
      Nothing<<<1, 32, 0, stream_>>>(nullptr);
      CHECK(cudaStreamEndCapture(stream_, &graph));
      CHECK(cudaGraphInstantiate(&exec, graph, 0));
      CHECK(cudaGraphLaunch(exec, stream_));
      CHECK(cudaStreamSynchronize(stream_));
      one.push_back(Nanoseconds([&] { CHECK(cudaGraphLaunch(exec, stream_)); }));
      CHECK(cudaStreamSynchronize(stream_));
      CHECK(cudaGraphExecDestroy(exec));
      CHECK(cudaGraphDestroy(graph));
    }
    Print("kGraphNode", std::move(captured), "capture of a kernel, per node of 1,000");
    Print("kGraphInstantiate", std::move(instantiated), "per node of 1,000");
    Print("kGraphLaunch", std::move(one), "a graph of one node");
    Print("kGraphLaunchNode", std::move(launched), "a graph of 1,000 nodes, in all");
  }

  template <int... kNumbers>
  void FirstLaunches(std::integer_sequence<int, kNumbers...>) {
    std::vector<double> first;
    (first.push_back(
         Nanoseconds([&] { Distinct<kNumbers><<<1, 32, 0, stream_>>>(nullptr); })),
     ...);
    CHECK(cudaDeviceSynchronize());
    Print("first launch", std::move(first), "of a kernel whose module is loaded");
  }

  const int rounds_;
  cudaStream_t stream_ = nullptr, other_ = nullptr;
  cudaEvent_t event_ = nullptr;
  void* device_ = nullptr;
  void* pinned_ = nullptr;
};

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? atoi(argv[1]) : 2000;
  if (rounds < 4) {
    fprintf(stderr, "host_costs_bench: ROUNDS must be a number of at least 4\n");
    return 2;
  }
  const double begun = Nanoseconds([] {
    if (cuInit(0) != CUDA_SUCCESS) {
      fprintf(stderr, "host_costs_bench: no GPU here\n");
      exit(1);
    }
  });
  cudaMemPool_t pool;
  int is_active = 0;
  unsigned flags = 0;
  CHECK(cudaDeviceGetDefaultMemPool(&pool, 0));
  cuDevicePrimaryCtxGetState(0, &flags, &is_active);
  const double context = Nanoseconds([] { CHECK(cudaFree(nullptr)); });
  const double module = Nanoseconds([] {
    Nothing<<<1, 32>>>(nullptr);
    CHECK(cudaGetLastError());
  });
  printf("%-22s %12s %12s\n", "id", "p50 ns", "p90 ns");
  Bench(rounds).Run();
  printf("once: cuInit %.0f us, context %.0f us, first kernel of a module %.0f us\n",
         begun / 1e3, context / 1e3, module / 1e3);
  printf("the context exists after cudaDeviceGetDefaultMemPool: %s\n",
         is_active != 0 ? "yes" : "no");
  return 0;
}
