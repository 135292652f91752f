// Followers of a leader's program against ranks with programs of their own.
//
// Ranks are (class, replica), rank = class * replicas + replica; replica 0 leads. Three
// communicators: the class, the column (one rank of every class) and the world.

#include <random>

#include "tests/graph/replay/engine_fixture.h"
#include "tests/graph/replay/oracle_check.h"

namespace vrank::graph {
namespace {

enum Communicator : uint32_t { kClass = 1, kColumn = 2, kWorld = 3 };

struct Layout {
  uint32_t classes = 1, replicas = 1;
  uint32_t ranks() const { return classes * replicas; }
};

class LayoutMembership : public Membership {
 public:
  explicit LayoutMembership(Layout layout) : layout_(layout) {}

  absl::StatusOr<InitAnswer> Init(const InitCaller& caller,
                                  const Creation& call) override {
    const auto rank = static_cast<uint32_t>(caller.rank);
    const uint32_t own_class = rank / layout_.replicas,
                   replica = rank % layout_.replicas;
    InitAnswer answer;
    const uint32_t kind = call.unique_id[0];
    const uint32_t group = kind == kClass ? own_class : kind == kColumn ? replica : 0;
    answer.identity = fmt::format("{}.{}", kind, group);
    std::vector<int32_t> members;
    for (uint32_t i = 0; i < layout_.ranks(); ++i) {
      if ((kind == kClass && i / layout_.replicas != own_class) ||
          (kind == kColumn && i % layout_.replicas != replica))
        continue;
      if (i == rank)
        answer.index = static_cast<uint32_t>(members.size());
      members.push_back(static_cast<int32_t>(i));
    }
    answer.members = std::make_shared<const std::vector<int32_t>>(std::move(members));
    return answer;
  }
  absl::StatusOr<std::vector<SplitGroup>> Split(std::string_view, uint32_t,
                                                std::span<const SplitMember>) override {
    return absl::UnimplementedError("not part of this test");
  }

 private:
  Layout layout_;
};

// Writes the same job as one program per class and as one program per rank.
class Writer {
 public:
  Writer(Layout layout, uint64_t seed) : layout_(layout), random_(seed) {
    for (uint32_t c = 0; c < layout.classes; ++c)
      leaders.push_back(std::make_unique<Program>(true));
    for (uint32_t i = 0; i < layout.ranks(); ++i)
      own.push_back(std::make_unique<Program>(true));
    for (const uint32_t number : {kClass, kColumn, kWorld})
      Create(number);
    for (int i = 0; i < 60; ++i)
      Event();
    for (auto& program : leaders)
      program->Close();
    for (auto& program : own)
      program->Close();
  }

  std::vector<std::unique_ptr<Program>> leaders, own;

 private:
  uint32_t Below(uint32_t n) { return static_cast<uint32_t>(random_() % n); }
  Op Make(OpKind kind) {
    Op op;
    op.kind = kind;
    op.host_ns = 100 * Below(20);
    op.lane = 1 + Below(2);
    op.a = 1 + Below(3);
    op.value = kind == OpKind::kTransfers ? 0 : 100 * (1 + Below(30));
    op.launch = kind == OpKind::kWork;
    return op;
  }
  void ToClass(uint32_t c, const Op& op) {
    leaders[c]->Append(op);
    for (uint32_t r = 0; r < layout_.replicas; ++r)
      own[c * layout_.replicas + r]->Append(op);
  }
  void Create(uint32_t number) {
    Creation call;
    call.unique_id[0] = static_cast<uint8_t>(number);
    Op op = Make(OpKind::kCreateCommunicator);
    op.a = number;
    op.value = 0;  // the host waits
    for (auto& program : leaders)
      op.b = program->AddCreation(call);
    for (auto& program : own)
      op.b = program->AddCreation(call);
    for (uint32_t c = 0; c < layout_.classes; ++c)
      ToClass(c, op);
  }
  void Collective(uint32_t number) {
    CollectiveCall call;
    call.operation = static_cast<CollectiveKind>(Below(8));
    call.count = 100 * Below(5);
    call.root = Below(number == kClass    ? layout_.replicas
                      : number == kColumn ? layout_.classes
                                          : layout_.ranks());
    for (uint32_t c = 0; c < layout_.classes; ++c) {
      Op op = Make(OpKind::kCollective);
      op.a = number;
      op.launch = 1;
      for (uint32_t r = 0; r < layout_.replicas; ++r)
        op.b = own[c * layout_.replicas + r]->AddCollective(call);
      op.b = leaders[c]->AddCollective(call);
      ToClass(c, op);
    }
  }
  // Class `from` sends to class `to`, all replicas alike; in a class, to replica +
  // step.
  void Transfers(uint32_t number) {
    const uint32_t from = Below(layout_.classes);
    const uint32_t step = Below(layout_.replicas);
    const uint32_t to = number == kClass ? from : Below(layout_.classes);
    const uint64_t bytes = 100 * Below(30);
    const auto index = [&](uint32_t c, uint32_t r) {
      return number == kClass ? r : number == kColumn ? c : c * layout_.replicas + r;
    };
    const uint32_t n = layout_.replicas;
    const uint32_t size = number == kWorld ? layout_.ranks() : n;
    for (uint32_t c = 0; c < layout_.classes; ++c) {
      if (c != from && c != to)
        continue;
      Op op = Make(OpKind::kTransfers);
      op.a = number;
      const auto group = [&](uint32_t r) {
        std::vector<Transfer> transfers;
        if (c == from) {
          const uint32_t peer = number == kClass ? (r + step) % size : index(to, r);
          transfers.push_back({bytes, peer, 1});
        }
        if (c == to) {
          const uint32_t peer =
              number == kClass ? (r + size - step) % size : index(from, r);
          transfers.push_back({bytes, peer, 0});
        }
        return transfers;
      };
      op.b = leaders[c]->AddTransfers(group(0));
      leaders[c]->Append(op);
      for (uint32_t r = 0; r < n; ++r) {
        op.b = own[c * n + r]->AddTransfers(group(r));
        own[c * n + r]->Append(op);
      }
    }
  }
  void Event() {
    static constexpr OpKind kLocal[] = {OpKind::kWork,         OpKind::kWork,
                                        OpKind::kRecordToken,  OpKind::kWaitToken,
                                        OpKind::kHostWaitLane, OpKind::kHostWaitToken};
    const uint32_t what = Below(6);
    if (what == 0) {
      Collective(1 + Below(3));
    } else if (what == 1) {
      Transfers(1 + Below(3));
    } else {
      const uint32_t c = Below(layout_.classes);
      for (int i = 0; i < 3; ++i)
        ToClass(c, Make(kLocal[Below(std::size(kLocal))]));
    }
  }

  Layout layout_;
  std::mt19937_64 random_;
};

TEST(EngineFollowerTest, FollowersEqualRanksWithProgramsOfTheirOwn) {
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    const Layout layout{1 + static_cast<uint32_t>(seed % 4),
                        1 + static_cast<uint32_t>(seed / 4 % 4)};
    Writer job(layout, seed);
    const FakeNetwork network;
    LayoutMembership membership(layout);
    const EngineOptions options{.launch_queue_depth = 5, .shuffle_seed = seed % 3};
    RecordingObserver followers_observer, own_observer;
    Engine followers(options, &network, &membership, &followers_observer);
    Engine own(options, &network, &membership, &own_observer);
    for (uint32_t i = 0; i < layout.ranks(); ++i) {
      const auto rank = static_cast<int32_t>(i);
      RankOptions follower;
      follower.follower = i % layout.replicas != 0;
      follower.leader =
          follower.follower
              ? static_cast<int32_t>(i / layout.replicas * layout.replicas)
              : -1;
      // One slow rank: its followers or leader do not become slow with it.
      follower.work_numerator = i == seed % layout.ranks() ? 2 : 1;
      RankOptions alone;
      alone.work_numerator = follower.work_numerator;
      followers.AddRank(rank, job.leaders[i / layout.replicas].get(), follower);
      own.AddRank(rank, job.own[i].get(), alone);
    }
    ASSERT_EQ(RunToEnd(followers), "") << "seed " << seed;
    ASSERT_EQ(RunToEnd(own), "") << "seed " << seed;
    ASSERT_TRUE(followers_observer.told == own_observer.told) << "seed " << seed;
    for (uint32_t i = 0; i < layout.ranks(); ++i) {
      const auto rank = static_cast<int32_t>(i);
      ASSERT_EQ(followers.result(rank).end, own.result(rank).end) << "seed " << seed;
    }
  }
}

// A follower takes the leader's answer, once there is one, and differences are counted.
TEST_F(EngineFixture, FollowersWaitForTheLeadersAnswer) {
  MakeRanks(2, false);
  Work(0, 1000);  // leader: ends at 1100; a follower at half speed: at 2100
  Op query = Make(OpKind::kQueryLane, 1500);
  query.b = kAnswerUnknown;
  P(0).Append(query);
  P(0).Close();
  Engine run({.launch_latency = Duration::Nanoseconds(kLatency)}, &network, &membership,
             &observer);
  RankOptions leader, follower;
  leader.real = true;
  follower.follower = true;
  follower.leader = 0;
  follower.work_numerator = 2;
  run.AddRank(0, programs[0].get(), leader);
  run.AddRank(1, programs[0].get(), follower);  // the last one added runs first
  ASSERT_EQ(RunToEnd(run), "");
  EXPECT_TRUE((observer.queries.at({0, 1})));
  EXPECT_EQ(run.result(0).divergences, 0u);
  EXPECT_EQ(run.result(1).divergences, 1u);
}

}  // namespace
}  // namespace vrank::graph
