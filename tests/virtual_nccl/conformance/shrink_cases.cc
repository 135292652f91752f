// ncclCommShrink and ncclCommRevoke.

#include "tests/virtual_nccl/conformance/world.h"

namespace conformance {
namespace {

constexpr char kPage[] = "api/comms";
constexpr char kUsage[] = "usage/communicators";
constexpr char kFlags[] = "api/flags";
constexpr char kHeader[] = "nccl.h";

int Rank() {
  return TheWorld().rank;
}

int Last() {
  return TheWorld().size - 1;
}

// Without `excluded`; nothing on an excluded rank.
Comm Shrink(ncclComm_t parent, int excluded, int flags = NCCL_SHRINK_DEFAULT,
            ncclConfig_t* config = nullptr) {
  Comm comm;
  if (Rank() != excluded)
    EXPECT_OK(ncclCommShrink(parent, &excluded, 1, comm.out(), config, flags));
  return comm;
}

// The same of a copy of the job's communicator: the excluded rank does not count a
// shrink among the parent's children, so that later splits of that parent would not
// fit.
Comm ShrinkCopy(int excluded, int flags = NCCL_SHRINK_DEFAULT,
                ncclConfig_t* config = nullptr) {
  const Comm parent = Duplicate();
  return Shrink(parent.get(), excluded, flags, config);
}

void CheckShrunk(const Comm& comm, int excluded) {
  if (Rank() == excluded) {
    EXPECT_THAT(comm.get() == nullptr);
    return;
  }
  EXPECT_THAT(CountOf(comm.get()) == TheWorld().size - 1);
  EXPECT_THAT(RankIn(comm.get()) == (Rank() > excluded ? Rank() - 1 : Rank()));
  EXPECT_THAT(Works(comm.get()));
}

void Revoke(ncclComm_t comm) {
  EXPECT_OK(Settle(comm, ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT)));
}

Comm Revoked() {
  Comm comm = Duplicate();
  EXPECT_THAT(Works(comm.get()));
  Revoke(comm.get());
  return comm;
}

constexpr unsigned kNeeds = kTwoRanks | kEveryRank;

constexpr Case kCases[] = {
    {"shrink.removes", "ncclCommShrink", kPage,
     "ncclCommShrink: a new communicator by removing specified ranks",
     [] { CheckShrunk(ShrinkCopy(Last()), Last()); }, kNeeds},
    {"shrink.collective", "ncclCommShrink", kPage,
     "ncclCommShrink: called by all participating ranks of the new one",
     [] {
       if (!HasBoard())
         return;
       Post("shrink");
       const Comm comm = ShrinkCopy(0);
       if (Rank() != 0)
         for (int rank = 1; rank < TheWorld().size; ++rank)
           EXPECT_THAT(IsPosted("shrink", rank));
     },
     kNeeds},
    {"shrink.excluded_do_not_call", "ncclCommShrink", kPage,
     "ncclCommShrink: ranks of excludeRanksList should not call",
     [] {
       int self = Rank();
       Comm comm;
       EXPECT_CODE(ncclInvalidArgument,
                   ncclCommShrink(TheWorld().comm, &self, 1, comm.out(), nullptr, 0));
     },
     kNeeds},
    {"shrink.list", "ncclCommShrink", kPage,
     "ncclCommShrink: the original ranks listed will be excluded",
     [] {
       int list[] = {Last(), 0};
       const Comm parent = Duplicate();
       Comm comm;
       if (Rank() != 0 && Rank() != Last()) {
         EXPECT_OK(ncclCommShrink(parent.get(), list, 2, comm.out(), nullptr, 0));
         EXPECT_THAT(CountOf(comm.get()) == TheWorld().size - 2);
         EXPECT_THAT(RankIn(comm.get()) == Rank() - 1);
       }
     },
     kThreeRanks | kEveryRank},
    {"shrink.contiguous", "ncclCommShrink", kPage,
     "ncclCommShrink: ranks updated to a contiguous set of ids",
     [] { CheckShrunk(ShrinkCopy(0), 0); }, kNeeds},
    {"shrink.config", "ncclCommShrink", kPage,
     "ncclCommShrink: a special configuration can be passed",
     [] {
       ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
       config.commName = "smaller";
       CheckShrunk(ShrinkCopy(Last(), NCCL_SHRINK_DEFAULT, &config), Last());
     },
     kNeeds},
    {"shrink.inherits", "ncclCommShrink", kPage,
     "ncclCommShrink: NULL config inherits the parent's",
     [] {
       ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
       config.commName = "parent";
       const Comm parent = Duplicate(TheWorld().comm, &config);
       CheckShrunk(Shrink(parent.get(), Last()), Last());
     },
     kNeeds},
    {"shrink.default", "ncclCommShrink", kPage,
     "ncclCommShrink: NCCL_SHRINK_DEFAULT (or 0) for normal operation",
     [] { CheckShrunk(ShrinkCopy(Last(), 0), Last()); }, kNeeds},
    {"shrink.abort", "ncclCommShrink", kPage,
     "ncclCommShrink: NCCL_SHRINK_ABORT aborts outstanding operations",
     [] {
       Comm parent = Duplicate();
       CheckShrunk(Shrink(parent.get(), Last(), NCCL_SHRINK_ABORT), Last());
       EXPECT_OK(ncclCommAbort(parent.Release()));
     },
     kNeeds},
    {"shrink.shares", "ncclCommShrink", kPage,
     "ncclCommShrink: shrinkShare 1 reuses the parent's resources",
     [] {
       ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
       config.shrinkShare = 1;
       const Comm parent = FromNewId(&config);
       CheckShrunk(Shrink(parent.get(), Last()), Last());
     },
     kNeeds},
    {"shrink.flag_default", "ncclCommShrink", kFlags,
     "NCCL_SHRINK_DEFAULT: without affecting ongoing operations, 0x00",
     [] {
       EXPECT_THAT(NCCL_SHRINK_DEFAULT == 0);
       const Comm parent = Duplicate();
       CheckShrunk(Shrink(parent.get(), Last()), Last());
       EXPECT_THAT(Works(parent.get()));
     },
     kNeeds},
    {"shrink.flag_abort", "ncclCommShrink ncclCommAbort", kFlags,
     "NCCL_SHRINK_ABORT: resources of the parent are not freed, 0x01",
     [] {
       EXPECT_THAT(NCCL_SHRINK_ABORT == 1);
       Comm parent = Duplicate();
       const Comm child = Shrink(parent.get(), 0, NCCL_SHRINK_ABORT);
       EXPECT_THAT(CountOf(parent.get()) == TheWorld().size);
       EXPECT_OK(ncclCommAbort(parent.Release()));
       CheckShrunk(child, 0);
     },
     kNeeds},
    {"shrink.usage", "ncclCommShrink ncclCommDestroy", kUsage,
     "Shrinking: only ranks of the new communicator call",
     [] { CheckShrunk(ShrinkCopy(1), 1); }, kNeeds},
    {"shrink.usage_excluded", "ncclCommShrink", kUsage,
     "Shrinking: ranks in the exclusion list should not call",
     [] {
       const Comm parent = Duplicate();
       const Comm comm = Shrink(parent.get(), 1);
       EXPECT_THAT((comm.get() == nullptr) == (Rank() == 1));
       EXPECT_THAT(Works(parent.get()));
     },
     kNeeds},
    {"shrink.usage_order", "ncclCommShrink", kUsage,
     "Shrinking: ranks re-ordered to maintain contiguous numbering",
     [] {
       const Comm comm = ShrinkCopy(1);
       if (comm.get() != nullptr)
         EXPECT_THAT(RankIn(comm.get()) == (Rank() == 0 ? 0 : Rank() - 1));
     },
     kNeeds},
    {"shrink.usage_group", "ncclCommShrink ncclGroupStart ncclGroupEnd", kUsage,
     "Shrinking: group start and end synchronize the creation",
     [] {
       const Comm parent = Duplicate();
       Comm comm;
       int excluded = Last();
       if (Rank() == excluded)
         return;
       EXPECT_OK(ncclGroupStart());
       EXPECT_OK(ncclCommShrink(parent.get(), &excluded, 1, comm.out(), nullptr, 0));
       EXPECT_OK(ncclGroupEnd());
       CheckShrunk(comm, excluded);
     },
     kNeeds},
    {"shrink.fault", "ncclCommShrink", kUsage,
     "Fault: ncclCommShrink with NCCL_SHRINK_ABORT removes failed ranks",
     [] {
       Comm parent = Duplicate();
       EXPECT_THAT(Works(parent.get()));
       const Comm child = Shrink(parent.get(), Last(), NCCL_SHRINK_ABORT);
       EXPECT_OK(ncclCommAbort(parent.Release()));
       CheckShrunk(child, Last());
     },
     kNeeds},
    {"shrink.header", "ncclCommShrink", kHeader,
     "ncclCommShrink: ranks re-ordered to fill the gap of removed ones",
     [] { CheckShrunk(ShrinkCopy(0), 0); }, kNeeds},
    {"shrink.header_removed", "ncclCommShrink", kHeader,
     "ncclCommShrink: ranks in excludeRanksList will be removed",
     [] {
       Comm comm;
       int none = 0;
       EXPECT_CODE(ncclInvalidArgument,
                   ncclCommShrink(TheWorld().comm, nullptr, 1, comm.out(), nullptr, 0));
       EXPECT_CODE(ncclInvalidArgument,
                   ncclCommShrink(TheWorld().comm, &none, 0, comm.out(), nullptr, 0));
       EXPECT_THAT(Works(TheWorld().comm));
     },
     kNeeds},
    {"revoke.without_destroying", "ncclCommRevoke", kPage,
     "ncclCommRevoke: revokes operations without destroying resources",
     [] {
       const Comm comm = Revoked();
       EXPECT_THAT(CountOf(comm.get()) == TheWorld().size);
     },
     kAnything},
    {"revoke.query", "ncclCommRevoke ncclCommGetAsyncError", kPage,
     "ncclCommRevoke: query the state until it returns ncclSuccess",
     [] {
       const Comm comm = Duplicate();
       const ncclResult_t result = ncclCommRevoke(comm.get(), NCCL_REVOKE_DEFAULT);
       EXPECT_THAT(result == ncclSuccess || result == ncclInProgress);
       EXPECT_OK(Settle(comm.get()));
     },
     kAnything},
    {"revoke.flags", "ncclCommRevoke", kPage,
     "ncclCommRevoke: revokeFlags must be NCCL_REVOKE_DEFAULT (0)",
     [] {
       const Comm comm = Duplicate();
       EXPECT_CODE(ncclInvalidArgument, ncclCommRevoke(comm.get(), 1));
       EXPECT_THAT(Works(comm.get()));
     },
     kAnything},
    {"revoke.safe_destroy", "ncclCommRevoke ncclCommDestroy", kPage,
     "ncclCommRevoke: after it, safe for destroy",
     [] {
       Comm comm = Revoked();
       EXPECT_OK(ncclCommDestroy(comm.Release()));
     },
     kAnything},
    {"revoke.safe_split", "ncclCommRevoke ncclCommSplit", kHeader,
     "ncclCommRevoke: then management operations can proceed safely",
     [] {
       const Comm comm = Revoked();
       EXPECT_THAT(Works(Duplicate(comm.get()).get()));
     },
     kAnything},
    {"revoke.safe_shrink", "ncclCommRevoke ncclCommShrink", kHeader,
     "ncclCommRevoke: destroy, split, shrink",
     [] {
       const Comm comm = Revoked();
       CheckShrunk(Shrink(comm.get(), Last()), Last());
     },
     kNeeds},
    {"revoke.no_collectives", "ncclCommRevoke ncclAllReduce", kPage,
     "ncclCommRevoke: new collectives return ncclInvalidUsage",
     [] {
       const Comm comm = Revoked();
       const Buffer buffer(4);
       EXPECT_CODE(ncclInvalidUsage,
                   ncclAllReduce(buffer.at(), buffer.at(), 1, ncclInt, ncclSum,
                                 comm.get(), TheWorld().stream));
     },
     kAnything},
    {"revoke.no_finalize", "ncclCommRevoke ncclCommFinalize", kPage,
     "ncclCommRevoke: calling ncclCommFinalize after it is not supported",
     [] {
       const Comm comm = Revoked();
       EXPECT_THAT(ncclCommFinalize(comm.get()) != ncclSuccess);
     },
     kAnything},
    {"revoke.no_sharing", "ncclCommRevoke ncclCommSplit", kPage,
     "ncclCommRevoke: resource sharing is disabled when revoked",
     [] {
       ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
       config.splitShare = 1;
       Comm comm = FromNewId(&config);
       Revoke(comm.get());
       const Comm child = Duplicate(comm.get());
       EXPECT_OK(ncclCommDestroy(comm.Release()));
       EXPECT_THAT(Works(child.get()));
     },
     kAnything},
    {"revoke.header", "ncclCommRevoke", kHeader,
     "ncclCommRevoke: stops all in-flight operations",
     [] {
       Comm comm = Duplicate();
       const Buffer buffer(std::vector<int>{1});
       EXPECT_OK(ncclAllReduce(buffer.at(), buffer.at(), 1, ncclInt, ncclSum,
                               comm.get(), TheWorld().stream));
       Revoke(comm.get());
       Synchronize();
     },
     kAnything},
};

}  // namespace

std::span<const Case> ShrinkCases() {
  return kCases;
}

}  // namespace conformance
