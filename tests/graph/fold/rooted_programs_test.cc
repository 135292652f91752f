// Ranks that follow one that gathers or scatters by sends and receives do their own
// part: what ranks with programs of their own do, live (FollowersGroups) and in a graph
// (rooted_programs.h), on every executor.

#include "graph/fold/rooted_programs.h"

#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graph/program/rooted_transfers.h"
#include "graph/replay/silent_observer.h"
#include "graph/sweep/replay_every_rank.h"
#include "tests/graph/fold/folding_job.h"

namespace vrank::graph {
namespace {

Transfer With(uint32_t peer, bool is_send, uint64_t bytes = 8) {
  return {bytes, peer, is_send ? 1u : 0u};
}

std::vector<uint32_t> PeersOf(const std::vector<Transfer>& group) {
  std::vector<uint32_t> peers;
  for (const Transfer& transfer : group) {
    EXPECT_NE(transfer.peer & kAbsolutePeer, 0u);
    peers.push_back(transfer.peer & ~kAbsolutePeer);
  }
  return peers;
}

TEST(RootedTransfersTest, TheLeaderOrItsOnlyPeerIsTheRoot) {
  // A gather, seen by its root.
  const std::vector gathers{With(0, false), With(1, false), With(3, false)};
  RootedTransfers parts = RootedTransfersOf(gathers, 2, 4);
  EXPECT_EQ(parts.root_index(), 2u);
  EXPECT_EQ(PeersOf(parts.root), (std::vector<uint32_t>{0, 1, 3}));
  EXPECT_EQ(parts.root[0].is_send, 0u);
  EXPECT_EQ(PeersOf(parts.others), std::vector<uint32_t>{2});
  EXPECT_EQ(parts.others[0].is_send, 1u);
  // A scatter, seen by one that receives.
  parts = RootedTransfersOf(std::vector{With(1, false)}, 3, 4);
  EXPECT_EQ(parts.root_index(), 1u);
  EXPECT_EQ(PeersOf(parts.root), (std::vector<uint32_t>{0, 2, 3}));
  EXPECT_EQ(parts.root[0].is_send, 1u);
  EXPECT_EQ(parts.others[0].is_send, 0u);
  // Of two, both views are the same thing.
  parts = RootedTransfersOf(std::vector{With(1, true)}, 0, 2);
  EXPECT_EQ(parts.root_index(), 0u);
  EXPECT_EQ(parts.others[0].is_send, 0u);
}

TEST(RootedTransfersTest, EverythingElseHasNoRoot) {
  const auto rooted = [](const std::vector<Transfer>& group) {
    return !RootedTransfersOf(group, 0, 4).empty();
  };
  EXPECT_TRUE(rooted({With(1, true), With(2, true), With(3, true)}));
  EXPECT_FALSE(rooted({}));
  EXPECT_FALSE(rooted({With(0, true)}));                                // itself
  EXPECT_FALSE(rooted({With(4, true)}));                                // nobody
  EXPECT_FALSE(rooted({With(1, true), With(2, true)}));                 // some
  EXPECT_FALSE(rooted({With(1, true), With(2, true), With(2, true)}));  // one twice
  EXPECT_FALSE(rooted({With(1, true), With(2, true), With(3, false)}));
  EXPECT_FALSE(rooted({With(1, true), With(2, true), With(3, true, 16)}));
  EXPECT_FALSE(rooted({With(1, true), With(1, false)}));
}

// Classes of ranks, of which the first leads. Communicator 1 is a class, communicator 2
// one of its pieces.
struct Shape {
  uint32_t classes = 1, pieces = 1, piece = 2;
  uint32_t replicas() const { return pieces * piece; }
  uint32_t ranks() const { return classes * replicas(); }
  uint32_t leader(uint32_t rank) const { return rank / replicas() * replicas(); }
  uint32_t size(uint32_t number) const { return number == 1 ? replicas() : piece; }
  uint32_t index(uint32_t number, uint32_t rank) const { return rank % size(number); }
};

std::vector<Cut> CutsOf(const Shape& shape) {
  std::vector<Cut> cuts(2);
  for (uint32_t rank = 0; rank < shape.ranks(); ++rank) {
    for (uint32_t number = 1; number <= 2; ++number) {
      auto& groups = cuts[number - 1].groups;
      if (shape.index(number, rank) == 0)
        groups.emplace_back();
      groups.back().push_back(static_cast<int32_t>(rank));
    }
  }
  return cuts;
}

// What happens, in the same order on all ranks of a class.
std::unique_ptr<Program> ProgramOf(const Shape& shape, uint32_t rank, uint64_t seed) {
  // Of the class, so that its ranks draw the same.
  std::mt19937_64 random(seed * 1000 + shape.leader(rank));
  const auto below = [&](uint64_t n) { return static_cast<uint32_t>(random() % n); };
  auto program = std::make_unique<Program>(true);
  for (uint32_t number = 1; number <= 2; ++number) {
    Creation creation;
    creation.unique_id[0] = static_cast<uint8_t>(number);
    creation.ranks = shape.size(number);
    creation.rank = shape.index(number, rank);
    program->Append(Op{.kind = OpKind::kCreateCommunicator,
                       .host_ns = 100,
                       .a = number,
                       .b = program->AddCreation(creation)});
  }
  for (int i = 0; i < 40; ++i) {
    const uint32_t number = 1 + below(2), lane = 1 + below(2);
    const uint32_t size = shape.size(number), own = shape.index(number, rank);
    const uint32_t root = below(size);
    const uint64_t bytes = below(2) == 0 ? 64 : 5000;  // within the credit, and beyond
    Op op{.kind = OpKind::kTransfers, .launch = 1, .lane = lane, .host_ns = 50};
    op.a = number;
    const bool root_sends = below(2) == 0;
    switch (below(5)) {
      case 0:
        op = Op{.kind = OpKind::kWork, .launch = 1, .lane = lane, .value = 700};
        break;
      case 1:
        op.kind = OpKind::kCollective;
        op.b = program->AddCollective({.count = bytes});
        break;
      case 2:
        op = Op{.kind = OpKind::kHostWaitLane, .lane = lane, .host_ns = 20};
        break;
      case 3: {  // a ring
        op.b = program->AddTransfers({With((own + 1) % size, true, bytes),
                                      With((own + size - 1) % size, false, bytes)});
        break;
      }
      default: {
        std::vector<Transfer> group;
        for (uint32_t peer = 0; peer < size; ++peer)
          if (own == root ? peer != root : peer == root)
            group.push_back(With(peer, (own == root) == root_sends, bytes));
        op.b = program->AddTransfers(std::move(group));
      }
    }
    program->Append(op);
  }
  program->Close();
  return program;
}

struct Made {
  std::vector<Cut> cuts;
  std::vector<std::unique_ptr<Program>> programs;
  ReplayJob job;
};

// `own`: no rank follows another.
Made MakeJob(const Shape& shape, uint64_t seed, bool own) {
  Made made;
  made.cuts = CutsOf(shape);
  made.job.options.launch_queue_depth = 6;
  for (uint32_t rank = 0; rank < shape.ranks(); ++rank) {
    ReplayJob::Rank played;
    played.world_rank = static_cast<int32_t>(rank);
    const bool leads = own || rank == shape.leader(rank);
    if (leads)
      made.programs.push_back(ProgramOf(shape, rank, seed));
    played.program = made.programs.back().get();
    played.options.follower = !leads;
    played.options.leader = leads ? -1 : static_cast<int32_t>(shape.leader(rank));
    made.job.ranks.push_back(played);
  }
  return made;
}

std::vector<int64_t> Play(const Made& made, const NetworkModel& network,
                          const std::string& what) {
  CutMembership membership(&made.cuts);
  SilentObserver observer;
  Engine engine(made.job.options, &network, &membership, &observer);
  for (const ReplayJob::Rank& rank : made.job.ranks)
    engine.AddRank(rank.world_rank, rank.program, rank.options);
  EXPECT_TRUE(engine.Run().ok()) << what;
  EXPECT_TRUE(engine.Finished()) << what << ": " << engine.DescribeBlocked(1)[0];
  std::vector<int64_t> ends;
  for (const ReplayJob::Rank& rank : made.job.ranks)
    ends.push_back(engine.result(rank.world_rank).end.ns);
  return ends;
}

// As the emulator writes a live program: each group of transfers with what followers
// do.
void AddFollowersGroupsTo(const Shape& shape, Made* made) {
  for (auto& program : made->programs) {
    auto live = std::make_unique<Program>(true);
    const auto leader =
        static_cast<uint32_t>(&program - made->programs.data()) * shape.replicas();
    for (const Creation& creation : program->details().creations)
      live->AddCreation(creation);
    for (uint64_t i = 0; i < program->size(); ++i) {
      Op op = program->op(i);
      if (op.kind == OpKind::kCollective)
        op.b = live->AddCollective(program->details().collectives[op.b]);
      if (op.kind == OpKind::kTransfers) {
        const std::vector<Transfer>& group = program->details().transfer_groups[op.b];
        op.b = live->AddTransfers(group);
        op.value = AddFollowersGroups(
            RootedTransfersOf(group, shape.index(op.a, leader), shape.size(op.a)),
            live.get());
      }
      live->Append(op);
    }
    live->Close();
    for (ReplayJob::Rank& rank : made->job.ranks)
      if (rank.program == program.get())
        rank.program = live.get();
    program = std::move(live);
  }
}

TEST(RootedProgramsTest, FollowersDoWhatRanksWithProgramsOfTheirOwnDo) {
  const NodeNetwork network(4);
  int with_roots = 0;
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    const Shape shape{1 + static_cast<uint32_t>(seed % 2),
                      1 + static_cast<uint32_t>(seed / 2 % 3),
                      2 + static_cast<uint32_t>(seed / 6 % 4)};
    const std::string what = "seed " + std::to_string(seed);
    const std::vector<int64_t> ends = Play(MakeJob(shape, seed, true), network, what);

    Made live = MakeJob(shape, seed, false);
    AddFollowersGroupsTo(shape, &live);
    ASSERT_EQ(Play(live, network, what + ", live"), ends) << what;

    Made graph = MakeJob(shape, seed, false);
    std::vector<int32_t> classes;
    for (uint32_t rank = 0; rank < shape.ranks(); ++rank)
      classes.push_back(static_cast<int32_t>(rank / shape.replicas()));
    CutMembership membership(&graph.cuts);
    const auto resolved = ResolveCommunicators(graph.job, &membership);
    ASSERT_TRUE(resolved.ok()) << resolved.status().message();
    const RootedPrograms rooted = RootedProgramsOf(*resolved, classes);
    EXPECT_EQ(!rooted.of_rank.empty(), MayNeedRootedPrograms(graph.job)) << what;
    with_roots += !rooted.of_rank.empty();
    for (const auto& [rank, program] : rooted.of_rank)
      graph.job.ranks[static_cast<size_t>(rank)].program =
          rooted.programs[program].get();
    ASSERT_EQ(Play(graph, network, what + ", graph"), ends) << what;

    CutMembership again(&graph.cuts);
    const auto job = ResolveCommunicators(graph.job, &again);
    ASSERT_TRUE(job.ok()) << job.status().message();
    for (const ReplayExecutor executor :
         {ReplayExecutor::kFastest, ReplayExecutor::kWorklist,
          ReplayExecutor::kFolded}) {
      const auto every = ReplayEveryRank(*job, network, {}, executor);
      ASSERT_TRUE(every.ok()) << what << ": " << every.status().message();
      for (uint32_t rank = 0; rank < shape.ranks(); ++rank)
        ASSERT_EQ(every->results[rank].end.ns, ends[rank])
            << what << ", " << every->executor << ", rank " << rank;
    }
  }
  EXPECT_GT(with_roots, 300);
}

}  // namespace
}  // namespace vrank::graph
