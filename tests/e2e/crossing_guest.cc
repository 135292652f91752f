// Threads of one process that wait for each other's communication through other ranks.
//
//   crossing_guest wait | compute | init | members | poll | poll_all | poll_work |
//   abort | abort_pending
//
// wait     rank 0: two threads, a communicator each; the first waits for its sum before
//          the second one issues. Rank 1 sums in the opposite order, one after the
//          other.
// compute  the same with a second thread that computes before its first call.
// init     rank 0: two threads create a communicator each, one of ranks 0 and 1 and,
//          later, one of all ranks; the others create them in the opposite order.
// members  one process, two GPUs: the first member waits for a sum before the second
//          thread, which has not used its GPU yet, issues the other half.
// poll     an init that does not block is polled by a thread that issues no work.
// poll_all the same of two communicators in turns, by a thread that waits for both.
// poll_work
//          the sums of two communicators are polled in turns, without a pause, by a
//          thread that issues no work, while all others wait.
// abort    rank 0 waits for what the others never issue. Every rank's second thread
//          aborts that communicator, rank 0's later than the others'.
// abort_pending
//          an init that does not block, and that the last rank never joins, is aborted
//          by a second thread, while the first one has a group open.
//
// Every mode prints "RANK sum N" per communicator, of numbers that the host wrote.

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

namespace {

int rank = 0, world = 0, local_rank = 0;

void Require(bool fine, const char* what) {
  if (fine)
    return;
  fprintf(stderr, "crossing_guest: %s failed: %s\n", what, ncclGetLastError(nullptr));
  exit(1);
}

// A communicator's number for the host, and the stream it works on.
struct Sum {
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  int* value = nullptr;

  void Prepare(int first) {
    Require(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess,
            "cudaStreamCreateWithFlags");
    Require(cudaMalloc(reinterpret_cast<void**>(&value), sizeof *value) == cudaSuccess,
            "cudaMalloc");
    Require(
        cudaMemcpy(value, &first, sizeof first, cudaMemcpyHostToDevice) == cudaSuccess,
        "cudaMemcpy");
  }
  void Issue() {
    Require(
        ncclAllReduce(value, value, 1, ncclInt32, ncclSum, comm, stream) == ncclSuccess,
        "ncclAllReduce");
  }
  void Wait() {
    Require(cudaStreamSynchronize(stream) == cudaSuccess, "cudaStreamSynchronize");
    int sum = 0;
    Require(cudaMemcpy(&sum, value, sizeof sum, cudaMemcpyDeviceToHost) == cudaSuccess,
            "cudaMemcpy");
    printf("%d sum %d\n", rank, sum);
    fflush(stdout);
  }
};

ncclUniqueId IdOf(int number) {
  // The same on every rank, without a way to tell the others.
  ncclUniqueId id;
  memset(&id, 0, sizeof id);
  id.internal[0] = static_cast<char>(number);
  snprintf(id.internal + 1, sizeof id.internal - 1, "crossing %d", number);
  return id;
}

void Init(ncclComm_t* comm, int number, bool blocking, int size = world) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = blocking ? 1 : 0;
  const ncclResult_t result = ncclCommInitRankConfig(
      comm, size, IdOf(number + 10 * (rank / size)), rank % size, &config);
  Require(result == (blocking ? ncclSuccess : ncclInProgress) || result == ncclSuccess,
          "ncclCommInitRankConfig");
}

// The calling thread's device is the rank's. (Threads begin with device 0.)
void UseOwnGpu() {
  Require(cudaSetDevice(local_rank) == cudaSuccess, "cudaSetDevice");
}

// Long enough for the first thread to have got into its wait.
void Linger() {
  timespec nap{0, 50'000'000};
  nanosleep(&nap, nullptr);
}

// In real time, long enough for the emulator to have seen all others wait.
void Compute() {
  volatile uint64_t sum = 0;
  for (uint64_t i = 0; i < 200'000'000; ++i)
    sum = sum + i;
}

void Wait(void (*before_second)()) {
  Sum sums[2];
  for (int i = 0; i < 2; ++i) {
    Init(&sums[i].comm, i + 1, true);
    sums[i].Prepare(10 * (i + 1) + rank);
  }
  // The second time with threads that are known to cross.
  for (int round = 0; round < 2; ++round) {
    if (rank == 0) {
      std::thread first([&] { UseOwnGpu(), sums[0].Issue(), sums[0].Wait(); });
      std::thread second(
          [&] { UseOwnGpu(), before_second(), sums[1].Issue(), sums[1].Wait(); });
      first.join();
      second.join();
    } else {
      for (int i = 1; i >= 0; --i)
        sums[i].Issue(), sums[i].Wait();
    }
  }
}

void InitApart() {
  Sum sums[2];
  for (int i = 0; i < 2; ++i)
    sums[i].Prepare(10 * (i + 1) + rank);
  if (rank == 0) {
    std::thread first([&] { UseOwnGpu(), Init(&sums[0].comm, 1, true, 2); });
    std::thread second([&] { UseOwnGpu(), Linger(), Init(&sums[1].comm, 2, true); });
    first.join();
    second.join();
  } else {
    Init(&sums[1].comm, 2, true);
    Init(&sums[0].comm, 1, true, 2);
  }
  for (Sum& sum : sums)
    sum.Issue(), sum.Wait();
}

void Members() {
  Sum sums[2];
  ncclComm_t comms[2];
  Require(ncclCommInitAll(comms, 2, nullptr) == ncclSuccess, "ncclCommInitAll");
  const auto play = [&](int i) {
    Require(cudaSetDevice(i) == cudaSuccess, "cudaSetDevice");
    sums[i].comm = comms[i];
    sums[i].Prepare(10 * (i + 1));
    sums[i].Issue();
    sums[i].Wait();
  };
  std::thread first([&] { play(0); });
  std::thread second([&] { Linger(), play(1); });
  first.join();
  second.join();
}

void Poll(int count) {
  Sum sums[2];
  for (int i = 0; i < count; ++i) {
    sums[i].Prepare(10 * (i + 1) + rank);
    Init(&sums[i].comm, i + 1, false);
  }
  std::atomic<int> polls{0};
  std::thread poller([&] {
    for (int pending = count; pending != 0;) {
      pending = 0;
      for (int i = 0; i < count; ++i, ++polls) {
        ncclResult_t state = ncclInProgress;
        Require(ncclCommGetAsyncError(sums[i].comm, &state) == ncclSuccess,
                "ncclCommGetAsyncError");
        pending += state == ncclInProgress ? 1 : 0;
      }
    }
  });
  poller.join();
  for (int i = 0; i < count; ++i)
    sums[i].Issue(), sums[i].Wait();
}

void PollWork() {
  Sum sums[2];
  cudaEvent_t ends[2];
  for (int i = 0; i < 2; ++i) {
    Init(&sums[i].comm, i + 1, true);
    sums[i].Prepare(10 * (i + 1) + rank);
  }
  for (int i = 0; i < 2; ++i) {
    sums[i].Issue();
    Require(cudaEventCreate(&ends[i]) == cudaSuccess &&
                cudaEventRecord(ends[i], sums[i].stream) == cudaSuccess,
            "cudaEventRecord");
  }
  std::thread poller([&] {
    UseOwnGpu();
    for (int pending = 2; pending != 0;) {
      pending = 0;
      for (cudaEvent_t end : ends)
        pending += cudaEventQuery(end) == cudaErrorNotReady ? 1 : 0;
    }
  });
  poller.join();
  for (Sum& sum : sums)
    sum.Wait();
}

void AbortLate() {
  Sum sums[2];
  for (int i = 0; i < 2; ++i) {
    Init(&sums[i].comm, i + 1, true);
    sums[i].Prepare(10 * (i + 1) + rank);
  }
  if (rank == 0)
    sums[1].Issue();
  std::thread watchdog([&] {
    timespec nap{0, (rank == 0 ? 40 : 2) * 1'000'000};
    nanosleep(&nap, nullptr);
    Require(ncclCommAbort(sums[1].comm) == ncclSuccess, "ncclCommAbort");
  });
  if (rank == 0)
    Require(cudaStreamSynchronize(sums[1].stream) == cudaSuccess,
            "cudaStreamSynchronize");
  watchdog.join();
  sums[0].Issue(), sums[0].Wait();
}

void AbortPending() {
  Sum sum;
  Init(&sum.comm, 1, true);
  sum.Prepare(10 + rank);
  ncclComm_t pending = nullptr;
  ncclResult_t state = ncclInProgress;
  if (rank + 1 < world) {
    Init(&pending, 2, false);
    Require(ncclCommGetAsyncError(pending, &state) == ncclSuccess &&
                state == ncclInProgress,
            "ncclCommGetAsyncError");
  }
  Require(ncclGroupStart() == ncclSuccess, "ncclGroupStart");
  sum.Issue();
  std::thread other([&] {
    Require(pending == nullptr || ncclCommAbort(pending) == ncclSuccess,
            "ncclCommAbort");
  });
  other.join();
  Require(ncclGroupEnd() == ncclSuccess, "ncclGroupEnd");
  sum.Wait();
}

int FromEnvironment(const char* name) {
  const char* text = getenv(name);
  return text == nullptr ? 0 : atoi(text);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc == 2 ? argv[1] : "";
  world = FromEnvironment("WORLD_SIZE");
  rank = FromEnvironment("RANK");
  local_rank = FromEnvironment("LOCAL_RANK");
  UseOwnGpu();
  if (mode == "wait")
    Wait(Linger);
  else if (mode == "compute")
    Wait(Compute);
  else if (mode == "init")
    InitApart();
  else if (mode == "members")
    Members();
  else if (mode == "poll")
    Poll(1);
  else if (mode == "poll_all")
    Poll(2);
  else if (mode == "poll_work")
    PollWork();
  else if (mode == "abort")
    AbortLate();
  else if (mode == "abort_pending")
    AbortPending();
  else
    return 2;
  return 0;
}
