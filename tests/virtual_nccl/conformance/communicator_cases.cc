// Init in all its forms, and what a communicator says about itself.

#include <cstdlib>
#include <string>

#include "tests/virtual_nccl/conformance/world.h"

namespace conformance {
namespace {

constexpr char kPage[] = "api/comms";
constexpr char kUsage[] = "usage/communicators";

ncclResult_t InitRank(ncclComm_t* comm, int ranks, int rank) {
  ncclUniqueId id{};
  return ncclCommInitRank(comm, ranks, id, rank);
}

// A communicator of this rank alone, by ncclCommInitAll.
Comm Alone(const int* devices) {
  Comm comm;
  EXPECT_OK(ncclCommInitAll(comm.out(), 1, devices));
  return comm;
}

// No call returns before every rank has made it.
template <typename Init>
void CheckMeeting(const char* mark, Init init) {
  if (!HasBoard())
    return;
  const ncclUniqueId id = SharedId();
  Post(mark);
  Comm comm;
  EXPECT_OK(init(comm.out(), id));
  for (int rank : TheWorld().present)
    EXPECT_THAT(IsPosted(mark, rank));
}

Comm Scalable(int ids, ncclResult_t wanted = ncclSuccess) {
  std::vector<ncclUniqueId> all;
  for (int i = 0; i < ids; ++i)
    all.push_back(SharedId());
  Comm comm;
  EXPECT_CODE(wanted,
              ncclCommInitRankScalable(comm.out(), TheWorld().size, TheWorld().rank,
                                       ids, all.data(), nullptr));
  return comm;
}

// As many communicators as devices, by one call.
void CheckAllDevices(const int* devices) {
  std::vector<ncclComm_t> comms(static_cast<size_t>(TheWorld().devices));
  EXPECT_OK(ncclCommInitAll(comms.data(), TheWorld().devices, devices));
  for (int i = 0; i < TheWorld().devices; ++i) {
    ncclComm_t comm = comms[static_cast<size_t>(i)];
    EXPECT_THAT(CountOf(comm) == TheWorld().devices);
    EXPECT_THAT(RankIn(comm) == i);
    EXPECT_THAT(DeviceOf(comm) == (devices != nullptr ? devices[i] : i));
  }
  for (ncclComm_t comm : comms)
    EXPECT_OK(ncclCommDestroy(comm));
}

constexpr Case kCases[] = {
    {"init.creates", "ncclCommInitRank", kPage,
     "ncclCommInitRank: creates a new communicator",
     [] {
       Comm comm;
       const ncclUniqueId id = SharedId();
       EXPECT_OK(ncclCommInitRank(comm.out(), TheWorld().size, id, TheWorld().rank));
       EXPECT_THAT(comm.get() != nullptr && comm.get() != TheWorld().comm);
       EXPECT_THAT(Works(comm.get()));
     }},
    {"init.rank_range", "ncclCommInitRank", kPage,
     "ncclCommInitRank: rank must be between 0 and nranks-1",
     [] {
       Comm comm;
       EXPECT_CODE(ncclInvalidArgument, InitRank(comm.out(), 2, -1));
       EXPECT_CODE(ncclInvalidArgument, InitRank(comm.out(), 2, 2));
     }},
    {"init.rank_unique", "ncclCommInitRank ncclCommUserRank", kPage,
     "ncclCommInitRank: rank unique within a communicator clique",
     [] {
       const int size = TheWorld().size;
       EXPECT_THAT(SumOver(TheWorld().comm, RankIn(TheWorld().comm)) ==
                   size * (size - 1) / 2);
     },
     kEveryRank},
    {"init.ranks_positive", "ncclCommInitRank", kUsage,
     "errors (3): incorrect argument, an out-of-bounds value",
     [] {
       Comm comm;
       EXPECT_CODE(ncclInvalidArgument, InitRank(comm.out(), 0, 0));
       EXPECT_CODE(ncclInvalidArgument, InitRank(comm.out(), -1, 0));
     }},
    {"init.null", "ncclCommInitRank", kUsage,
     "errors table: ncclInvalidArgument, an argument is invalid",
     [] { EXPECT_CODE(ncclInvalidArgument, InitRank(nullptr, 1, 0)); }},
    {"init.device", "ncclCommInitRank ncclCommCuDevice", kPage,
     "ncclCommInitRank: each rank is associated to a CUDA device set before",
     [] {
       EXPECT_CUDA(cudaSetDevice(TheWorld().device));
       const Comm comm = FromNewId();
       EXPECT_THAT(DeviceOf(comm.get()) == TheWorld().device);
     }},
    {"init.meets", "ncclCommInitRank", kPage,
     "ncclCommInitRank: implicitly synchronizes with other ranks",
     [] {
       CheckMeeting("init", [](ncclComm_t* comm, ncclUniqueId id) {
         return ncclCommInitRank(comm, TheWorld().size, id, TheWorld().rank);
       });
     }},
    {"init.in_group", "ncclCommInitRank ncclGroupStart ncclGroupEnd", kPage,
     "ncclCommInitRank: or used within ncclGroupStart/ncclGroupEnd",
     [] {
       Comm comm;
       const ncclUniqueId id = SharedId();
       EXPECT_OK(ncclGroupStart());
       EXPECT_OK(ncclCommInitRank(comm.out(), TheWorld().size, id, TheWorld().rank));
       EXPECT_OK(ncclGroupEnd());
       EXPECT_THAT(Works(comm.get()));
     }},
    {"init.fixed_rank_and_device", "ncclCommInitRank ncclCommUserRank ncclCommCuDevice",
     kUsage, "Creating: each object associated to a fixed rank and CUDA device",
     [] {
       const Comm comm = Duplicate();
       const int rank = RankIn(comm.get()), device = DeviceOf(comm.get());
       EXPECT_THAT(Works(comm.get()));
       EXPECT_THAT(RankIn(comm.get()) == rank && DeviceOf(comm.get()) == device);
     }},
    {"init.objects_launch", "ncclCommInitRank", kUsage,
     "Creating: objects will be used to launch communication operations",
     [] {
       const Comm comm = FromNewId();
       for (int i = 0; i < 3; ++i)
         EXPECT_THAT(Works(comm.get()));
     }},
    {"init_all.clique", "ncclCommInitAll", kPage,
     "ncclCommInitAll: creates a clique of communicators",
     [] {
       const Comm comm = Alone(nullptr);
       EXPECT_THAT(CountOf(comm.get()) == 1 && RankIn(comm.get()) == 0);
     }},
    {"init_all.array", "ncclCommInitAll", kPage,
     "ncclCommInitAll: returns an array of ndev new communicators",
     [] { CheckAllDevices(nullptr); }, kTwoDevices},
    {"init_all.room", "ncclCommInitAll", kPage,
     "ncclCommInitAll: comms pre-allocated with ndev*sizeof(ncclComm_t)",
     [] {
       ncclComm_t comms[2] = {nullptr, TheWorld().comm};
       EXPECT_OK(ncclCommInitAll(comms, 1, nullptr));
       EXPECT_THAT(comms[0] != nullptr && comms[1] == TheWorld().comm);
       EXPECT_OK(ncclCommDestroy(comms[0]));
     }},
    {"init_all.devices", "ncclCommInitAll ncclCommCuDevice", kPage,
     "ncclCommInitAll: devlist defines the CUDA devices of the ranks",
     [] {
       const int last = TheWorld().devices - 1;
       const Comm comm = Alone(&last);
       EXPECT_THAT(DeviceOf(comm.get()) == last);
     }},
    {"init_all.first_devices", "ncclCommInitAll ncclCommCuDevice", kPage,
     "ncclCommInitAll: if devlist is NULL, the first devices in order",
     [] { EXPECT_THAT(DeviceOf(Alone(nullptr).get()) == 0); }},
    {"init_all.order", "ncclCommInitAll ncclCommUserRank", "nccl.h",
     "ncclCommInitAll: order of devlist defines user-order of processors",
     [] {
       std::vector<int> devices;
       for (int i = TheWorld().devices; i-- > 0;)
         devices.push_back(i);
       CheckAllDevices(devices.data());
     },
     kTwoDevices},
    {"init_all.equivalent", "ncclCommInitAll", kUsage,
     "Creating: InitAll is equivalent to GetUniqueId and InitRank",
     [] {
       const Comm comm = Alone(nullptr);
       Buffer buffer(std::vector<int>{5});
       cudaStream_t stream = nullptr;
       EXPECT_CUDA(cudaSetDevice(0));
       EXPECT_CUDA(cudaStreamCreate(&stream));
       Buffer result(sizeof(int));
       EXPECT_OK(ncclAllReduce(buffer.at(), result.at(), 1, ncclInt, ncclSum,
                               comm.get(), stream));
       EXPECT_THAT(result.Values<int>()[0] == 5);
       EXPECT_CUDA(cudaStreamDestroy(stream));
       EXPECT_CUDA(cudaSetDevice(TheWorld().device));
     }},
    {"init_all.bad_arguments", "ncclCommInitAll", kUsage,
     "Creating: the same CUDA device several times is not supported",
     [] {
       ncclComm_t comms[2] = {};
       const int twice[] = {0, 0}, none = -1;
       EXPECT_THAT(ncclCommInitAll(comms, 2, twice) != ncclSuccess);
       EXPECT_THAT(ncclCommInitAll(comms, 1, &none) != ncclSuccess);
       EXPECT_CODE(ncclInvalidArgument, ncclCommInitAll(comms, -1, nullptr));
     }},
    {"init_config.same_way", "ncclCommInitRankConfig", kPage,
     "ncclCommInitRankConfig: works the same way as ncclCommInitRank",
     [] {
       ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
       const Comm comm = FromNewId(&config);
       EXPECT_THAT(RankIn(comm.get()) == TheWorld().rank && Works(comm.get()));
     }},
    {"init_config.null", "ncclCommInitRankConfig", kPage,
     "ncclCommInitRankConfig: NULL config has the default behavior",
     [] {
       const Comm comm = FromNewId(nullptr);
       EXPECT_THAT(CountOf(comm.get()) == TheWorld().size && Works(comm.get()));
     }},
    {"init_config.header", "ncclCommInitRankConfig", "nccl.h",
     "ncclCommInitRankConfig: with a configuration set by users",
     [] {
       ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
       config.commName = "of the user";
       config.blocking = 1;
       EXPECT_THAT(Works(FromNewId(&config).get()));
     }},
    {"init_config.meets", "ncclCommInitRankConfig", "nccl.h",
     "ncclCommInitRank: implicitly synchronizes, so call it from processes",
     [] {
       CheckMeeting("config", [](ncclComm_t* comm, ncclUniqueId id) {
         return ncclCommInitRankConfig(comm, TheWorld().size, id, TheWorld().rank,
                                       nullptr);
       });
     }},
    {"scalable.one_id", "ncclCommInitRankScalable", kPage,
     "ncclCommInitRankScalable: with one id as if InitRankConfig was called",
     [] { EXPECT_THAT(Works(Scalable(1).get())); }},
    {"scalable.same_way", "ncclCommInitRankScalable", kPage,
     "ncclCommInitRankScalable: same way, but accepts a list of ids",
     [] {
       const Comm comm = Scalable(TheWorld().size < 8 ? TheWorld().size : 8);
       EXPECT_THAT(CountOf(comm.get()) == TheWorld().size);
       EXPECT_THAT(RankIn(comm.get()) == TheWorld().rank);
     }},
    {"scalable.all_used", "ncclCommInitRankScalable", kPage,
     "ncclCommInitRankScalable: all ids initialize the single communicator",
     [] {
       const Comm comm = Scalable(2);
       EXPECT_THAT(Works(comm.get()));
     },
     kTwoRanks},
    {"scalable.up_to_one_per_rank", "ncclCommInitRankScalable", "nccl.h",
     "ncclCommInitRankScalable: more than one id, up to one per rank",
     [] {
       std::vector<ncclUniqueId> ids(static_cast<size_t>(TheWorld().size) + 1);
       Comm comm;
       auto init = [&](int count) {
         return ncclCommInitRankScalable(comm.out(), TheWorld().size, TheWorld().rank,
                                         count, ids.data(), nullptr);
       };
       EXPECT_CODE(ncclInvalidArgument, init(0));
       EXPECT_CODE(ncclInvalidArgument, init(TheWorld().size + 1));
     }},
    {"scalable.same_array", "ncclCommInitRankScalable", kUsage,
     "multiple ncclUniqueIds: the same ids in the same order",
     [] { EXPECT_THAT(Works(Scalable(2).get())); }, kTwoRanks},
    {"scalable.many_ids", "ncclCommInitRankScalable", kUsage,
     "multiple ncclUniqueIds: creation using many ncclUniqueIds",
     [] {
       const Comm comm = Scalable(3);
       EXPECT_THAT(CountOf(comm.get()) == TheWorld().size);
     },
     kThreeRanks},
    {"query.count", "ncclCommCount", kPage,
     "ncclCommCount: the number of ranks in the communicator",
     [] { EXPECT_THAT(CountOf(TheWorld().comm) == TheWorld().size); }},
    {"query.device", "ncclCommCuDevice", kPage,
     "ncclCommCuDevice: the CUDA device of the communicator",
     [] { EXPECT_THAT(DeviceOf(TheWorld().comm) == TheWorld().device); }},
    {"query.rank", "ncclCommUserRank", kPage,
     "ncclCommUserRank: the rank of the caller in the communicator",
     [] { EXPECT_THAT(RankIn(TheWorld().comm) == TheWorld().rank); }},
    {"query.user_ordered", "ncclCommUserRank", "nccl.h",
     "ncclCommUserRank: the user-ordered rank",
     [] {
       Comm reversed;
       EXPECT_OK(ncclCommSplit(TheWorld().comm, 0, -TheWorld().rank, reversed.out(),
                               nullptr));
       EXPECT_THAT(RankIn(reversed.get()) == TheWorld().size - 1 - TheWorld().rank);
     },
     kEveryRank},
    {"query.null", "ncclCommCount ncclCommUserRank ncclCommCuDevice", kUsage,
     "errors (3): the NCCL call had no effect",
     [] {
       int value = -7;
       EXPECT_CODE(ncclInvalidArgument, ncclCommCount(nullptr, &value));
       EXPECT_CODE(ncclInvalidArgument, ncclCommUserRank(nullptr, &value));
       EXPECT_CODE(ncclInvalidArgument, ncclCommCuDevice(nullptr, &value));
       EXPECT_CODE(ncclInvalidArgument, ncclCommCount(TheWorld().comm, nullptr));
       EXPECT_CODE(ncclInvalidArgument, ncclCommUserRank(TheWorld().comm, nullptr));
       EXPECT_CODE(ncclInvalidArgument, ncclCommCuDevice(TheWorld().comm, nullptr));
       EXPECT_THAT(value == -7);
     },
     kNoDevice},
};

}  // namespace

std::span<const Case> CommunicatorCases() {
  return kCases;
}

}  // namespace conformance
