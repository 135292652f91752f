// A program that computes on its CPU in each iteration, and times that.
//
//   computing_guest MICROSECONDS [process | thread MICROSECONDS | apart | logs]
//
// MICROSECONDS of CPU time; prints what its clock shows of it. "apart": between the
// iterations, in place of in them. "logs": there, too, and in front of it every third
// time the clock is read for a log. Else what follows prepares an item for each
// iteration beside it, at most two in advance.

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <nvtx3/nvToolsExt.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

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

// Items go one way, and room for another one the other way.
class Loader {
 public:
  Loader(bool in_thread, long long nanoseconds) {
    constexpr char kRoom[2] = {};
    if (pipe(items_) != 0 || pipe(room_) != 0 ||
        write(room_[1], kRoom, sizeof kRoom) != sizeof kRoom)
      exit(1);
    if (in_thread) {
      std::thread([this, nanoseconds] { Prepare(nanoseconds); }).detach();
    } else if (fork() == 0) {
      close(room_[1]);
      Prepare(nanoseconds);
      _exit(0);
    }
  }
  void Next() {
    char item = 0;
    if (read(items_[0], &item, 1) != 1 || write(room_[1], &item, 1) != 1)
      exit(1);
  }

 private:
  void Prepare(long long nanoseconds) {
    for (char room; read(room_[0], &room, 1) == 1;) {
      Compute(nanoseconds);
      if (write(items_[1], &room, 1) != 1)
        return;
    }
  }
  int items_[2], room_[2];
};

}  // namespace

int main(int count, char** arguments) {
  // Not freed: its thread reads on.
  Loader* const loader = count < 4 ? nullptr
                                   : new Loader(strcmp(arguments[2], "thread") == 0,
                                                atoll(arguments[3]) * 1000);
  const long long nanoseconds = atoll(arguments[1]) * 1000;
  const bool logs = count == 3 && strcmp(arguments[2], "logs") == 0;
  const bool apart = logs || (count == 3 && strcmp(arguments[2], "apart") == 0);
  ncclUniqueId id;
  ncclComm_t world = nullptr;
  CHECK_NCCL(ncclGetUniqueId(&id));
  CHECK_NCCL(
      ncclCommInitRank(&world, atoi(getenv("WORLD_SIZE")), id, atoi(getenv("RANK"))));
  float* data = nullptr;
  CHECK_CUDA(cudaMalloc(reinterpret_cast<void**>(&data), kCount * sizeof(float)));
  for (int i = 0; i < kIterations; ++i) {
    nvtxRangePushA("iteration");
    if (loader != nullptr)
      loader->Next();
    CHECK_CUDA(cudaMemsetAsync(data, 0, kCount * sizeof(float), nullptr));
    if (!apart) {
      const long long before = Nanoseconds();
      Compute(nanoseconds);
      printf("%lld\n", Nanoseconds() - before);
    }
    CHECK_NCCL(ncclAllReduce(data, data, kCount, ncclFloat, ncclSum, world, nullptr));
    CHECK_CUDA(cudaStreamSynchronize(nullptr));
    nvtxRangePop();
    if (logs && i % 3 == 2)
      printf("%lld\n", Nanoseconds());
    if (apart)
      Compute(nanoseconds);
  }
  CHECK_NCCL(ncclCommDestroy(world));
}
