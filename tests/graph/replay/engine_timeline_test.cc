// What a timeline observer is told, against the longest-path oracle.

#include <map>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/graph/replay/oracle_check.h"
#include "tests/graph/replay/random_job.h"

namespace vrank::graph {
namespace {

struct Seen {
  int64_t first = -1, last = -1;
  friend bool operator==(const Seen&, const Seen&) = default;
};

class Timeline : public TimelineObserver {
 public:
  void OnOpPassed(int32_t rank, uint64_t op, const Stamp& reached,
                  const Stamp& passed) override {
    in_order = in_order && (next.count(rank) == 0 || next[rank] == op);
    next[rank] = op + 1;
    Note(&passes, rank, op, {reached.ns, passed.ns});
  }
  void OnOpEnded(int32_t rank, uint64_t op, const Stamp& begin,
                 const Stamp& end) override {
    Note(&ends, rank, op, {begin.ns, end.ns});
  }

  using Times = std::map<std::pair<int32_t, uint64_t>, Seen>;
  Times passes, ends;
  std::map<int32_t, uint64_t> next;
  bool in_order = true, once = true;

 private:
  void Note(Times* times, int32_t rank, uint64_t op, const Seen& seen) {
    once = times->emplace(std::pair(rank, op), seen).second && once;
  }
};

bool LeavesSomethingOnLane(OpKind kind) {
  return kind == OpKind::kWork || kind == OpKind::kHostFunc ||
         kind == OpKind::kCollective || kind == OpKind::kTransfers ||
         kind == OpKind::kRecordToken || kind == OpKind::kWaitToken;
}

// What the rules say about ops [first, ...) of a rank.
void Expect(const Job& job, int rank, uint64_t first, Timeline* expected) {
  const FakeNetwork network;
  Oracle oracle(job, network);
  const Program& program = *job.programs[static_cast<size_t>(rank)];
  const auto [numerator, denominator] = job.work_scales[static_cast<size_t>(rank)];
  for (uint64_t i = first; i < program.size(); ++i) {
    const Op& op = program.op(i);
    const int at = static_cast<int>(i);
    const int64_t before = at == 0 ? 0 : oracle.HostAfter(rank, at - 1);
    expected->passes[{rank, i}] = {before + op.host_ns, oracle.HostAfter(rank, at)};
    if (!LeavesSomethingOnLane(op.kind))
      continue;
    const int64_t end = oracle.End(rank, at);
    int64_t begin = end;
    if (op.kind == OpKind::kWork)
      begin = end - op.value * numerator / denominator;
    if (op.kind == OpKind::kHostFunc)
      begin = end - op.value;
    if (op.kind == OpKind::kCollective || op.kind == OpKind::kTransfers)
      begin = oracle.Arrival(rank, at);
    expected->ends[{rank, i}] = {begin, end};
  }
}

TEST(EngineTimelineTest, EqualsTheOracle) {
  for (uint64_t seed = 1; seed <= 1500; ++seed) {
    const Job job = RandomJob(seed);
    const FakeNetwork network;
    FakeMembership membership(&job);
    RecordingObserver observer;
    Timeline timeline, expected;
    Engine engine(OptionsOf(job, seed % 3 == 0 ? seed : 0), &network, &membership,
                  &observer);
    AddRanks(job, engine, true, job.programs);
    for (int rank = 0; rank < static_cast<int>(job.programs.size()); ++rank) {
      if (job.absent.count(rank) != 0)
        continue;
      ASSERT_EQ(engine.ObserveTimeline(rank, &timeline), 0u);
      Expect(job, rank, 0, &expected);
    }
    ASSERT_EQ(RunToEnd(engine), "") << "seed " << seed;
    ASSERT_TRUE(timeline.in_order && timeline.once) << "seed " << seed;
    ASSERT_EQ(timeline.passes, expected.passes) << "seed " << seed;
    ASSERT_EQ(timeline.ends, expected.ends) << "seed " << seed;
  }
}

// From any op on: everything from there is told, and the clock before is result().end.
TEST(EngineTimelineTest, MayBeginAtAnyOpAndEndAtAnyOp) {
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    const Job job = RandomJob(seed);
    const FakeNetwork network;
    FakeMembership membership(&job);
    RecordingObserver observer;
    Timeline timeline;
    Engine engine(OptionsOf(job), &network, &membership, &observer);
    std::vector<std::unique_ptr<Program>> programs;
    for (const auto& program : job.programs)
      programs.push_back(CopyOf(*program, 0, false));
    AddRanks(job, engine, true, programs);
    std::mt19937_64 random(seed);
    std::map<int32_t, uint64_t> from, until;
    size_t more = programs.size();
    std::vector<uint64_t> fed(programs.size());
    for (int turn = 0; more != 0; ++turn) {
      more = 0;
      for (size_t place = 0; place < programs.size(); ++place) {
        const Program& source = *job.programs[place];
        const auto rank = static_cast<int32_t>(place);
        for (uint64_t n = random() % 12; n > 0 && fed[place] < source.size(); --n)
          programs[place]->Append(source.op(fed[place]++));
        more += fed[place] < source.size() ? 1 : 0;
        if (fed[place] == source.size() && !programs[place]->closed())
          programs[place]->Close();
        engine.ProgramChanged(programs[place].get());
        if (job.absent.count(rank) != 0)
          continue;
        if (turn == 2) {
          from[rank] = engine.ObserveTimeline(rank, &timeline);
        } else if (turn == 5) {
          until[rank] = engine.ObserveTimeline(rank, nullptr);
        }
      }
      ASSERT_TRUE(engine.Run().ok());
    }
    ASSERT_EQ(RunToEnd(engine), "") << "seed " << seed;
    ASSERT_TRUE(timeline.in_order && timeline.once) << "seed " << seed;
    Timeline expected;
    for (const auto& [rank, first] : from)
      Expect(job, rank, first, &expected);
    for (const auto& [key, seen] : timeline.passes)
      ASSERT_EQ(seen, expected.passes.at(key)) << "seed " << seed;
    for (const auto& [rank, first] : from) {
      const uint64_t end = until.count(rank) != 0
                               ? until[rank]
                               : job.programs[static_cast<size_t>(rank)]->size();
      for (uint64_t op = first; op < end; ++op)
        ASSERT_EQ(timeline.passes.count({rank, op}), 1u) << "seed " << seed;
      ASSERT_EQ(timeline.passes.count({rank, end}), 0u) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace vrank::graph
