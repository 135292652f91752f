// How fast a held stream goes on, on this machine's first GPU.
//
//   hold_bench [ROUNDS]     default 5000
//
// One row per grid. All times are what the host sees: from the store that releases a
// hold to the word that the stream writes next (which crosses the bus twice), and from
// the launch to the service's word that the hold has begun (it looks every 20 us). The
// first row has no hold: what a stream's write takes that is launched and awaited.

#include <cuda.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "gpu_hold/driver_library.h"
#include "gpu_hold/hold_driver.h"
#include "gpu_hold/hold_service.h"
#include "gpu_hold/hold_shape.h"

namespace vrank::hold {
namespace {

using Clock = std::chrono::steady_clock;

double Microseconds(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double, std::micro>(to - from).count();
}

[[noreturn]] void Fail(const std::string& why) {
  fprintf(stderr, "hold_bench: %s\n", why.c_str());
  exit(1);
}

// The stream's words, in memory that host and device share.
class Gpu {
 public:
  Gpu() {
    std::string error;
    const DriverLibrary library(&error);
    CUresult (*init)(unsigned) = nullptr;
    CUresult (*retain)(CUcontext*, CUdevice) = nullptr;
    CUresult (*set_current)(CUcontext) = nullptr;
    CUresult (*create)(CUstream*, unsigned) = nullptr;
    CUresult (*alloc)(void**, size_t, unsigned) = nullptr;
    if (!library.Find("cuInit", &init) ||
        !library.Find("cuDevicePrimaryCtxRetain", &retain) ||
        !library.Find("cuCtxSetCurrent", &set_current) ||
        !library.Find("cuStreamCreate", &create) ||
        !library.Find("cuMemHostAlloc", &alloc) ||
        !library.Find("cuStreamWriteValue32_v2", &write_) ||
        !library.Find("cuStreamSynchronize", &synchronize_))
      Fail(error);
    CUcontext context = nullptr;
    void* word = nullptr;
    if (init(0) != CUDA_SUCCESS || retain(&context, 0) != CUDA_SUCCESS ||
        set_current(context) != CUDA_SUCCESS ||
        create(&stream_, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS ||
        alloc(&word, sizeof(uint32_t), CU_MEMHOSTALLOC_DEVICEMAP) != CUDA_SUCCESS)
      Fail("there is no GPU that gives a context, a stream and page-locked memory");
    word_ = new (word) std::atomic<uint32_t>(0);
  }

  CUstream stream() const { return stream_; }
  // Queues the next word.
  void Write() {
    if (write_(stream_, reinterpret_cast<CUdeviceptr>(word_), ++written_, 0) !=
        CUDA_SUCCESS)
      Fail("cuStreamWriteValue32 was refused");
  }
  // When the last word queued was there.
  Clock::time_point Await() const {
    while (word_->load(std::memory_order_acquire) != written_) {
    }
    return Clock::now();
  }
  void Drain() { synchronize_(stream_); }

 private:
  CUresult (*write_)(CUstream, CUdeviceptr, cuuint32_t, unsigned) = nullptr;
  CUresult (*synchronize_)(CUstream) = nullptr;
  CUstream stream_ = nullptr;
  std::atomic<uint32_t>* word_ = nullptr;
  uint32_t written_ = 0;
};

void Print(const char* what, std::vector<double> times) {
  std::sort(times.begin(), times.end());
  const auto at = [&](double share) {
    return times[std::min(
        times.size() - 1,
        static_cast<size_t>(share * static_cast<double>(times.size())))];
  };
  printf("%-42s %8.2f %8.2f %8.2f %8.2f\n", what, times.front(), at(0.5), at(0.99),
         times.back());
}

void Measure(Gpu& gpu, HoldDriver* driver, uint32_t channels, int rounds) {
  std::atomic<uint32_t> begun{0};
  HoldService::Options options;
  options.on_arrival = [&](HoldRing*, const HoldArrival& arrival) {
    begun.store(arrival.epoch, std::memory_order_release);
  };
  options.emulator_lives = [] { return true; };
  HoldService service(driver, options);
  HoldRing* const ring = service.Open();
  if (ring == nullptr)
    Fail("no memory for a ring");
  HoldLaunch launch;
  ShapeInput input;
  input.bytes = uint64_t{1} << 30;
  input.ranks = 8;
  input.channels = channels;
  launch.shape = ShapeOf(input);
  launch.stream = gpu.stream();
  std::vector<double> told, released;
  for (int round = 0; round < rounds; ++round) {
    std::string error;
    const auto launched = Clock::now();
    if (!service.Begin(ring, launch, &error))
      Fail(error);
    gpu.Write();
    const auto epoch = static_cast<uint32_t>(round) + 1;
    while (begun.load(std::memory_order_acquire) != epoch) {
    }
    told.push_back(Microseconds(launched, Clock::now()));
    // Somewhere in the device's round of looks.
    std::this_thread::sleep_for(std::chrono::microseconds(50 + round % 7));
    const auto release = Clock::now();
    service.Release(ring, epoch);
    released.push_back(Microseconds(release, gpu.Await()));
  }
  gpu.Drain();
  const std::string grid = std::to_string(launch.shape.ctas) + " CTAs of " +
                           std::to_string(launch.shape.threads);
  Print((grid + ": release to progress").c_str(), released);
  Print((grid + ": launch to notice").c_str(), told);
  service.Close(ring);
}

int Main(int argc, char** argv) {
  const int rounds = argc > 1 ? atoi(argv[1]) : 5000;
  if (rounds <= 0)
    Fail("ROUNDS is a number above 0");
  Gpu gpu;
  std::string error;
  const std::unique_ptr<HoldDriver> driver = MakeGpuHoldDriver(&error);
  if (driver == nullptr)
    Fail(error);
  printf("%-42s %8s %8s %8s %8s\n", "microseconds", "least", "p50", "p99", "most");
  std::vector<double> bare;
  for (int round = 0; round < rounds; ++round) {
    const auto begin = Clock::now();
    gpu.Write();
    bare.push_back(Microseconds(begin, gpu.Await()));
  }
  Print("no hold: a word launched and awaited", bare);
  for (const uint32_t channels : {1U, 4U, 16U, 32U})
    Measure(gpu, driver.get(), channels, rounds);
  return 0;
}

}  // namespace
}  // namespace vrank::hold

int main(int argc, char** argv) {
  return vrank::hold::Main(argc, argv);
}
