// Ranks that go wrong, each in one way, to see what vrank says and leaves behind.
//
//   faulty_guest MODE      MODE happens on rank 1; the other ranks wait in an
//   all-reduce
//
// crash call-crash exit early group hang mismatch operation root refused orphan
// children memory send given-up-send (on a communicator that is aborted)
//
// Ranks that never get on: spin (runs), spin-early (before any call), children-spin
// (waits for a child that spins), poll-event (asks for work that cannot end, with other
// calls in between), poll-sleep, poll-sleep-until (look at a flag that nobody sets),
// refused-pause (waits for the effect of a call that is refused), inversion (two
// threads take two mutexes, each the other one first)
//
// init-order: the ranks join two communicators, each in another order.
//
// abort, abort-thread: rank 1 aborts the communicator; rank 0 waits in an all-reduce
// that it has aborted itself, or that another thread aborts meanwhile.
//
// unused: no rank uses its GPU. device: all use the first one of the node.

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>

namespace {

void Require(bool fine, const char* what) {
  if (fine)
    return;
  fprintf(stderr, "faulty_guest: %s failed\n", what);
  exit(1);
}

// Looks how late it is, then sleeps to a limit that it computes from another reading.
void SleepAsPythonDoes() {
  timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_sec += 1;
  clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr);
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

// Children that share all that the rank has, but issue nothing, and outlive it by an
// hour; the grandchild has lost its parent.
void LeaveChildren() {
  for (int child = 0; child < 2; ++child) {
    if (fork() != 0)
      continue;
    signal(SIGTERM, SIG_IGN);
    if (child == 1 && fork() != 0)
      _exit(0);
    sleep(3600);
    _exit(0);
  }
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

// Each rank waits in the init that the other one has yet to get to.
void JoinInAnotherOrder(int rank, int size) {
  // As if exchanged: NCCL_COMM_ID would make them the same.
  ncclUniqueId ids[2];
  memset(&ids[0], 'a', sizeof ids[0]);
  memset(&ids[1], 'b', sizeof ids[1]);
  for (int i = 0; i < 2; ++i) {
    ncclComm_t comm = nullptr;
    Require(ncclCommInitRank(&comm, size, ids[(rank + i) % 2], rank) == ncclSuccess,
            "ncclCommInitRank");
  }
}

void Spin() {
  for (volatile bool forever = true; forever;) {
  }
}

// The others wait in the first collective; this is the second.
void PollForEver(ncclComm_t comm, float* data) {
  cudaEvent_t event = nullptr;
  Require(cudaEventCreate(&event) == cudaSuccess, "cudaEventCreate");
  for (int i = 0; i < 2; ++i)
    Require(ncclAllReduce(data, data, 1024, ncclFloat, ncclSum, comm, nullptr) ==
                ncclSuccess,
            "ncclAllReduce");
  Require(cudaEventRecord(event, nullptr) == cudaSuccess, "cudaEventRecord");
  while (cudaEventQuery(event) == cudaErrorNotReady) {
    int device = 0;
    Require(cudaGetDevice(&device) == cudaSuccess, "cudaGetDevice");
    usleep(50);
  }
}

void AbortAndWait(ncclComm_t comm, int rank, float* data) {
  if (rank == 0)
    Require(ncclAllReduce(data, data, 1024, ncclFloat, ncclSum, comm, nullptr) ==
                ncclSuccess,
            "ncclAllReduce");
  Require(ncclCommAbort(comm) == ncclSuccess, "ncclCommAbort");
  Require(cudaDeviceSynchronize() == cudaSuccess, "cudaDeviceSynchronize");
  printf("rank %d goes on\n", rank);
}

// Each sends to the next one first, more than fits into the buffers on the way.
void SendInACircle(ncclComm_t comm, int rank, int size) {
  constexpr size_t kCount = size_t{16} << 20;
  float* data = nullptr;
  Require(cudaMalloc(reinterpret_cast<void**>(&data), kCount * sizeof(float)) ==
              cudaSuccess,
          "cudaMalloc");
  Require(ncclSend(data, kCount, ncclFloat, (rank + 1) % size, comm, nullptr) ==
              ncclSuccess,
          "ncclSend");
  Require(ncclRecv(data, kCount, ncclFloat, (rank + size - 1) % size, comm, nullptr) ==
              ncclSuccess,
          "ncclRecv");
}

void TakeInBothOrders() {
  static std::mutex first, second;
  const auto take = [](std::mutex* own, std::mutex* others) {
    const std::lock_guard held(*own);
    usleep(10'000);
    const std::lock_guard never(*others);
  };
  std::thread other(take, &second, &first);
  take(&first, &second);
  other.join();
}

void GoWrong(const char* mode, ncclComm_t comm, float* data) {
  if (strcmp(mode, "crash") == 0)
    raise(SIGSEGV);
  // In the middle of a call of ours: there is nothing to read at that address.
  if (strcmp(mode, "call-crash") == 0)
    cudaMemcpy(data, reinterpret_cast<const void*>(16), 1 << 20,
               cudaMemcpyHostToDevice);
  if (strcmp(mode, "group") == 0) {
    Require(ncclGroupStart() == ncclSuccess, "ncclGroupStart");
    Require(ncclAllReduce(data, data, 1024, ncclFloat, ncclSum, comm, nullptr) ==
                ncclSuccess,
            "ncclAllReduce in a group");
    exit(0);
  }
  if (strcmp(mode, "exit") == 0)
    exit(3);
  if (strcmp(mode, "early") == 0)
    exit(0);
  if (strcmp(mode, "hang") == 0)
    for (;;)
      pause();
  if (strcmp(mode, "inversion") == 0)
    TakeInBothOrders();
  if (strcmp(mode, "spin") == 0)
    Spin();
  if (strcmp(mode, "children-spin") == 0) {
    const pid_t child = fork();
    if (child == 0)
      Spin();
    waitpid(child, nullptr, 0);
  }
  if (strcmp(mode, "poll-sleep") == 0)
    for (volatile bool set = false; !set;)
      usleep(100);
  if (strcmp(mode, "refused-pause") == 0) {
    void* managed = nullptr;
    Require(cudaMallocManaged(&managed, 4, cudaMemAttachGlobal) != cudaSuccess,
            "to be refused");
    while (true)
      pause();
  }
  if (strcmp(mode, "poll-sleep-until") == 0)
    for (volatile bool set = false; !set;)
      SleepAsPythonDoes();
  if (strcmp(mode, "poll-event") == 0)
    PollForEver(comm, data);
  if (strcmp(mode, "operation") == 0)
    ncclAllGather(data, data, 512, ncclFloat, comm, nullptr);
  if (strcmp(mode, "mismatch") == 0)
    ncclAllReduce(data, data, 2048, ncclFloat, ncclSum, comm, nullptr);
  // Nobody receives it, and it fits into the buffers on the way.
  if (strcmp(mode, "send") == 0 || strcmp(mode, "given-up-send") == 0)
    Require(ncclSend(data, 1024, ncclFloat, 0, comm, nullptr) == ncclSuccess,
            "ncclSend");
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
  if (strcmp(mode, "unused") == 0)
    return 0;
  if (strcmp(mode, "orphan") == 0)
    LeaveOrphan();
  if (strcmp(mode, "memory") == 0)
    ExhaustMemory();
  if (strcmp(mode, "init-order") == 0)
    JoinInAnotherOrder(rank, size);
  if (strcmp(mode, "spin-early") == 0 && rank == 1)
    Spin();
  if (strcmp(mode, "device") != 0)
    Require(cudaSetDevice(atoi(getenv("LOCAL_RANK"))) == cudaSuccess, "cudaSetDevice");
  ncclUniqueId id;
  ncclComm_t comm = nullptr;
  float* data = nullptr;
  Require(ncclGetUniqueId(&id) == ncclSuccess, "ncclGetUniqueId");
  if (ncclCommInitRank(&comm, size, id, rank) != ncclSuccess) {
    fprintf(stderr, "ncclCommInitRank: %s\n", ncclGetLastError(nullptr));
    return 1;
  }
  Require(cudaMalloc(reinterpret_cast<void**>(&data), 1 << 20) == cudaSuccess,
          "cudaMalloc");
  if (strcmp(mode, "abort") == 0) {
    AbortAndWait(comm, rank, data);
    return 0;
  }
  // The roots differ.
  if (strcmp(mode, "root") == 0)
    Require(
        ncclBroadcast(data, data, 1024, ncclFloat, rank, comm, nullptr) == ncclSuccess,
        "ncclBroadcast");
  if (strcmp(mode, "circle") == 0)
    SendInACircle(comm, rank, size);
  if (rank == 1)
    GoWrong(mode, comm, data);
  Require(
      ncclAllReduce(data, data, 1024, ncclFloat, ncclSum, comm, nullptr) == ncclSuccess,
      "ncclAllReduce");
  Require(cudaDeviceSynchronize() == cudaSuccess, "cudaDeviceSynchronize");
  Require((strcmp(mode, "given-up-send") == 0 ? ncclCommAbort(comm)
                                              : ncclCommDestroy(comm)) == ncclSuccess,
          "ncclCommDestroy");
  if (strcmp(mode, "children") == 0)
    LeaveChildren();
  printf("rank %d done\n", rank);
  return 0;
}
