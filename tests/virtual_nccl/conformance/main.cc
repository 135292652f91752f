// Runs every case on every rank and prints one line each.
//
//   virtual_nccl_conformance [--present RANKS] [--only TEXT] [--all] [--list]
//                            [--without-gpu]
//
//   --present RANKS   the ranks that are processes, where not all are: 0,500,1023
//   --only TEXT       cases whose id contains it
//   --all             what waits for vrank, too
//   --list            id, functions, page and words of every case, and what it waits
//   for
//   --without-gpu     the cases that need neither GPU nor communicator
//
// RANK, WORLD_SIZE, LOCAL_RANK and NCCL_COMM_ID say who this is, as launchers do;
// NCCL_TESTS_BOARD is an empty folder that the ranks share. Exit status: 0 all hold,
// 1 some do not, 77 there is no GPU to ask.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/virtual_nccl/conformance/world.h"

namespace conformance {
namespace {

int failures = 0;
std::string first_failure;

struct Options {
  const char* present = nullptr;
  const char* only = "";
  bool all = false;
  bool list = false;
  bool without_gpu = false;
};

struct Counts {
  int ok = 0, failed = 0, not_applicable = 0, waiting = 0;
};

int Number(const char* name, int otherwise) {
  const char* text = getenv(name);
  return text != nullptr ? atoi(text) : otherwise;
}

bool IsWaiting(const Case& row, const Options& options) {
  return row.waits != nullptr && !options.all;
}

// Why the case says nothing here; nullptr where it does.
const char* WhyNot(const Case& row, const Options& options) {
  const World& world = TheWorld();
  if (IsWaiting(row, options))
    return row.waits;
  if (options.without_gpu)
    return (row.needs & kNoDevice) != 0 ? nullptr : "needs a GPU";
  if ((row.needs & kTwoRanks) != 0 && world.size < 2)
    return "needs 2 ranks";
  if ((row.needs & kThreeRanks) != 0 && world.size < 3)
    return "needs 3 ranks";
  if ((row.needs & kEveryRank) != 0 && !world.everybody())
    return "needs every rank as a process";
  if ((row.needs & kTwoDevices) != 0 && world.devices < 2)
    return "needs 2 GPUs in one process";
  if ((row.needs & kReadsAgain) != 0 && getenv("VRANK_SOCKET") == nullptr)
    return "NVIDIA's library reads the variable once per process";
  if ((row.needs & kHopper) != 0) {
    int major = 0;
    EXPECT_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor,
                                       world.device));
    if (major < 9)
      return "needs compute capability 9.0";
  }
  return nullptr;
}

void RunCase(const Case& row, const Options& options, Counts* counts) {
  const char* why_not = WhyNot(row, options);
  if (why_not != nullptr) {
    const bool waits = IsWaiting(row, options);
    (waits ? counts->waiting : counts->not_applicable) += 1;
    printf("%s %s: %s\n", waits ? "wait" : "n/a ", row.id, why_not);
    return;
  }
  failures = 0;
  first_failure.clear();
  row.check();
  // What a case provoked must not surprise the next one.
  if (!options.without_gpu)
    static_cast<void>(cudaGetLastError());
  (failures == 0 ? counts->ok : counts->failed) += 1;
  if (failures == 0)
    printf("ok   %s\n", row.id);
  else
    printf("FAIL %s (%s: %s): %s\n", row.id, row.page, row.words,
           first_failure.c_str());
  fflush(stdout);
}

template <typename Visit>
void ForEachCase(const char* only, Visit visit) {
  for (const auto& list :
       {VersionCases(), TypeCases(), CommunicatorCases(), SplitCases(), ConfigCases(),
        CollectiveCases(), BlockCases(), ReductionCases(), DataCases(),
        PointToPointCases(), GroupCases(), AggregationCases(), StreamCases(),
        MemoryCases(), EnvironmentCases(), ErrorCases(), ShrinkCases(),
        LifetimeCases()})
    for (const Case& row : list)
      if (strstr(row.id, only) != nullptr)
        visit(row);
}

std::vector<int> ReadRanks(const char* text, int size) {
  std::vector<int> ranks;
  if (text == nullptr)
    for (int rank = 0; rank < size; ++rank)
      ranks.push_back(rank);
  for (const char* at = text; at != nullptr && *at != '\0';) {
    char* end = nullptr;
    ranks.push_back(static_cast<int>(strtol(at, &end, 10)));
    at = *end == ',' ? end + 1 : nullptr;
  }
  return ranks;
}

bool JoinWorld(const Options& options) {
  World world;
  if (cudaGetDeviceCount(&world.devices) != cudaSuccess || world.devices == 0)
    return false;
  world.rank = Number("RANK", 0);
  world.size = Number("WORLD_SIZE", 1);
  world.device = Number("LOCAL_RANK", 0) % world.devices;
  world.present = ReadRanks(options.present, world.size);
  EXPECT_CUDA(cudaSetDevice(world.device));
  EXPECT_CUDA(cudaStreamCreateWithFlags(&world.stream, cudaStreamNonBlocking));
  SetWorld(world);
  if (HasBoard())
    Post("world");
  ncclUniqueId id;
  EXPECT_OK(ncclGetUniqueId(&id));
  EXPECT_OK(ncclCommInitRank(&world.comm, world.size, id, world.rank));
  // Ids from here on are new ones.
  unsetenv("NCCL_COMM_ID");
  SetWorld(world);
  return true;
}

int Run(const Options& options) {
  if (!options.without_gpu && !JoinWorld(options)) {
    printf("no GPU: nothing checked\n");
    return 77;
  }
  if (failures > 0) {
    printf("FAIL world: %s\n", first_failure.c_str());
    return 1;
  }
  Counts counts;
  ForEachCase(options.only, [&](const Case& row) { RunCase(row, options, &counts); });
  printf("%d hold, %d broken, %d not applicable, %d waiting\n", counts.ok,
         counts.failed, counts.not_applicable, counts.waiting);
  if (!options.without_gpu)
    EXPECT_OK(ncclCommDestroy(TheWorld().comm));
  return counts.failed == 0 ? 0 : 1;
}

}  // namespace

void Fail(const char* file, int line, const char* what, const char* seen) {
  if (failures++ == 0)
    first_failure = std::string(strrchr(file, '/') + 1) + ":" + std::to_string(line) +
                    ": " + what + ": " + seen;
}

void ExpectCode(ncclResult_t seen, ncclResult_t wanted, const char* what,
                const char* file, int line) {
  if (seen != wanted)
    Fail(file, line, what,
         (std::to_string(seen) + " (" + ncclGetErrorString(seen) + ", " +
          ncclGetLastError(nullptr) + ")")
             .c_str());
}

void ExpectCuda(cudaError_t seen, const char* what, const char* file, int line) {
  if (seen != cudaSuccess)
    Fail(file, line, what, cudaGetErrorName(seen));
}

}  // namespace conformance

int main(int argc, char** argv) {
  using conformance::Case;
  conformance::Options options;
  for (int i = 1; i < argc; ++i) {
    const bool has_value = i + 1 < argc;
    if (strcmp(argv[i], "--all") == 0) {
      options.all = true;
    } else if (strcmp(argv[i], "--list") == 0) {
      options.list = true;
    } else if (strcmp(argv[i], "--without-gpu") == 0) {
      options.without_gpu = true;
    } else if (strcmp(argv[i], "--present") == 0 && has_value) {
      options.present = argv[++i];
    } else if (strcmp(argv[i], "--only") == 0 && has_value) {
      options.only = argv[++i];
    } else {
      fprintf(stderr, "virtual_nccl_conformance: unknown argument '%s'\n", argv[i]);
      return 2;
    }
  }
  if (!options.list)
    return conformance::Run(options);
  conformance::ForEachCase(options.only, [](const Case& row) {
    printf("%s\t%s\t%s\t%s\t%s\n", row.id, row.functions, row.page, row.words,
           row.waits != nullptr ? row.waits : "");
  });
  return 0;
}
