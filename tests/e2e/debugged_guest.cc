// A rank to be held by a debugger, to see that nothing which it prints changes.
//
//   debugged_guest [--await-debugger]
//
// Each round launches a kernel, joins an all-reduce and prints the clock. In every
// other round rank 1 sends rank 0 a message that vrank does not see, for which rank 0
// waits.
//
// --await-debugger: rank 1 begins once a debugger is attached. It sleeps by raw system
// calls, which the virtual clock does not see.

#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <nccl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "hand_made_kernel.h"

namespace {

constexpr int kRounds = 12;
constexpr unsigned long kCount = 1 << 20;

void Require(bool fine, const char* what) {
  if (fine)
    return;
  fprintf(stderr, "debugged_guest: %s failed\n", what);
  exit(1);
}

// Whether /proc/self/status names a tracer.
bool Traced() {
  char text[4096] = {};
  const int file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  Require(file >= 0 && read(file, text, sizeof text - 1) > 0,
          "reading /proc/self/status");
  close(file);
  const char* line = strstr(text, "TracerPid:");
  return line != nullptr && atoi(line + strlen("TracerPid:")) != 0;
}

void AwaitDebugger() {
  while (!Traced()) {
    timespec pause{0, 10'000'000};
    syscall(SYS_nanosleep, &pause, nullptr);
  }
}

// A datagram socket between the two ranks of one run, named after their launcher.
class Messages {
 public:
  Messages() : socket_(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    Require(socket_ >= 0, "socket");
    address_.sun_family = AF_UNIX;
    const char* session = getenv("VRANK_SOCKET");
    Require(session != nullptr, "finding VRANK_SOCKET");
    snprintf(address_.sun_path + 1, sizeof address_.sun_path - 1, "%s-messages",
             session[0] == '@' ? session + 1 : session);
  }
  ~Messages() { close(socket_); }
  void Listen() { Require(bind(socket_, Address(), sizeof address_) == 0, "bind"); }
  void Send() {
    Require(sendto(socket_, "x", 1, 0, Address(), sizeof address_) == 1, "sendto");
  }
  // Whether a message came within two seconds.
  bool Receive() {
    pollfd ready{socket_, POLLIN, 0};
    char byte = 0;
    return poll(&ready, 1, 2000) == 1 && recv(socket_, &byte, 1, 0) == 1;
  }

 private:
  const sockaddr* Address() const {
    return reinterpret_cast<const sockaddr*>(&address_);
  }
  const int socket_;
  sockaddr_un address_{};
};

long long Nanoseconds() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

}  // namespace

int main(int argc, char** argv) {
  const int rank = atoi(getenv("RANK")), size = atoi(getenv("WORLD_SIZE"));
  Require(cudaSetDevice(atoi(getenv("LOCAL_RANK"))) == cudaSuccess, "cudaSetDevice");
  Messages messages;
  if (rank == 0)
    messages.Listen();
  ncclUniqueId id;
  ncclComm_t comm = nullptr;
  float* data = nullptr;
  Require(ncclGetUniqueId(&id) == ncclSuccess, "ncclGetUniqueId");
  Require(ncclCommInitRank(&comm, size, id, rank) == ncclSuccess, "ncclCommInitRank");
  Require(cudaMalloc(reinterpret_cast<void**>(&data), kCount * sizeof(float)) ==
              cudaSuccess,
          "cudaMalloc");
  if (rank == 1 && argc > 1 && strcmp(argv[1], "--await-debugger") == 0)
    AwaitDebugger();
  for (int round = 0; round < kRounds; ++round) {
    Require(
        LaunchScale(data, data, kCount >> (rank + round % 3), nullptr) == cudaSuccess,
        "cudaLaunchKernel");
    Require(ncclAllReduce(data, data, kCount, ncclFloat, ncclSum, comm, nullptr) ==
                ncclSuccess,
            "ncclAllReduce");
    Require(cudaDeviceSynchronize() == cudaSuccess, "cudaDeviceSynchronize");
    if (round % 2 == 1 && rank == 1)
      messages.Send();
    if (round % 2 == 1 && rank == 0)
      Require(messages.Receive(), "waiting 2 s for the message of rank 1");
    printf("rank %d round %d at %lld\n", rank, round, Nanoseconds());
  }
  return 0;
}
