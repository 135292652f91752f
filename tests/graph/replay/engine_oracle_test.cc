// The engine against the longest-path oracle, on thousands of random jobs.

#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/replay/engine_impl.h"
#include "graph/replay/step.h"
#include "tests/graph/replay/oracle_check.h"
#include "tests/graph/replay/random_job.h"

namespace vrank::graph {
namespace {

// Eight shards, so that each is short and they run side by side.
constexpr uint64_t kShards = 8;
class EngineOracleTest : public testing::TestWithParam<uint64_t> {
 protected:
  // This shard's part of `jobs` seeds.
  static std::vector<uint64_t> Seeds(uint64_t jobs) {
    std::vector<uint64_t> seeds;
    for (uint64_t seed = 1 + GetParam(); seed <= jobs; seed += kShards)
      seeds.push_back(seed);
    return seeds;
  }
};
INSTANTIATE_TEST_SUITE_P(Shard, EngineOracleTest, testing::Range(uint64_t{0}, kShards));

TEST_P(EngineOracleTest, EqualsLongestPathToTheNanosecond) {
  for (const uint64_t seed : Seeds(3000)) {
    const Job job = RandomJob(seed);
    ASSERT_EQ(PlayAgainstOracle<Engine>(job), "") << "seed " << seed;
  }
}

TEST_P(EngineOracleTest, EqualsLongestPathOnLongerJobs) {
  RandomJobOptions options;
  options.events = 600;
  for (const uint64_t seed : Seeds(40)) {
    const Job job = RandomJob(seed, options);
    ASSERT_EQ(PlayAgainstOracle<Engine>(job), "") << "seed " << seed;
  }
}

TEST_P(EngineOracleTest, ShuffledOrderChangesNothing) {
  for (const uint64_t seed : Seeds(3000)) {
    const Job job = RandomJob(seed);
    ASSERT_EQ(PlayAgainstOracle<Engine>(job, seed * 77), "") << "seed " << seed;
  }
}

// The whole record, ledgers included, is equal in any order of evaluation, and when the
// programs come in pieces.
std::map<std::string, RecordingObserver::Told> Record(const Job& job,
                                                      uint64_t shuffle_seed,
                                                      std::string* trouble) {
  const FakeNetwork network;
  FakeMembership membership(&job);
  RecordingObserver observer;
  Engine engine(OptionsOf(job, shuffle_seed), &network, &membership, &observer);
  AddRanks(job, engine, true, job.programs);
  *trouble = RunToEnd(engine);
  return std::move(observer.told);
}

TEST_P(EngineOracleTest, LedgersDoNotDependOnTheOrderOfEvaluation) {
  for (const uint64_t seed : Seeds(300)) {
    std::string trouble;
    const auto first = Record(RandomJob(seed), 0, &trouble);
    ASSERT_EQ(trouble, "");
    for (uint64_t shuffle = 1; shuffle <= 3; ++shuffle) {
      ASSERT_TRUE(first == Record(RandomJob(seed), shuffle * 1234567, &trouble))
          << "seed " << seed << " shuffle " << shuffle;
      ASSERT_EQ(trouble, "");
    }
  }
}

TEST_P(EngineOracleTest, WhoIsToldLateOfItsGroupEndsAtTheSameTime) {
  uint64_t waited = 0;
  for (const uint64_t seed : Seeds(1500)) {
    std::string trouble;
    const Job job = RandomJob(seed);
    const auto first = Record(job, 0, &trouble);
    const FakeNetwork network;
    FakeMembership membership(&job, /*first_waits=*/true);
    RecordingObserver observer;
    Engine engine(OptionsOf(job, seed), &network, &membership, &observer);
    AddRanks(job, engine, true, job.programs);
    ASSERT_EQ(RunToEnd(engine), "") << "seed " << seed;
    ASSERT_TRUE(first == observer.told) << "seed " << seed;
    waited += membership.waited();
  }
  EXPECT_GT(waited, 100u);
}

TEST_P(EngineOracleTest, ProgramsInPiecesGiveTheSame) {
  for (const uint64_t seed : Seeds(1000)) {
    std::string trouble;
    const Job job = RandomJob(seed);
    const auto whole = Record(RandomJob(seed), 0, &trouble);
    ASSERT_EQ(trouble, "");

    const FakeNetwork network;
    FakeMembership membership(&job);
    RecordingObserver observer;
    Engine engine(OptionsOf(job), &network, &membership, &observer);
    std::vector<std::unique_ptr<Program>> programs;
    for (const auto& program : job.programs)
      programs.push_back(CopyOf(*program, 0, false));
    AddRanks(job, engine, true, programs);
    std::mt19937_64 random(seed);
    std::vector<uint64_t> fed(programs.size());
    for (bool more = true; more;) {
      more = false;
      for (size_t rank = 0; rank < programs.size(); ++rank) {
        const Program& source = *job.programs[rank];
        for (uint64_t n = random() % 12; n > 0 && fed[rank] < source.size(); --n)
          programs[rank]->Append(source.op(fed[rank]++));
        if (fed[rank] == source.size() && !programs[rank]->closed())
          programs[rank]->Close();
        more = more || fed[rank] < source.size();
        engine.ProgramChanged(programs[rank].get());
        if (random() % 2 == 0) {
          ASSERT_TRUE(engine.Run().ok());
        }
      }
    }
    ASSERT_EQ(RunToEnd(engine), "") << "seed " << seed;
    ASSERT_TRUE(whole == observer.told) << "seed " << seed;
  }
}

// Virtual ranks take the recorded answers and never diverge from them.
TEST_P(EngineOracleTest, VirtualRanksRepeatRecordedPrograms) {
  for (const uint64_t seed : Seeds(1000)) {
    const Job job = RandomJob(seed);
    const FakeNetwork network;
    FakeMembership membership(&job);
    RecordingObserver real_observer;
    Engine real(OptionsOf(job), &network, &membership, &real_observer);
    AddRanks(job, real, true, job.programs);
    ASSERT_EQ(RunToEnd(real), "");

    RecordingObserver observer;
    Engine played(OptionsOf(job, seed), &network, &membership, &observer);
    AddRanks(job, played, false, job.programs);
    ASSERT_EQ(RunToEnd(played), "") << "seed " << seed;
    for (int32_t rank = 0; rank < static_cast<int32_t>(job.programs.size()); ++rank) {
      const RankResult a = real.result(rank), b = played.result(rank);
      ASSERT_EQ(a.end, b.end) << "seed " << seed << " rank " << rank;
      ASSERT_EQ(a.divergences, 0u) << "seed " << seed;
      ASSERT_EQ(b.divergences, 0u) << "seed " << seed;
      ASSERT_EQ(a.host_waited, b.host_waited);
      ASSERT_EQ(a.peak_memory_bytes, b.peak_memory_bytes);
    }
    for (const auto& [what, told] : observer.told)
      ASSERT_EQ(told, real_observer.told.at(what)) << what;
  }
}

// Wrong rules: each must be noticed, else the tests above prove nothing about it.
struct NoLatency : Step {
  static Stamp Start(const Stamp& lane, const Stamp& host, int64_t) {
    return Step::Start(lane, host, 0);
  }
};
struct NoLaneOrder : Step {
  static Stamp Start(const Stamp&, const Stamp& host, int64_t latency) {
    return Step::Start(Stamp{}, host, latency);
  }
};
struct TokenIgnoresLane : Step {
  static Stamp TokenEnd(const Stamp&, const Stamp& host, int64_t latency) {
    return Step::Start(Stamp{}, host, latency);
  }
};
struct WaitForgotten : Step {
  static void LaneWait(Stamp&, const Stamp&) {}
};
struct HostDoesNotWait : Step {
  static void HostWait(Stamp&, const Stamp&) {}
};
struct PollIsWait : Step {
  static void HostPoll(Stamp& host, const Stamp& end, int64_t, Source) {
    HostWait(host, end);
  }
};
struct EndsTooLate : Step {
  static bool HasEnded(const Stamp& end, const Stamp& host) { return end.ns < host.ns; }
};
struct CommunicatorNotSerial : Step {
  static Stamp Arrival(const Stamp& lane, const Stamp& host, int64_t latency,
                       const Stamp&) {
    return Step::Start(lane, host, latency);
  }
};
struct TransferForgetsPeer : Step {
  static Stamp TransferEnd(Stamp own, const Stamp&, const Cost& cost) {
    return CommunicationEnd(own, cost);
  }
};
struct ScaledUp : Step {
  static int64_t Scaled(int64_t duration, int64_t numerator, int64_t denominator) {
    return (duration * numerator + denominator - 1) / denominator;
  }
};
struct CostForgotten : Step {
  static Stamp CommunicationEnd(Stamp latest, const Cost&) { return latest; }
};

template <class Rule>
class WrongRuleTest : public testing::Test {};
using WrongRules =
    testing::Types<NoLatency, NoLaneOrder, TokenIgnoresLane, WaitForgotten,
                   HostDoesNotWait, PollIsWait, EndsTooLate, CommunicatorNotSerial,
                   TransferForgetsPeer, ScaledUp, CostForgotten>;
TYPED_TEST_SUITE(WrongRuleTest, WrongRules);

TYPED_TEST(WrongRuleTest, IsNoticed) {
  int noticed = 0;
  for (uint64_t seed = 1; seed <= 200 && noticed == 0; ++seed) {
    const Job job = RandomJob(seed);
    noticed += !PlayAgainstOracle<EngineImpl<TypeParam>>(job).empty();
  }
  EXPECT_EQ(noticed, 1);
}

}  // namespace
}  // namespace vrank::graph
