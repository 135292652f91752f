// Chapter "Group Calls": aggregated, ordered, nonblocking and simulated operations.

#include "tests/virtual_nccl/conformance/sums.h"

namespace conformance {
namespace {

constexpr char kPage[] = "api/group";
constexpr char kUsage[] = "usage/groups";
constexpr char kHeader[] = "nccl.h";

void Aggregate(bool nested) {
  const Buffer a(Ints(5, TheWorld().rank)), b = Ones(), c = Ones(2);
  EXPECT_OK(ncclGroupStart());
  if (nested)
    EXPECT_OK(ncclGroupStart());
  EXPECT_OK(
      ncclBroadcast(a.at(), a.at(), 5, ncclInt, 0, TheWorld().comm, TheWorld().stream));
  Sum(b);
  if (nested) {
    EXPECT_OK(ncclGroupEnd());
    EXPECT_OK(ncclGroupStart());
  }
  Sum(c);
  if (nested)
    EXPECT_OK(ncclGroupEnd());
  EXPECT_OK(ncclGroupEnd());
  EXPECT_THAT(a.Values<int>() == Ints(5, 0) && IsSummed(b) && IsSummed(c));
}

float Estimate(size_t count) {
  ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
  const Buffer buffer = Ones(count);
  EXPECT_OK(ncclGroupStart());
  Sum(buffer);
  EXPECT_OK(ncclGroupSimulateEnd(&info));
  // Nothing was launched.
  EXPECT_THAT(buffer.Values<int>()[0] == 1);
  return info.estimatedTime;
}

constexpr Case kCases[] = {
    {"group.aggregated", "ncclGroupStart ncclGroupEnd", kUsage,
     "Aggregated: multiple collectives performed within a single launch",
     [] { Aggregate(false); }},
    {"group.aggregated_simply", "ncclGroupStart ncclGroupEnd", kUsage,
     "Aggregated: simply by multiple calls within a group section",
     [] {
       std::vector<Buffer> buffers;
       for (size_t i = 1; i < 12; ++i)
         buffers.push_back(Ones(i));
       EXPECT_OK(ncclGroupStart());
       for (const Buffer& buffer : buffers)
         Sum(buffer);
       EXPECT_OK(ncclGroupEnd());
       for (const Buffer& buffer : buffers)
         EXPECT_THAT(IsSummed(buffer));
     }},
    {"group.one_broadcast_two_sums", "ncclBroadcast ncclAllReduce ncclGroupEnd", kUsage,
     "Aggregated: one broadcast and two allReduce as a single launch",
     [] { Aggregate(false); }},
    {"group.different_comms", "ncclGroupStart ncclGroupEnd", kUsage,
     "Aggregated: permitted to use different communicators in a group",
     [] {
       const Comm other = Duplicate();
       const Buffer a = Ones(), b = Ones();
       EXPECT_OK(ncclGroupStart());
       Sum(a);
       Sum(b, other.get(), TheWorld().stream);
       EXPECT_OK(ncclGroupEnd());
       EXPECT_THAT(IsSummed(a) && IsSummed(b));
     }},
    {"group.each_level", "ncclGroupStart ncclGroupEnd", kUsage,
     "Aggregated: start and end either once or at each level", [] { Aggregate(true); }},
    {"group.started_as_a_whole", "ncclGroupStart ncclGroupEnd", kUsage,
     "Aggregated: only started as a whole during the last ncclGroupEnd",
     [] {
       const Buffer buffer = Ones();
       EXPECT_OK(ncclGroupStart());
       EXPECT_OK(ncclGroupStart());
       Sum(buffer);
       EXPECT_OK(ncclGroupEnd());
       EXPECT_THAT(buffer.Values<int>()[0] == 1);
       EXPECT_OK(ncclGroupEnd());
       EXPECT_THAT(IsSummed(buffer));
     }},
    {"group.inner_does_nothing", "ncclGroupStart ncclGroupEnd", kUsage,
     "Aggregated: start and end within the loop do nothing",
     [] {
       EXPECT_OK(ncclGroupStart());
       for (int i = 0; i < 4; ++i) {
         EXPECT_OK(ncclGroupStart());
         EXPECT_OK(ncclGroupEnd());
       }
       EXPECT_OK(ncclGroupEnd());
       EXPECT_CODE(ncclInvalidUsage, ncclGroupEnd());
     }},
    {"group.order", "ncclGroupStart ncclGroupEnd", kUsage,
     "Ordering: the same issuing order among different GPUs",
     [] {
       // The second call reads what the first one wrote.
       const Buffer buffer = Ones();
       EXPECT_OK(ncclGroupStart());
       Sum(buffer);
       EXPECT_OK(ncclGroupEnd());
       EXPECT_OK(ncclGroupStart());
       Sum(buffer);
       EXPECT_OK(ncclGroupEnd());
       EXPECT_THAT(IsSummed(buffer, 2));
     },
     kEveryRank},
    {"group.order_of_comms", "ncclGroupStart ncclGroupEnd", kUsage,
     "Ordering: issued to the same or different communicators",
     [] {
       const Comm comm0 = Duplicate(), comm1 = Duplicate();
       const Buffer a = Ones(), b = Ones(2), c = Ones(4), d = Ones(8);
       EXPECT_OK(ncclGroupStart());
       EXPECT_OK(ncclBroadcast(a.at(), a.at(), 3, ncclInt, 0, comm0.get(),
                               TheWorld().stream));
       Sum(b, comm0.get(), TheWorld().stream);
       Sum(c, comm0.get(), TheWorld().stream);
       Sum(d, comm1.get(), TheWorld().stream);
       EXPECT_OK(ncclGroupEnd());
       EXPECT_THAT(IsSummed(b) && IsSummed(c) && IsSummed(d));
     }},
    {"group.nonblocking", "ncclGroupEnd ncclCommGetAsyncError", kUsage,
     "Nonblocking: ncclSuccess or ncclInProgress from ncclGroupEnd",
     [] {
       ncclConfig_t config = NonblockingConfig();
       const Comm comm = FromNewId(&config);
       const Buffer a = Ones(), b = Ones();
       EXPECT_OK(ncclGroupStart());
       for (const Buffer* buffer : {&a, &b}) {
         const ncclResult_t result =
             ncclAllReduce(buffer->at(), buffer->at(), 3, ncclInt, ncclSum, comm.get(),
                           TheWorld().stream);
         EXPECT_THAT(result == ncclSuccess || result == ncclInProgress);
       }
       EXPECT_OK(Settle(comm.get(), ncclGroupEnd()));
       Synchronize();
       EXPECT_THAT(IsSummed(a) && IsSummed(b));
     }},
    {"group.nonblocking_poll", "ncclCommGetAsyncError ncclGroupEnd", kUsage,
     "Nonblocking: make sure the state changes into ncclSuccess",
     [] {
       ncclConfig_t config = NonblockingConfig();
       const Comm comm = FromNewId(&config);
       const Buffer buffer = Ones();
       EXPECT_OK(ncclGroupStart());
       static_cast<void>(ncclAllReduce(buffer.at(), buffer.at(), 3, ncclInt, ncclSum,
                                       comm.get(), TheWorld().stream));
       const ncclResult_t result = ncclGroupEnd();
       EXPECT_THAT(result == ncclSuccess || result == ncclInProgress);
       EXPECT_OK(Settle(comm.get()));
       EXPECT_THAT(IsSummed(buffer));
     }},
    {"group.header_fused", "ncclGroupStart ncclGroupEnd", kHeader,
     "Group Start: all calls until ncclGroupEnd fused into one operation",
     [] { Aggregate(false); }},
    {"group.header_nothing_started", "ncclGroupStart", kHeader,
     "Group Start: nothing started on the stream until ncclGroupEnd",
     [] {
       const Buffer buffer = Ones();
       EXPECT_OK(ncclGroupStart());
       Sum(buffer);
       EXPECT_THAT(buffer.Values<int>()[0] == 1);
       EXPECT_OK(ncclGroupEnd());
       EXPECT_THAT(IsSummed(buffer));
     }},
    {"group.header_after_end", "ncclGroupEnd", kHeader,
     "Group End: dependent stream operations called after ncclGroupEnd",
     [] {
       const Buffer buffer = Ones(), copy(12);
       EXPECT_OK(ncclGroupStart());
       Sum(buffer);
       EXPECT_OK(ncclGroupEnd());
       EXPECT_CUDA(cudaMemcpyAsync(copy.at(), buffer.at(), 12, cudaMemcpyDeviceToDevice,
                                   TheWorld().stream));
       EXPECT_THAT(IsSummed(copy));
     }},
    {"group.header_aggregates", "ncclGroupStart ncclGroupEnd", kHeader,
     "Group semantics: fuse multiple operations on the same device",
     [] { Aggregate(true); }},
    {"group.header_init", "ncclCommInitRank ncclGroupEnd", kHeader,
     "Group semantics: ncclCommInitRank in conjunction with groups",
     [] {
       const ncclUniqueId a = SharedId(), b = SharedId();
       Comm one, other;
       EXPECT_OK(ncclGroupStart());
       EXPECT_OK(ncclCommInitRank(one.out(), TheWorld().size, a, TheWorld().rank));
       EXPECT_OK(ncclCommInitRank(other.out(), TheWorld().size, b, TheWorld().rank));
       EXPECT_OK(ncclGroupEnd());
       EXPECT_THAT(Works(one.get()) && Works(other.get()));
     }},
    {"group.simulate", "ncclGroupSimulateEnd", kPage,
     "ncclGroupSimulateEnd: simulate, return info in a structure",
     [] { EXPECT_THAT(Estimate(1000) >= 0); }, kTwoRanks},
    {"group.simulate_time", "ncclGroupSimulateEnd", "api/types",
     "estimatedTime: estimated time for the operations in the group call",
     [] { EXPECT_THAT(Estimate(10) <= Estimate(10'000'000)); }, kTwoRanks},
    {"group.simulate_initializer", "ncclGroupSimulateEnd", "api/types",
     "NCCL_SIM_INFO_INITIALIZER: must be assigned to a new ncclSimInfo_t",
     [] {
       ncclSimInfo_t info{};
       EXPECT_OK(ncclGroupStart());
       EXPECT_THAT(ncclGroupSimulateEnd(&info) != ncclSuccess);
     },
     kAnything},
    {"group.simulate_error", "ncclGroupSimulateEnd", kHeader,
     "sim info initializer: not initialized simInfo will result in error",
     [] {
       ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
       info.magic = 3;
       EXPECT_OK(ncclGroupStart());
       EXPECT_THAT(ncclGroupSimulateEnd(&info) != ncclSuccess);
       EXPECT_THAT(Works(TheWorld().comm));
     },
     kAnything},
};

}  // namespace

std::span<const Case> AggregationCases() {
  return kCases;
}

}  // namespace conformance
