// ncclCommSplit: colours, keys, what a child has of its parent.

#include "tests/virtual_nccl/conformance/world.h"

namespace conformance {
namespace {

constexpr char kPage[] = "api/comms";
constexpr char kUsage[] = "usage/communicators";

Comm Split(int color, int key, ncclConfig_t* config = nullptr) {
  Comm comm;
  EXPECT_OK(ncclCommSplit(TheWorld().comm, color, key, comm.out(), config));
  return comm;
}

int Rank() {
  return TheWorld().rank;
}

// How many ranks of the world are in the half of this one.
int HalfSize() {
  const int half = TheWorld().size / 2;
  return Rank() < half ? half : TheWorld().size - half;
}

int Half() {
  return Rank() < TheWorld().size / 2 ? 0 : 1;
}

constexpr Case kCases[] = {
    {"split.collective", "ncclCommSplit", kPage,
     "ncclCommSplit: collective, creates communicators from an existing one",
     [] {
       const Comm comm = Split(0, Rank());
       EXPECT_THAT(comm.get() != TheWorld().comm && Works(comm.get()));
     }},
    {"split.same_color", "ncclCommSplit", kPage,
     "ncclCommSplit: ranks with the same color are in the same group",
     [] {
       const Comm comm = Split(Half(), Rank());
       EXPECT_THAT(CountOf(comm.get()) == HalfSize());
       EXPECT_THAT(SumOver(comm.get(), Half()) == Half() * HalfSize());
     },
     kTwoRanks | kEveryRank},
    {"split.color_range", "ncclCommSplit", kPage,
     "ncclCommSplit: color must be a non-negative value",
     [] { EXPECT_THAT(Works(Split(0x7fffffff, 0).get())); }, kEveryRank},
    {"split.no_color", "ncclCommSplit", kPage,
     "ncclCommSplit: NCCL_SPLIT_NOCOLOR, returning NULL as newcomm",
     [] {
       Comm comm(TheWorld().comm);
       EXPECT_OK(
           ncclCommSplit(TheWorld().comm, NCCL_SPLIT_NOCOLOR, 0, comm.out(), nullptr));
       EXPECT_THAT(comm.Release() == nullptr);
     }},
    {"split.key_orders", "ncclCommSplit", kPage,
     "ncclCommSplit: the smaller key means the smaller rank",
     [] {
       const Comm comm = Split(0, 100 - Rank());
       EXPECT_THAT(RankIn(comm.get()) == TheWorld().size - 1 - Rank());
     },
     kTwoRanks | kEveryRank},
    {"split.equal_keys", "ncclCommSplit", kPage,
     "ncclCommSplit: keys are equal, the rank in the original orders",
     [] { EXPECT_THAT(RankIn(Split(0, 5).get()) == Rank()); }},
    {"split.mixed_keys", "ncclCommSplit", "nccl.h",
     "ncclCommSplit: within the new communicator, key orders ranks",
     [] {
       // Odd ranks first, each part in the order of the world.
       const Comm comm = Split(3, Rank() % 2 == 1 ? -1 : 1);
       const int odd = TheWorld().size / 2;
       EXPECT_THAT(RankIn(comm.get()) ==
                   (Rank() % 2 == 1 ? Rank() / 2 : odd + Rank() / 2));
     },
     kTwoRanks | kEveryRank},
    {"split.config", "ncclCommSplit", kPage,
     "ncclCommSplit: a special configuration can be passed as config",
     [] {
       ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
       config.commName = "child";
       EXPECT_THAT(Works(Split(0, Rank(), &config).get()));
     }},
    {"split.bad_config", "ncclCommSplit", "api/types",
     "NCCL_CONFIG_INITIALIZER: must be assigned to a new configuration",
     [] {
       ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
       config.magic = 1;
       Comm comm;
       EXPECT_CODE(ncclInvalidArgument,
                   ncclCommSplit(TheWorld().comm, 0, Rank(), comm.out(), &config));
     }},
    {"split.inherits", "ncclCommSplit", kPage,
     "ncclCommSplit: config NULL inherits the configuration",
     [] {
       ncclConfig_t config = NonblockingConfig();
       const Comm parent = FromNewId(&config);
       Comm child;
       const ncclResult_t result =
           ncclCommSplit(parent.get(), 0, Rank(), child.out(), nullptr);
       EXPECT_THAT(result == ncclSuccess || result == ncclInProgress);
       EXPECT_OK(Settle(parent.get()));
       EXPECT_OK(Settle(child.get()));
       EXPECT_THAT(Works(child.get()));
     }},
    {"split.sub_partitions", "ncclCommSplit", kUsage,
     "Creating more: split into multiple sub-partitions",
     [] {
       const Comm quarter = Split(Rank() / 2, Rank());
       EXPECT_THAT(CountOf(quarter.get()) ==
                   (Rank() / 2 * 2 + 1 < TheWorld().size ? 2 : 1));
       EXPECT_THAT(Works(quarter.get()));
     },
     kTwoRanks | kEveryRank},
    {"split.duplicate", "ncclCommSplit", kUsage,
     "Creating more: duplicate an existing communicator",
     [] {
       const Comm comm = Duplicate();
       EXPECT_THAT(CountOf(comm.get()) == TheWorld().size);
       EXPECT_THAT(RankIn(comm.get()) == Rank());
     }},
    {"split.fewer_ranks", "ncclCommSplit", kUsage,
     "Creating more: a single communicator with fewer ranks",
     [] {
       const Comm comm = Split(Rank() < 2 ? 0 : NCCL_SPLIT_NOCOLOR, Rank());
       EXPECT_THAT((comm.get() != nullptr) == (Rank() < 2));
       if (comm.get() != nullptr)
         EXPECT_THAT(CountOf(comm.get()) == 2 && Works(comm.get()));
     },
     kThreeRanks | kEveryRank},
    {"split.all_ranks_call", "ncclCommSplit", kUsage,
     "Creating more: needs to be called by all ranks in the original",
     [] {
       if (!HasBoard())
         return;
       Post("split");
       const Comm comm = Split(0, Rank());
       for (int rank : TheWorld().present)
         EXPECT_THAT(IsPosted("split", rank));
     }},
    {"split.no_color_still_calls", "ncclCommSplit", kUsage,
     "Creating more: ranks of no sub-group still call, with NOCOLOR",
     [] {
       const Comm comm =
           Split(Rank() == 0 ? NCCL_SPLIT_NOCOLOR : 0, TheWorld().size - Rank());
       EXPECT_THAT((comm.get() == nullptr) == (Rank() == 0));
       if (comm.get() != nullptr)
         EXPECT_THAT(CountOf(comm.get()) == TheWorld().size - 1);
     },
     kTwoRanks | kEveryRank},
    {"split.inherits_nonblocking", "ncclCommSplit", kUsage,
     "Creating more: inherit the parent's configuration (non-blocking)",
     [] {
       ncclConfig_t config = NonblockingConfig();
       const Comm parent = FromNewId(&config);
       const Comm child = Duplicate(parent.get());
       EXPECT_OK(Settle(child.get()));
       EXPECT_THAT(Works(child.get()) && Works(parent.get()));
     }},
    {"split.halves", "ncclCommSplit", kUsage,
     "Creating more: this splits in two halves",
     [] {
       const int half = TheWorld().size / 2;
       const Comm comm = Split(Rank() / half, Rank() % half);
       EXPECT_THAT(RankIn(comm.get()) == Rank() % half);
       EXPECT_THAT(CountOf(comm.get()) == half);
     },
     kTwoRanks | kEveryRank},
    {"split.header_creates", "ncclCommSplit", "nccl.h",
     "ncclCommSplit: creates one or more communicators",
     [] {
       const Comm each = Split(Rank(), 0);
       EXPECT_THAT(CountOf(each.get()) == 1 && RankIn(each.get()) == 0);
       EXPECT_THAT(Works(each.get()));
     },
     kEveryRank},
    {"split.header_no_color", "ncclCommSplit", "nccl.h",
     "ncclCommSplit: NOCOLOR will not be part of any group",
     [] {
       const Comm comm = Split(Rank() % 2 == 0 ? 0 : NCCL_SPLIT_NOCOLOR, 0);
       if (comm.get() != nullptr)
         EXPECT_THAT(CountOf(comm.get()) == (TheWorld().size + 1) / 2);
     },
     kTwoRanks | kEveryRank},
    {"split.header_colors", "ncclCommSplit", "nccl.h",
     "ncclCommSplit: the same color end up in the same communicator",
     [] {
       const int color = Rank() % 2 == 0 ? 40 : 7;
       const Comm comm = Split(color, Rank());
       EXPECT_THAT(SumOver(comm.get(), color) == color * CountOf(comm.get()));
     },
     kTwoRanks | kEveryRank},
    {"split.header_inherits", "ncclCommSplit", "nccl.h",
     "ncclCommSplit: if config is NULL, inherit the configuration",
     [] {
       ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
       config.commName = "parent";
       const Comm parent = FromNewId(&config);
       EXPECT_THAT(Works(Duplicate(parent.get()).get()));
     }},
    {"split.grandchild", "ncclCommSplit", kPage,
     "ncclCommSplit: a set of new communicators from an existing one",
     [] {
       const Comm child = Duplicate();
       const Comm grandchild = Duplicate(child.get());
       EXPECT_THAT(Works(grandchild.get()) && Works(child.get()));
     }},
    {"split.bad_arguments", "ncclCommSplit", "usage/communicators",
     "errors (3): the communicator is still functioning normally",
     [] {
       Comm comm;
       EXPECT_CODE(ncclInvalidArgument,
                   ncclCommSplit(nullptr, 0, 0, comm.out(), nullptr));
       EXPECT_CODE(ncclInvalidArgument,
                   ncclCommSplit(TheWorld().comm, 0, 0, nullptr, nullptr));
       EXPECT_THAT(Works(TheWorld().comm));
     }},
};

}  // namespace

std::span<const Case> SplitCases() {
  return kCases;
}

}  // namespace conformance
