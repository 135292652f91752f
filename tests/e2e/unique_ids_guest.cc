// Communicators of random ranks, which every rank makes in an order of its own.
//
//   unique_ids_guest random WAY SEED | swap WAY | handed_out FOLDER | grid FOLDER |
//                    missing | own | left POLLS WHO
//
// random      groups of random ranks at random places; the seed tells every rank all of
//             them. WAY: threads (one each), nonblocking, group (all inits in one), or
//             blocking (all ranks in one order).
// swap        two communicators of all ranks, which odd ranks make the other way round.
//             WAY: as above, or launch: made in one order, used the other way round, in
//             one group and on one stream.
// handed_out  pairs of neighbours; the first makes the id and leaves it in FOLDER.
// grid        rows and columns of two, each with an id that its first rank hands out.
// missing     the last rank never joins.
// own         every rank passes an id that nobody else has.
// left        the last rank ends at once; the others' inits do not block. WHO polls so
//             often, with sleeps of a millisecond (main, or another thread), and
//             aborts.
//
// Prints "RANK group N sum S places P..." per communicator: what an all-reduce and an
// all-gather of numbers that the host wrote gave. Exits with 1 where they are not what
// the members of the group make.

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace {

int rank = 0, world = 0, local_rank = 0;

void Require(bool fine, const char* what) {
  if (fine)
    return;
  fprintf(stderr, "unique_ids_guest: %s failed: %s\n", what, ncclGetLastError(nullptr));
  exit(1);
}

struct Group {
  int number = 0;
  std::vector<int> ranks;  // in the order of their places
  ncclUniqueId id{};
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  int* values = nullptr;  // the own one, the sum, and those of all

  int place() const {
    return static_cast<int>(std::find(ranks.begin(), ranks.end(), rank) -
                            ranks.begin());
  }
  int size() const { return static_cast<int>(ranks.size()); }
  int ValueOf(int member) const { return 1000 * (number + 1) + member; }

  void Prepare() {
    const int own = ValueOf(rank);
    Require(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess,
            "cudaStreamCreateWithFlags");
    Require(cudaMalloc(reinterpret_cast<void**>(&values),
                       (ranks.size() + 2) * sizeof(int)) == cudaSuccess,
            "cudaMalloc");
    Require(cudaMemcpy(values, &own, sizeof own, cudaMemcpyHostToDevice) == cudaSuccess,
            "cudaMemcpy");
  }
  void Init(bool blocking) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = blocking ? 1 : 0;
    const ncclResult_t result =
        ncclCommInitRankConfig(&comm, size(), id, place(), &config);
    Require(result == ncclSuccess || (!blocking && result == ncclInProgress),
            "ncclCommInitRankConfig");
  }
  void AwaitInit() const {
    ncclResult_t state = ncclInProgress;
    while (state == ncclInProgress)
      Require(ncclCommGetAsyncError(comm, &state) == ncclSuccess,
              "ncclCommGetAsyncError");
    Require(state == ncclSuccess, "nonblocking init");
  }
  void Reduce() const {
    ncclResult_t result =
        ncclAllReduce(values, values + 1, 1, ncclInt32, ncclSum, comm, stream);
    Require(result == ncclSuccess || result == ncclInProgress, "ncclAllReduce");
    result = ncclAllGather(values, values + 2, 1, ncclInt32, comm, stream);
    Require(result == ncclSuccess || result == ncclInProgress, "ncclAllGather");
  }
  void Check() const {
    Require(cudaStreamSynchronize(stream) == cudaSuccess, "cudaStreamSynchronize");
    std::vector<int> found(ranks.size() + 1);
    Require(cudaMemcpy(found.data(), values + 1, found.size() * sizeof(int),
                       cudaMemcpyDeviceToHost) == cudaSuccess,
            "cudaMemcpy");
    int sum = 0;
    bool fine = true;
    std::string places;
    for (int i = 0; i < size(); ++i) {
      const int wanted = ValueOf(ranks[static_cast<size_t>(i)]);
      sum += wanted;
      fine &= found[static_cast<size_t>(i) + 1] == wanted;
      places += ' ';
      places += std::to_string(found[static_cast<size_t>(i) + 1]);
    }
    printf("%d group %d sum %d places%s\n", rank, number, found[0], places.c_str());
    fflush(stdout);
    Require(fine && found[0] == sum, "the check of the sums");
  }
};

// Nobody hands these out: the seed tells all.
ncclUniqueId TextId(int number) {
  ncclUniqueId id{};
  snprintf(id.internal, sizeof id.internal, "group %d", number);
  return id;
}

void UseOwnGpu() {
  Require(cudaSetDevice(local_rank) == cudaSuccess, "cudaSetDevice");
}

// `own`: the groups of this rank, in its order.
void Play(const std::vector<Group*>& own, const std::string& way) {
  for (Group* group : own)
    group->Prepare();
  if (way == "threads") {
    std::vector<std::thread> threads;
    for (Group* group : own)
      threads.emplace_back([group] { UseOwnGpu(), group->Init(true); });
    for (std::thread& thread : threads)
      thread.join();
  } else {
    if (way == "group")
      Require(ncclGroupStart() == ncclSuccess, "ncclGroupStart");
    for (Group* group : own)
      group->Init(way != "nonblocking");
    if (way == "group")
      Require(ncclGroupEnd() == ncclSuccess, "ncclGroupEnd");
    if (way == "nonblocking")
      for (Group* group : own)
        group->AwaitInit();
  }
  // In one order, since every rank's thread waits for each.
  std::vector<Group*> sorted = own;
  std::sort(sorted.begin(), sorted.end(),
            [](const Group* a, const Group* b) { return a->number < b->number; });
  for (const Group* group : sorted)
    group->Reduce(), group->Check();
}

void PlayRandom(const std::string& way, unsigned seed) {
  std::mt19937 shared(seed), own_order(seed * 1000 + static_cast<unsigned>(rank));
  std::vector<Group> groups(4 + shared() % 5);
  for (size_t g = 0; g < groups.size(); ++g) {
    groups[g].number = static_cast<int>(g);
    groups[g].ranks.resize(static_cast<size_t>(world));
    std::iota(groups[g].ranks.begin(), groups[g].ranks.end(), 0);
    if (shared() % 2 == 0)
      std::shuffle(groups[g].ranks.begin(), groups[g].ranks.end(), shared);
    groups[g].ranks.resize(1 + shared() % groups[g].ranks.size());
    // Every rank makes as many, so that they agree where NCCL_COMM_ID is set.
    Require(ncclGetUniqueId(&groups[g].id) == ncclSuccess, "ncclGetUniqueId");
    if (g % 2 == 0)
      groups[g].id = TextId(static_cast<int>(g));
  }
  std::vector<Group*> own;
  for (Group& group : groups)
    if (group.place() < group.size())
      own.push_back(&group);
  if (way != "blocking")
    std::shuffle(own.begin(), own.end(), own_order);
  Play(own, way);
}

// Of one group on one stream, listed the other way round by odd ranks.
void ReduceTogether(Group* groups) {
  for (int g = 0; g < 2; ++g) {
    groups[g].Prepare();
    groups[g].Init(true);
  }
  groups[1].stream = groups[0].stream;
  Require(ncclGroupStart() == ncclSuccess, "ncclGroupStart");
  groups[rank % 2].Reduce();
  groups[1 - rank % 2].Reduce();
  Require(ncclGroupEnd() == ncclSuccess, "ncclGroupEnd");
  groups[0].Check();
  groups[1].Check();
}

void PlaySwap(const std::string& way) {
  Group groups[2];
  for (int g = 0; g < 2; ++g) {
    groups[g].number = g;
    groups[g].ranks.resize(static_cast<size_t>(world));
    std::iota(groups[g].ranks.begin(), groups[g].ranks.end(), 0);
    Require(ncclGetUniqueId(&groups[g].id) == ncclSuccess, "ncclGetUniqueId");
  }
  if (way == "launch")
    ReduceTogether(groups);
  else
    Play({&groups[rank % 2], &groups[1 - rank % 2]}, way);
}

// The group's first rank makes its id and leaves it in the folder for the others.
void HandOut(const std::string& folder, Group* group) {
  const std::string path = folder + "/id" + std::to_string(group->number);
  if (group->place() == 0) {
    Require(ncclGetUniqueId(&group->id) == ncclSuccess, "ncclGetUniqueId");
    FILE* file = fopen((path + ".new").c_str(), "wb");
    Require(file != nullptr && fwrite(&group->id, sizeof group->id, 1, file) == 1 &&
                fclose(file) == 0 && rename((path + ".new").c_str(), path.c_str()) == 0,
            "writing the id");
  } else {
    FILE* file = nullptr;
    while ((file = fopen(path.c_str(), "rb")) == nullptr)
      usleep(1000);
    Require(fread(&group->id, sizeof group->id, 1, file) == 1, "reading the id");
    fclose(file);
  }
}

void PlayHandedOut(const std::string& folder) {
  Group group;
  group.number = rank / 2;
  for (int member = rank / 2 * 2; member < std::min(world, rank / 2 * 2 + 2); ++member)
    group.ranks.push_back(member);
  HandOut(folder, &group);
  Play({&group}, "blocking");
}

void PlayGrid(const std::string& folder) {
  Group row, column;
  row.number = rank / 2;
  row.ranks = {rank / 2 * 2, rank / 2 * 2 + 1};
  column.number = world + rank % 2;
  for (int member = rank % 2; member < world; member += 2)
    column.ranks.push_back(member);
  HandOut(folder, &row);
  HandOut(folder, &column);
  Play({&row, &column}, "blocking");
}

void PlayAlone(bool join, int id) {
  Group group;
  group.ranks.resize(static_cast<size_t>(world));
  std::iota(group.ranks.begin(), group.ranks.end(), 0);
  group.id = TextId(id);
  if (join)
    Play({&group}, "blocking");
  else
    for (;;)
      pause();
}

void PlayLeft(int polls, bool by_main) {
  if (rank + 1 == world)
    return;
  Group group;
  group.ranks.resize(static_cast<size_t>(world));
  std::iota(group.ranks.begin(), group.ranks.end(), 0);
  group.id = TextId(0);
  group.Init(/*blocking=*/false);
  const auto poll = [&] {
    for (int i = 0; i < polls; ++i) {
      ncclResult_t state = ncclSuccess;
      Require(ncclCommGetAsyncError(group.comm, &state) == ncclSuccess &&
                  state == ncclInProgress,
              "the poll");
      usleep(1000);
    }
  };
  if (by_main)
    poll();
  else
    std::thread(poll).join();
  Require(ncclCommAbort(group.comm) == ncclSuccess, "ncclCommAbort");
}

int FromEnvironment(const char* name) {
  const char* text = getenv(name);
  return text == nullptr ? 0 : atoi(text);
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  world = FromEnvironment("WORLD_SIZE");
  rank = FromEnvironment("RANK");
  local_rank = FromEnvironment("LOCAL_RANK");
  UseOwnGpu();
  if (arguments.size() == 3 && arguments[0] == "random")
    PlayRandom(arguments[1], static_cast<unsigned>(std::stoul(arguments[2])));
  else if (arguments.size() == 2 && arguments[0] == "swap")
    PlaySwap(arguments[1]);
  else if (arguments.size() == 2 && arguments[0] == "handed_out")
    PlayHandedOut(arguments[1]);
  else if (arguments.size() == 2 && arguments[0] == "grid")
    PlayGrid(arguments[1]);
  else if (arguments == std::vector<std::string>{"missing"})
    PlayAlone(rank + 1 < world, 0);
  else if (arguments == std::vector<std::string>{"own"})
    PlayAlone(true, rank);
  else if (arguments.size() == 3 && arguments[0] == "left")
    PlayLeft(std::stoi(arguments[1]), arguments[2] == "main");
  else
    return 2;
  return 0;
}
