#include "emulator/world/world.h"

#include <atomic>
#include <chrono>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/emulator/world/fake_job.h"

namespace vrank::emulator {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;

TEST(WorldTest, TwoRanksMeetInAnAllReduce) {
  int64_t ends[2] = {0, 0};
  int32_t sums[2] = {0, 0};
  const auto program = [&](Guest& guest) {
    guest.Init(2);
    guest.Work(guest.rank() == 0 ? 1000 : 5000);
    guest.AllReduce(guest.rank() == 0 ? 3 : 4);
    ends[guest.rank()] = guest.Synchronize();
    sums[guest.rank()] = guest.Result();
  };
  FakeJob job(2, {{0, program}, {1, program}});
  EXPECT_EQ(job.Run(), FakeJob::Outcome::kFinished) << job.status().ToString();
  // The communicator takes 500 ns, the launch 2,000, the longer work 5,000, the
  // all-reduce 500.
  EXPECT_EQ(ends[0], 500 + 2000 + 5000 + 500);
  EXPECT_EQ(ends[0], ends[1]);
  EXPECT_EQ(sums[0], 7);
  EXPECT_EQ(sums[1], 7);
  EXPECT_EQ(job.world().results().Collectives().size(), 1u);
}

TEST(WorldTest, FollowersTakeTheTimesOfTheirLeader) {
  int32_t sum = 0;
  FakeJob job(4, {{0, [&](Guest& guest) {
                     guest.Init(4);
                     guest.Range("iteration", true);
                     guest.Work(1000);
                     guest.AllReduce(5);
                     guest.Synchronize();
                     guest.Range("iteration", false);
                     sum = guest.Result();
                   }}});
  EXPECT_EQ(job.Run(), FakeJob::Outcome::kFinished) << job.status().ToString();
  const ResultCollector& results = job.world().results();
  for (int32_t rank = 0; rank < 4; ++rank) {
    ASSERT_EQ(results.iterations(rank).size(), 1u) << rank;
    EXPECT_EQ(results.iterations(rank)[0].end.ns, results.iterations(0)[0].end.ns);
  }
  // Virtual peers mirror the real one.
  EXPECT_EQ(sum, 20);
  EXPECT_EQ(job.world().real()[0]->mirrored_bytes(), 4u);
}

// Between two pieces the session looks for an interruption.
TEST(WorldTest, PlaysInPiecesWithTheSameResult) {
  const auto play = [](uint64_t turns_at_once, int* turns) {
    WorldOptions options;
    options.turns_at_once = turns_at_once;
    int64_t end = 0;
    FakeJob job(8,
                {{0,
                  [&](Guest& guest) {
                    guest.Init(8);
                    for (int i = 0; i < 10; ++i) {
                      guest.Work(1000 + i);
                      guest.AllReduce(5);
                    }
                    end = guest.Synchronize();
                  }}},
                options);
    EXPECT_EQ(job.Run([turns] { ++*turns; }), FakeJob::Outcome::kFinished);
    return end;
  };
  int many = 0, few = 0;
  const int64_t end = play(1, &many);
  EXPECT_EQ(end, play(1 << 14, &few));
  // Each of 8 ranks takes a turn, at least.
  EXPECT_GE(many, 8);
}

TEST(WorldTest, DecidesAQuestionWhenNobodyCanMove) {
  bool early = true;
  const auto program = [&](Guest& guest) {
    guest.Init(2);
    guest.Init(2, 2);
    if (guest.rank() == 0) {
      guest.Transfer(1, false);
      guest.Record(1);
      // Late enough that the transfer might have ended by now.
      guest.channel().Spend(Duration::Milliseconds(1));
      early = guest.Query(1);
      guest.Transfer(1, true, 2);
      guest.Synchronize();
      return;
    }
    // Rank 1 sends once it has heard of rank 0, and rank 0 speaks after its question.
    guest.Transfer(0, false, 2);
    guest.Synchronize(2);
    guest.Transfer(0, true);
    guest.Synchronize();
  };
  FakeJob job(2, {{0, program}, {1, program}});
  EXPECT_EQ(job.Run(), FakeJob::Outcome::kFinished) << job.status().ToString();
  EXPECT_FALSE(early);
  EXPECT_EQ(job.decided(), 1);
}

TEST(WorldTest, DescribesADeadlock) {
  const auto program = [&](Guest& guest) {
    guest.Init(2);
    if (guest.rank() == 0)
      guest.AllReduce();
    else
      guest.Transfer(0, false);
    guest.Synchronize();
  };
  FakeJob job(2, {{0, program}, {1, program}});
  EXPECT_EQ(job.Run(), FakeJob::Outcome::kStuck);
  const auto lines = job.world().DescribeBlocked(10);
  EXPECT_THAT(lines, Contains(AllOf(HasSubstr("rank 0"), HasSubstr("all_reduce #0"))));
  EXPECT_THAT(lines, Contains(AllOf(HasSubstr("rank 1"), HasSubstr("receive"))));
}

TEST(WorldTest, NamesARankThatLeftEarly) {
  FakeJob job(2, {{0,
                   [](Guest& guest) {
                     guest.Init(2);
                     guest.AllReduce();
                     guest.Synchronize();
                   }},
                  {1, [](Guest& guest) { guest.Init(2); }}});
  EXPECT_EQ(job.Run(), FakeJob::Outcome::kStuck);
  EXPECT_THAT(job.world().DescribeBlocked(10),
              Contains(AllOf(HasSubstr("all_reduce"), HasSubstr("rank 1"),
                             HasSubstr("ended"))));
}

TEST(WorldTest, FailsOnCallsThatDoNotMatch) {
  const auto program = [&](Guest& guest) {
    guest.Init(2);
    protocol::Collective call{};
    call.record.kind = protocol::RecordKind::kCollective;
    call.lane = 1;
    call.communicator = 1;
    call.count = guest.rank() == 0 ? 1024 : 2048;
    call.type = protocol::ElementType::kFloat32;
    guest.channel().Emit(call);
    guest.Synchronize();
  };
  FakeJob job(2, {{0, program}, {1, program}});
  EXPECT_EQ(job.Run(), FakeJob::Outcome::kFailed);
  const std::string message(job.status().message());
  EXPECT_THAT(message, AllOf(HasSubstr("1024"), HasSubstr("2048"), HasSubstr("rank 0"),
                             HasSubstr("rank 1")));
}

TEST(WorldTest, CarriesManyRecordsOfManyRanks) {
  constexpr int kSteps = 3000;
  std::vector<int64_t> ends(4);
  std::map<int32_t, FakeJob::Program> programs;
  for (int32_t rank = 0; rank < 4; ++rank)
    programs[rank] = [&ends](Guest& guest) {
      guest.Init(4);
      for (int i = 0; i < kSteps; ++i) {
        guest.Work(100 + (static_cast<uint64_t>(i) * 7 + guest.rank() * 13) % 50);
        guest.AllReduce();
        if (i % 100 == 0)
          guest.Synchronize();
      }
      ends[guest.rank()] = guest.Synchronize();
    };
  WorldOptions options;
  const auto hub =
      std::make_shared<PayloadHub>(HubOptions(), std::set<int32_t>{0, 1, 2, 3});
  options.payloads = hub;
  FakeJob job(4, programs, options);
  EXPECT_EQ(job.Run(), FakeJob::Outcome::kFinished) << job.status().ToString();
  EXPECT_EQ(ends[0], ends[1]);
  EXPECT_EQ(ends[0], ends[3]);
  EXPECT_EQ(hub->retained_operations(), 0u);
}

// Writes far more than the window while rank 1 is busy elsewhere, then is waited for.
struct RunAhead {
  static constexpr int kOps = 30'000;
  std::atomic<bool> written{false}, go{false};

  FakeJob::Program program() {
    return [this](Guest& guest) {
      guest.Init(2);
      guest.Init(2, 2);
      if (guest.rank() == 0) {
        guest.Transfer(1, false);
        for (int i = 0; i < kOps; ++i)
          guest.Record(1);
        written = true;
        guest.Transfer(1, true, 2);
        guest.Synchronize();
        return;
      }
      while (!go)
        std::this_thread::yield();
      guest.Transfer(0, false, 2);
      guest.Synchronize(2);
      guest.Transfer(0, true);
      guest.Synchronize();
    };
  }
};

TEST(WorldTest, LeavesARankAloneThatIsFarAhead) {
  RunAhead run;
  WorldOptions options;
  options.throttle_ops = 10'000;
  options.records_per_turn = 500;
  FakeJob job(2, {{0, run.program()}, {1, run.program()}}, std::move(options));
  int turns = 0;
  uint64_t decoded = 0;
  // Rank 1 does not wait in the emulator before rank 0 has been given many turns.
  const auto outcome = job.Run([&] {
    if (run.written && ++turns == 200) {
      decoded = job.world().real()[0]->decoder().records();
      run.go = true;
    }
  });
  EXPECT_EQ(outcome, FakeJob::Outcome::kFinished) << job.status().ToString();
  // What a reader has read of its chunk counts twice: as unread, and as pending.
  EXPECT_GT(decoded, 10'000u - graph::Program::kChunkOps);
  EXPECT_LE(decoded, 10'000u + 500 + 10);
  // It was read to its end once rank 1 waited for what it had written.
  EXPECT_GT(job.world().real()[0]->decoder().records(), uint64_t{RunAhead::kOps});
}

// Two ranks that are ahead do not wait for each other.
TEST(WorldTest, RanksThatAreAllAheadGoOn) {
  const auto program = [](Guest& guest) {
    guest.Init(2);
    guest.Init(2, 2);
    // Each has much behind what the other sends only after as much.
    const uint32_t peer = 1 - guest.rank();
    guest.Transfer(peer, false, 1 + guest.rank(), 1);
    for (int i = 0; i < 20'000; ++i)
      guest.Record(1);
    guest.Transfer(peer, true, 1 + peer, 2);
    guest.Synchronize(1);
    guest.Synchronize(2);
  };
  WorldOptions options;
  options.throttle_ops = 100;
  options.records_per_turn = 500;
  FakeJob job(2, {{0, program}, {1, program}}, std::move(options));
  EXPECT_EQ(job.Run(), FakeJob::Outcome::kFinished) << job.status().ToString();
}

// Members 0 and 1 of a communicator, both in this process: numbers 1 and 2.
void JoinWithBothMembers(Guest& guest) {
  for (uint32_t member = 0; member < 2; ++member) {
    protocol::CommInit init{};
    init.record.kind = protocol::RecordKind::kCommInit;
    init.communicator = 1 + member;
    init.ranks = init.local_members = 2;
    init.rank = member;
    if (member == 0)
      guest.channel().AskLater(init);
    else
      guest.channel().Ask(init);
  }
}

void AllReduceOn(Guest& guest, uint32_t communicator) {
  protocol::Collective call{};
  call.record.kind = protocol::RecordKind::kCollective;
  call.lane = call.communicator = communicator;
  call.count = 1;
  guest.channel().Emit(call);
}

TEST(WorldTest, AProcessMayHaveSeveralMembers) {
  int64_t ended[2] = {};
  FakeJob job(1, {{0, [&](Guest& guest) {
                     JoinWithBothMembers(guest);
                     AllReduceOn(guest, 1);
                     AllReduceOn(guest, 2);
                     ended[0] = guest.Synchronize(1);
                     ended[1] = guest.Synchronize(2);
                   }}});
  EXPECT_EQ(job.Run(), FakeJob::Outcome::kFinished) << job.status().ToString();
  EXPECT_EQ(ended[0], 500 + 2000 + 500);
  EXPECT_EQ(ended[1], ended[0]);
}

TEST(WorldTest, TellsWhatTheNetworkModelSays) {
  uint64_t collective = 0, transfer = 0;
  FakeJob job(4, {{0, [&](Guest& guest) {
                     guest.Init(4);
                     protocol::Estimate question{};
                     question.record.kind = protocol::RecordKind::kEstimate;
                     question.communicator = 1;
                     question.count = 8;
                     collective = guest.channel().Ask(question).value;
                     question.transfer = 1;
                     question.root = 3;
                     transfer = guest.channel().Ask(question).value;
                   }}});
  EXPECT_EQ(job.Run(), FakeJob::Outcome::kFinished) << job.status().ToString();
  EXPECT_EQ(collective, 500u);
  EXPECT_EQ(transfer, 500u);
}

}  // namespace
}  // namespace vrank::emulator
