// Runs with some real ranks against runs with all of them, as the emulator does it.
//
// A guest writes its program while it runs, and what it writes depends on what it is
// told: clocks, ends and answers to queries. Whichever ranks are real, and in whatever
// order and pieces they write, every rank must come out as in the fully real run.

#include <random>

#include "tests/graph/replay/engine_fixture.h"
#include "tests/graph/replay/oracle_check.h"
#include "tests/graph/replay/random_job.h"

namespace vrank::graph {
namespace {

// Follows a script, and adds work of its own after each answer.
class Guest {
 public:
  Guest(int32_t rank, const Program& script)
      : rank_(rank), script_(script), program_(CopyOf(script, 0, true)) {}

  Program& program() { return *program_; }
  bool done() const { return program_->closed(); }

  // Writes up to `most` ops; false if it waits for an answer.
  bool Write(const RecordingObserver& observer, uint64_t most) {
    for (; most > 0; --most) {
      if (waiting_ && !Hear(observer))
        return false;
      if (next_ == script_.size()) {
        program_->Close();
        return true;
      }
      const Op& op = script_.op(next_++);
      program_->Append(op);
      asked_ = op;
      waiting_ = op.kind == OpKind::kHostWaitLane ||
                 op.kind == OpKind::kHostWaitToken || op.kind == OpKind::kPollLane ||
                 op.kind == OpKind::kPollToken || op.kind == OpKind::kQueryLane ||
                 op.kind == OpKind::kQueryToken || op.kind == OpKind::kAskClock ||
                 op.kind == OpKind::kCreateCommunicator ||
                 op.kind == OpKind::kReleaseCommunicator;
    }
    return true;
  }

 private:
  bool Hear(const RecordingObserver& observer) {
    const std::pair<int32_t, uint64_t> question{rank_, program_->size() - 1};
    Op reaction;
    reaction.kind = OpKind::kWork;
    reaction.lane = asked_.lane + 1;
    reaction.launch = 1;
    if (const auto it = observer.queries.find(question); it != observer.queries.end()) {
      reaction.value = it->second ? 10 : 900;
      reaction.host_ns = it->second ? 1700 : 100;
    } else if (const auto at = observer.answers.find(question);
               at != observer.answers.end()) {
      reaction.value = at->second.ns % 1000;
    } else {
      return false;
    }
    program_->Append(reaction);
    waiting_ = false;
    return true;
  }

  int32_t rank_;
  const Program& script_;
  std::unique_ptr<Program> program_;
  uint64_t next_ = 0;
  bool waiting_ = false;
  Op asked_;
};

struct Outcome {
  std::map<std::string, RecordingObserver::Told> told;
  std::vector<RankResult> results;
  std::vector<std::unique_ptr<Guest>> guests;  // of real ranks
  std::string trouble;
};

// `recorded`: programs of the ranks that are not real.
Outcome Play(const Job& job, uint32_t real,
             const std::vector<std::unique_ptr<Guest>>* recorded, uint64_t seed) {
  const FakeNetwork network;
  FakeMembership membership(&job);
  RecordingObserver observer;
  Engine engine(OptionsOf(job, seed % 2 == 0 ? 0 : seed), &network, &membership,
                &observer);
  Outcome outcome;
  outcome.guests.resize(job.programs.size());
  std::vector<Guest*> guests;
  for (size_t rank = 0; rank < job.programs.size(); ++rank) {
    RankOptions options;
    options.real = (real >> rank & 1) != 0;
    options.work_numerator = job.work_scales[rank].first;
    options.work_denominator = job.work_scales[rank].second;
    Program* program = nullptr;
    if (options.real) {
      outcome.guests[rank] =
          std::make_unique<Guest>(static_cast<int32_t>(rank), *job.programs[rank]);
      guests.push_back(outcome.guests[rank].get());
      program = &guests.back()->program();
    } else {
      program = &(*recorded)[rank]->program();
    }
    engine.AddRank(static_cast<int32_t>(rank), program, options);
  }
  std::mt19937_64 random(seed);
  while (true) {
    bool wrote = false;
    std::shuffle(guests.begin(), guests.end(), random);
    for (Guest* guest : guests) {
      const uint64_t before = guest->program().size();
      const bool was_done = guest->done();
      if (!was_done)
        guest->Write(observer, 1 + random() % 20);
      wrote = wrote || guest->program().size() != before || guest->done() != was_done;
      engine.ProgramChanged(&guest->program());
      if (random() % 3 == 0 && !engine.Run().ok())
        break;
    }
    if (const absl::Status status = engine.Run(); !status.ok()) {
      outcome.trouble = status.ToString();
      return outcome;
    }
    const bool waiting = std::any_of(guests.begin(), guests.end(),
                                     [](const Guest* guest) { return !guest->done(); });
    if (!wrote && !engine.DecideOldestQuery() && !waiting)
      break;
    if (!wrote && engine.Finished())
      break;
  }
  outcome.trouble = RunToEnd(engine);
  outcome.told = std::move(observer.told);
  for (size_t rank = 0; rank < job.programs.size(); ++rank)
    outcome.results.push_back(engine.result(static_cast<int32_t>(rank)));
  return outcome;
}

// Eight shards, so that each is short and they run side by side.
constexpr uint64_t kShards = 8;
class EngineHybridTest : public testing::TestWithParam<uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Shard, EngineHybridTest, testing::Range(uint64_t{0}, kShards));

TEST_P(EngineHybridTest, AnySubsetOfRealRanksGivesTheFullRun) {
  RandomJobOptions options;
  options.absent_ranks = false;
  int played = 0;
  for (uint64_t seed = 1 + GetParam(); seed <= 400; seed += kShards) {
    const Job job = RandomJob(seed, options);
    const size_t ranks = job.programs.size();
    if (ranks < 2 || ranks > 5)
      continue;
    ++played;
    const uint32_t all = (1u << ranks) - 1;
    const Outcome full = Play(job, all, nullptr, seed);
    ASSERT_EQ(full.trouble, "") << "seed " << seed;
    for (uint32_t real = 0; real <= all; ++real) {
      const Outcome hybrid = Play(job, real, &full.guests, seed * 31 + real);
      ASSERT_EQ(hybrid.trouble, "") << "seed " << seed << " real " << real;
      for (size_t rank = 0; rank < ranks; ++rank) {
        ASSERT_EQ(hybrid.results[rank].end, full.results[rank].end)
            << "seed " << seed << " real " << real << " rank " << rank;
        ASSERT_EQ(hybrid.results[rank].ops, full.results[rank].ops);
        ASSERT_EQ(hybrid.results[rank].divergences, 0u);
        ASSERT_EQ(hybrid.results[rank].host_waited, full.results[rank].host_waited);
      }
      for (const auto& [what, told] : hybrid.told)
        ASSERT_EQ(told, full.told.at(what)) << what << " seed " << seed;
    }
  }
  EXPECT_GT(played, 15);
}

// What the guests wrote in the fully real run is judged by the oracle, too.
TEST_P(EngineHybridTest, TheFullRunEqualsLongestPath) {
  RandomJobOptions options;
  options.absent_ranks = false;
  for (uint64_t seed = 1 + GetParam(); seed <= 500; seed += kShards) {
    Job job = RandomJob(seed, options);
    const uint32_t all = (1u << job.programs.size()) - 1;
    const Outcome full = Play(job, all, nullptr, seed);
    ASSERT_EQ(full.trouble, "") << "seed " << seed;
    for (size_t rank = 0; rank < job.programs.size(); ++rank) {
      const Program& written = full.guests[rank]->program();
      job.programs[rank] = CopyOf(written, written.size(), true);
    }
    ASSERT_EQ(Difference(ExpectedOf(job, FakeNetwork()), full.told), "")
        << "seed " << seed;
  }
}

}  // namespace
}  // namespace vrank::graph
