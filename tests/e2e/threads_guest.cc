// A rank whose threads issue work, in turns or at the same time.
//
//   threads_guest turns | concurrent | sleeps | creator | queue | deadlock
//
// turns: two threads launch kernels alternately, by a condition variable.
// queue: the main thread puts launches into a queue and waits for the thread that works
// them off, as PyTorch's backward pass does; who arrives first at the queue differs.
// concurrent: two threads launch kernels for a while, each when it likes.
// sleeps: three threads launch, synchronise and sleep, each for other times, and say at
// which times they did.
// creator: a thread that has issued nothing creates the communicator and reduces.
// deadlock: two threads reduce by a communicator each and wait for the whole device;
// ranks begin with different ones.

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <future>
#include <mutex>
#include <thread>

#include "hand_made_kernel.h"

namespace {

constexpr unsigned long kCount = 1 << 20;
constexpr int kTurns = 50;
float* data = nullptr;

void Require(bool fine, const char* what) {
  if (fine)
    return;
  fprintf(stderr, "threads_guest: %s failed\n", what);
  exit(1);
}

void Launch() {
  Require(LaunchScale(data, data, kCount, nullptr) == cudaSuccess, "cudaLaunchKernel");
}

void Turns() {
  std::mutex mutex;
  std::condition_variable changed;
  int turn = 0;
  const auto play = [&](int me) {
    for (int i = 0; i < kTurns; ++i) {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return turn % 2 == me; });
      Launch();
      ++turn;
      changed.notify_one();
    }
  };
  std::thread other(play, 1);
  play(0);
  other.join();
}

void Queue() {
  std::mutex mutex;
  std::condition_variable filled;
  std::deque<std::promise<void>*> queue;
  std::thread worker([&] {
    for (int i = 0; i < kTurns; ++i) {
      std::unique_lock lock(mutex);
      filled.wait(lock, [&] { return !queue.empty(); });
      std::promise<void>* const task = queue.front();
      queue.pop_front();
      lock.unlock();
      Launch();
      task->set_value();
    }
  });
  for (int i = 0; i < kTurns; ++i) {
    Launch();
    std::promise<void> task;
    {
      const std::lock_guard lock(mutex);
      queue.push_back(&task);
    }
    filled.notify_one();
    task.get_future().wait();
  }
  worker.join();
}

long Now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

void Concurrent() {
  std::atomic<int> ready{0};
  const auto play = [&] {
    ++ready;
    while (ready != 2) {
    }
    for (int i = 0; i < 20'000; ++i)
      Launch();
  };
  std::thread other(play);
  play();
  other.join();
}

void Sleeps() {
  unsigned long seen[3] = {};
  const auto play = [&](int me) {
    for (int i = 0; i < 100; ++i) {
      Launch();
      if (i % 7 == me)
        Require(cudaDeviceSynchronize() == cudaSuccess, "cudaDeviceSynchronize");
      usleep(static_cast<unsigned>(50 * (me + 1)));
      seen[me] = seen[me] * 31 + static_cast<unsigned long>(Now());
    }
  };
  std::thread second(play, 1), third(play, 2);
  play(0);
  second.join();
  third.join();
  printf("saw %lx %lx %lx\n", seen[0], seen[1], seen[2]);
}

void Creator() {
  std::thread([] {
    ncclUniqueId id;
    ncclComm_t comm = nullptr;
    Require(cudaSetDevice(atoi(getenv("LOCAL_RANK"))) == cudaSuccess, "cudaSetDevice");
    Require(ncclGetUniqueId(&id) == ncclSuccess, "ncclGetUniqueId");
    Require(ncclCommInitRank(&comm, atoi(getenv("WORLD_SIZE")), id,
                             atoi(getenv("RANK"))) == ncclSuccess,
            "ncclCommInitRank");
    Require(ncclAllReduce(data, data, kCount, ncclFloat, ncclSum, comm, nullptr) ==
                ncclSuccess,
            "ncclAllReduce");
    Require(cudaDeviceSynchronize() == cudaSuccess, "cudaDeviceSynchronize");
    Require(ncclCommDestroy(comm) == ncclSuccess, "ncclCommDestroy");
  }).join();
}

void Deadlock() {
  const int rank = atoi(getenv("RANK"));
  const auto play = [&](int me, ncclComm_t comm) {
    Require(cudaSetDevice(atoi(getenv("LOCAL_RANK"))) == cudaSuccess, "cudaSetDevice");
    if (me != rank)
      usleep(30'000);
    float first = 0;
    Require(
        cudaMemcpy(&first, data, sizeof first, cudaMemcpyDeviceToHost) == cudaSuccess,
        "cudaMemcpy");
    Require(ncclAllReduce(data, data, kCount, ncclFloat, ncclSum, comm, nullptr) ==
                ncclSuccess,
            "ncclAllReduce");
    Require(cudaDeviceSynchronize() == cudaSuccess, "cudaDeviceSynchronize");
  };
  ncclComm_t comms[2] = {};
  for (ncclComm_t& comm : comms) {
    ncclUniqueId id;
    Require(ncclGetUniqueId(&id) == ncclSuccess, "ncclGetUniqueId");
    Require(ncclCommInitRank(&comm, 2, id, rank) == ncclSuccess, "ncclCommInitRank");
  }
  std::thread other(play, 1, comms[1]);
  std::thread(play, 0, comms[0]).join();
  other.join();
}

}  // namespace

int main(int argc, char** argv) {
  Require(argc == 2, "reading the arguments");
  Require(cudaSetDevice(atoi(getenv("LOCAL_RANK"))) == cudaSuccess, "cudaSetDevice");
  Require(cudaMalloc(reinterpret_cast<void**>(&data), kCount * sizeof(float)) ==
              cudaSuccess,
          "cudaMalloc");
  if (strcmp(argv[1], "turns") == 0)
    Turns();
  else if (strcmp(argv[1], "queue") == 0)
    Queue();
  else if (strcmp(argv[1], "concurrent") == 0)
    Concurrent();
  else if (strcmp(argv[1], "sleeps") == 0)
    Sleeps();
  else if (strcmp(argv[1], "creator") == 0)
    Creator();
  else
    Deadlock();
  Require(cudaDeviceSynchronize() == cudaSuccess, "cudaDeviceSynchronize");
  return 0;
}
