// A rank with a watchdog, as a training framework has one: to see that what the
// watchdog sees depends on nothing but the program.
//
//   watched_guest [--pipe | --late | --early]
//
// The main thread computes for virtual minutes and joins all-reduces. The watchdog
// wakes up every 100 ms of virtual time, reads the clock, and asks whether the latest
// work has ended; it prints what it saw once all is over.
//
// --pipe: in every round rank 0 polls its work while rank 1 waits for a message of rank
// 0 that vrank does not see, and only then joins the all-reduce.
// --late: rank 1 joins every all-reduce five seconds late.
// --early: rank 0 polls the all-reduce for 40 ms of its clock before it lets rank
// 1 join, by a message that vrank does not see; rank 1's clock then shows less. No
// order of events on a real machine looks like that, so the run has to fail.

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>

#include "hand_made_kernel.h"

namespace {

constexpr int kRounds = 12;
constexpr unsigned long kCount = 1 << 20;

void Require(bool fine, const char* what) {
  if (fine)
    return;
  fprintf(stderr, "watched_guest: %s failed\n", what);
  exit(1);
}

long long Milliseconds() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000LL + now.tv_nsec / 1'000'000;
}

class Watchdog {
 public:
  explicit Watchdog(cudaEvent_t event) : event_(event), thread_([this] { Run(); }) {}
  ~Watchdog() {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    stop_.notify_one();
    thread_.join();
    printf("%d ticks\n%s", ticks_, seen_.c_str());
  }

 private:
  void Run() {
    // Else the first question would make a context of device 0.
    Require(cudaSetDevice(atoi(getenv("LOCAL_RANK"))) == cudaSuccess, "cudaSetDevice");
    std::unique_lock lock(mutex_);
    const long long start = Milliseconds();
    while (!stop_.wait_for(lock, std::chrono::milliseconds(100),
                           [this] { return stopping_; })) {
      ++ticks_;
      const cudaError_t state = cudaEventQuery(event_);
      if (ticks_ % 7 == 0)
        seen_ += std::to_string(Milliseconds() - start) +
                 " ms: " + (state == cudaSuccess ? "ended\n" : "not yet\n");
    }
  }

  cudaEvent_t event_;
  std::mutex mutex_;
  std::condition_variable stop_;
  bool stopping_ = false;
  int ticks_ = 0;
  std::string seen_;
  std::thread thread_;
};

// A datagram socket between the two ranks of one run, named after their launcher.
class Messages {
 public:
  explicit Messages(bool listens)
      : socket_(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    address_.sun_family = AF_UNIX;
    const char* session = getenv("VRANK_SOCKET");
    Require(session != nullptr, "finding VRANK_SOCKET");
    snprintf(address_.sun_path + 1, sizeof address_.sun_path - 1, "%s-watched",
             session[0] == '@' ? session + 1 : session);
    if (listens)
      Require(bind(socket_, Address(), sizeof address_) == 0, "bind");
  }
  ~Messages() { close(socket_); }
  void Send() {
    Require(sendto(socket_, "x", 1, 0, Address(), sizeof address_) == 1, "sendto");
  }
  void Receive() {
    char byte;
    Require(recv(socket_, &byte, 1, 0) == 1, "recv");
  }

 private:
  const sockaddr* Address() const {
    return reinterpret_cast<const sockaddr*>(&address_);
  }
  const int socket_;
  sockaddr_un address_{};
};

}  // namespace

int main(int argc, char** argv) {
  const bool talks = argc > 1 && strcmp(argv[1], "--pipe") == 0;
  const bool late = argc > 1 && strcmp(argv[1], "--late") == 0;
  const bool early = argc > 1 && strcmp(argv[1], "--early") == 0;
  const int rank = atoi(getenv("RANK")), size = atoi(getenv("WORLD_SIZE"));
  Require(cudaSetDevice(atoi(getenv("LOCAL_RANK"))) == cudaSuccess, "cudaSetDevice");
  Messages messages((talks || early) && rank == 1);
  ncclUniqueId id;
  ncclComm_t comm = nullptr;
  float* data = nullptr;
  cudaEvent_t done;
  Require(ncclGetUniqueId(&id) == ncclSuccess, "ncclGetUniqueId");
  Require(ncclCommInitRank(&comm, size, id, rank) == ncclSuccess, "ncclCommInitRank");
  Require(cudaMalloc(reinterpret_cast<void**>(&data), kCount * sizeof(float)) ==
                  cudaSuccess &&
              cudaEventCreate(&done) == cudaSuccess,
          "preparing");
  Watchdog watchdog(done);
  for (int round = 0; round < kRounds; ++round) {
    Require(LaunchScale(data, data, kCount, nullptr) == cudaSuccess,
            "cudaLaunchKernel");
    Require(cudaEventRecord(done, nullptr) == cudaSuccess, "cudaEventRecord");
    if (talks && rank == 0) {
      while (cudaEventQuery(done) == cudaErrorNotReady) {
      }
      messages.Send();
    } else if (talks && rank == 1) {
      messages.Receive();
    }
    if (late && rank == 1)
      sleep(5);
    if (early && rank == 1)
      messages.Receive();
    Require(ncclAllReduce(data, data, kCount, ncclFloat, ncclSum, comm, nullptr) ==
                    ncclSuccess &&
                cudaEventRecord(done, nullptr) == cudaSuccess,
            "ncclAllReduce");
    if (early && rank == 0) {
      for (int look = 0; look < 2; ++look) {
        Require(cudaEventQuery(done) == cudaErrorNotReady, "finding it unfinished");
        usleep(20'000);
      }
      messages.Send();
    }
    // What comes first, the wait or the sleep, changes who moves the clock.
    if (round % 2 == 0)
      sleep(static_cast<unsigned>(10 + round));
    Require(cudaDeviceSynchronize() == cudaSuccess, "cudaDeviceSynchronize");
    if (round % 2 == 1)
      sleep(static_cast<unsigned>(10 + round));
  }
  return 0;
}
