// A program on a GPU that is not vrank's: all-reduces on a stream, one rank late.
// Prints how long each took by its own clock, in milliseconds. Played members hold what
// this one holds: the first sum is the value times the ranks. (The device is of host
// threads, and its memory the host's.)
//
//   held_guest CALLS LATE_MS [FAILING_RANK [HOW]]
//
// HOW:
//   at-exit   a static destructor destroys the communicator
//   forks     at each call a child is forked, which exits
//   late-init the last rank is late before its init instead, half of it before it asks
//             NCCL anything
//   twice     a second process of the rank asks for NCCL
//   graph     each call is a launch of a graph with two all-reduces
//   plain     no call is in a range of NVTX; each is two all-reduces, the second one of
//             half the size, and every second one has a small one behind it

#include <cuda.h>
#include <nccl.h>
#include <nvtx3/nvToolsExt.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

double NowMs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

void Check(ncclResult_t result, const char* what) {
  if (result == ncclSuccess)
    return;
  fprintf(stderr, "%s: %s: %s\n", what, ncclGetErrorString(result),
          ncclGetLastError(nullptr));
  exit(1);
}

void Require(bool holds, const char* what) {
  if (holds)
    return;
  fprintf(stderr, "%s\n", what);
  exit(1);
}

void ForkAChildThatExits() {
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0)
    exit(0);
  int status = 0;
  Require(waitpid(child, &status, 0) == child && status == 0, "a child did not exit");
}

// Made before what libraries make at their first call, so destroyed after it.
struct AtExit {
  ncclComm_t communicator = nullptr;
  ~AtExit() {
    if (communicator != nullptr)
      Check(ncclCommDestroy(communicator), "ncclCommDestroy");
  }
} at_exit;

}  // namespace

int main(int argc, char** argv) {
  const int rank = atoi(getenv("RANK")), ranks = atoi(getenv("WORLD_SIZE"));
  const int calls = atoi(argv[1]), late_ms = atoi(argv[2]);
  const int failing = argc > 3 ? atoi(argv[3]) : -1;
  const std::string how = argc > 4 ? argv[4] : "";
  const bool late_init = how == "late-init", is_late = rank == ranks - 1;
  if (late_init && is_late)
    usleep(static_cast<useconds_t>(late_ms) * 500);
  ncclUniqueId id;
  Check(ncclGetUniqueId(&id), "ncclGetUniqueId");
  if (late_init && is_late)
    usleep(static_cast<useconds_t>(late_ms) * 500);
  ncclComm_t communicator = nullptr;
  Check(ncclCommInitRank(&communicator, ranks, id, rank), "ncclCommInitRank");
  if (how == "twice")
    Require(system((std::string(argv[0]) + " 1 0").c_str()) == 1 << 8,
            "a second process of the rank was served");
  CUstream stream = nullptr;
  cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
  CUdeviceptr buffer = 0;
  constexpr size_t kCount = 1 << 20;
  cuMemAlloc(&buffer, kCount * sizeof(float));
  auto* const data = reinterpret_cast<float*>(buffer);
  std::fill_n(data, kCount, 1.0F);
  const auto reduce = [&](size_t count) {
    Check(ncclAllReduce(data, data, count, ncclFloat32, ncclSum, communicator,
                        reinterpret_cast<cudaStream_t>(stream)),
          "ncclAllReduce");
  };
  const auto all_reduce = [&] { reduce(kCount); };
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  if (how == "graph") {
    cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    all_reduce();
    all_reduce();
    cuStreamEndCapture(stream, &graph);
    cuGraphInstantiate(&exec, graph, 0);
  }
  for (int i = 0; i < calls; ++i) {
    const bool plain = how == "plain";
    if (!plain)
      nvtxRangePushA("iteration");
    if (is_late && !late_init)
      usleep(static_cast<useconds_t>(late_ms) * 1000);
    if (rank == failing)
      return 3;
    const double begin = NowMs();
    if (exec != nullptr)
      cuGraphLaunch(exec, stream);
    else
      all_reduce();
    if (plain)
      reduce(kCount / 2);
    if (plain && i % 2 == 1)
      reduce(1);
    if (how == "forks")
      ForkAChildThatExits();
    cuStreamSynchronize(stream);
    const float once = static_cast<float>(ranks), twice = once * once;
    const float first = exec != nullptr || plain ? twice : once;
    const float last = exec != nullptr ? twice : once;
    Require(i > 0 || (data[0] == first && data[kCount - 1] == last), "a wrong sum");
    if (!plain)
      nvtxRangePop();
    printf("%.3f %lld\n", NowMs() - begin, static_cast<long long>(time(nullptr)));
  }
  cuMemFree(buffer);
  if (how == "at-exit")
    at_exit.communicator = communicator;
  else
    Check(ncclCommDestroy(communicator), "ncclCommDestroy");
  return 0;
}
