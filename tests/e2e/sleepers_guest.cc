// Ranks that tell each other something outside of NCCL, by a file, and sleep meanwhile:
// to see that a sleep, or a wait with a limit, ends at its place among what the others
// do.
//
//   sleepers_guest FILE limit | late | poll | ring | beside | children | family
//
// limit: rank 0 looks for the file every 3 ms; rank 1 makes it once a wait of 30 ms for
//        a descriptor that nobody writes to has expired.
// late:  rank 1 looks for the file every 10 ms, for 2 s at most; rank 0 computes for
//        a second or two of real time, which costs it nothing, before it makes it.
// poll:  rank 0 looks for the file without a pause; rank 1 makes it after 10 ms.
// ring:  every rank in turn sleeps for a while of its own and appends a line to the
//        file; a thread beside it appends one every 700 us.
// beside: rank 0 waits in the creation of a communicator; two threads beside it append
//        a line every 300 and 700 us, one of which has given the GPU work. Rank 1
//        appends one every 500 us and joins after 20 ms.
// children: each rank starts two processes, which append a line after every sleep, and
//        waits until they have ended. It does nothing then.
// family: likewise, and its own two threads do the same.

#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <nccl.h>
#include <poll.h>
#include <sys/select.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

namespace {

void Require(bool fine, const char* what) {
  if (fine)
    return;
  fprintf(stderr, "sleepers_guest: %s failed\n", what);
  exit(1);
}

long long Nanoseconds() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

void Sleep(long nanoseconds) {
  const timespec length{0, nanoseconds};
  Require(nanosleep(&length, nullptr) == 0, "nanosleep");
}

void Make(const char* file) {
  const int made = open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  Require(made >= 0 && close(made) == 0, "the file");
}

// Returns how often it has slept.
int LookFor(const char* file, long period, int most) {
  int sleeps = 0;
  while (access(file, F_OK) != 0 && sleeps < most) {
    Sleep(period);
    ++sleeps;
  }
  return sleeps;
}

void WaitForNobody(int milliseconds) {
  int ends[2];
  Require(pipe2(ends, O_CLOEXEC) == 0, "pipe2");
  pollfd silent{ends[0], POLLIN, 0};
  Require(poll(&silent, 1, milliseconds) == 0, "poll");
}

// Of real time, without a look at any clock that vrank knows.
void Compute() {
  unsigned long state = 1;
  for (long i = 0; i < 1'500'000'000; ++i)
    state = state * 6364136223846793005 + 1442695040888963407;
  Require(state != 0, "computing");
}

void Append(const char* file, const std::string& line) {
  const int log = open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  Require(log >= 0, "the file");
  Require(write(log, line.data(), line.size()) == static_cast<ssize_t>(line.size()),
          "a line");
  close(log);
}

void Ring(const char* file, int rank) {
  std::atomic<bool> stop = false;
  std::thread beside([&] {
    for (int i = 0; !stop; ++i) {
      Sleep(700'000 + 1000 * rank);
      Append(file, "thread " + std::to_string(rank) + " " + std::to_string(i) + "\n");
    }
  });
  for (int i = 0; i < 20; ++i) {
    Sleep(1'000'000 + 170'003 * ((rank * 7 + i * 3) % 11));
    Append(file, "rank " + std::to_string(rank) + " " + std::to_string(i) + "\n");
  }
  stop = true;
  beside.join();
}

void AppendEvery(const char* file, long period, const std::string& who, int lines) {
  for (int i = 0; i < lines; ++i) {
    Sleep(period);
    Append(file, std::to_string(Nanoseconds()) + " " + who + "\n");
  }
}

void Beside(const char* file, int rank, void* memory) {
  std::thread helper, issuer;
  if (rank == 0) {
    helper = std::thread(AppendEvery, file, 700'000, "helper", 20);
    issuer = std::thread([&] {
      Require(cudaMemsetAsync(memory, 0, 4, cudaStreamPerThread) == cudaSuccess,
              "cudaMemsetAsync");
      AppendEvery(file, 300'000, "issuer", 40);
    });
  } else {
    AppendEvery(file, 500'000, "rank 1", 40);
  }
  ncclUniqueId id;
  memset(&id, 1, sizeof id);  // both know it
  ncclComm_t communicator;
  Require(ncclCommInitRank(&communicator, 2, id, rank) == ncclSuccess,
          "ncclCommInitRank");
  if (rank == 0) {
    helper.join();
    issuer.join();
  }
  Require(ncclCommDestroy(communicator) == ncclSuccess, "ncclCommDestroy");
}

// The calling process goes on, the other one appends.
void StartChild(const char* file, long period, const std::string& who, int lines) {
  const pid_t child = fork();
  Require(child >= 0, "fork");
  if (child > 0)
    return;
  for (int i = 0; i < lines; ++i) {
    timeval length{0, period / 1000};
    if (i % 3 == 0)
      Sleep(period / 1000 * 1000);
    else if (i % 3 == 1)
      Require(select(0, nullptr, nullptr, nullptr, &length) == 0, "select");
    else
      Require(usleep(static_cast<useconds_t>(period / 1000)) == 0, "usleep");
    Append(file, std::to_string(Nanoseconds()) + " " + who + "\n");
  }
  _exit(0);
}

void StartChildren(const char* file, int rank) {
  const std::string of = " of " + std::to_string(rank);
  StartChild(file, 1'103'000 + 1000 * rank, "child 1" + of, 30);
  StartChild(file, 1'307'000 + 1000 * rank, "child 2" + of, 20);
}

void WaitForChildren() {
  int status = 0;
  while (wait(&status) > 0)
    Require(status == 0, "a child");
}

void Family(const char* file, int rank) {
  const std::string of = " of " + std::to_string(rank);
  std::thread beside(AppendEvery, file, 701'300 + 100 * rank, "helper" + of, 40);
  StartChildren(file, rank);
  AppendEvery(file, 1'511'700 + 100 * rank, "main" + of, 15);
  WaitForChildren();
  beside.join();
}

}  // namespace

int main(int count, char** arguments) {
  Require(count == 3, "the command line");
  const char* const file = arguments[1];
  const std::string how = arguments[2];
  const int rank = atoi(getenv("RANK"));
  Require(cudaSetDevice(atoi(getenv("LOCAL_RANK"))) == cudaSuccess, "cudaSetDevice");
  void* memory = nullptr;
  Require(cudaMalloc(&memory, 1 << 20) == cudaSuccess, "cudaMalloc");
  Require(cudaMemset(memory, 0, 1 << 20) == cudaSuccess, "cudaMemset");
  Require(cudaDeviceSynchronize() == cudaSuccess, "cudaDeviceSynchronize");
  const long long began = Nanoseconds();
  if (how == "limit" && rank == 0) {
    printf("slept %d times\n", LookFor(file, 3'000'000, 10'000));
  } else if (how == "limit") {
    WaitForNobody(30);
    Make(file);
  } else if (how == "late" && rank == 0) {
    Compute();
    Make(file);
  } else if (how == "poll" && rank == 0) {
    while (access(file, F_OK) != 0) {
    }
  } else if (how == "poll") {
    Sleep(10'000'000);
    Make(file);
  } else if (how == "late") {
    printf("slept %d times\n", LookFor(file, 10'000'000, 200));
  } else if (how == "ring") {
    Ring(file, rank);
  } else if (how == "children") {
    StartChildren(file, rank);
    WaitForChildren();
    return 0;
  } else if (how == "family") {
    Family(file, rank);
  } else {
    Beside(file, rank, memory);
  }
  printf("%lld ns\n", Nanoseconds() - began);
  return 0;
}
