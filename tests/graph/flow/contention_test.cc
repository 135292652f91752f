// The event executor: where nothing is shared it says what the incremental engine says,
// to the byte, and where links are shared it tells only what stays true.

#include "graph/replay/contention.h"

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "graph/flow/flow_contention.h"
#include "graph/replay/engine.h"
#include "graph/replay/silent_observer.h"
#include "graph/sweep/sweep.h"
#include "tests/graph/fold/folding_job.h"

namespace vrank::graph {
namespace {

// A link out of and into every rank, and one that all of them share. Half of every cost
// moves data.
class StarModel : public FlowModel {
 public:
  StarModel(const NetworkModel* network, uint32_t ranks, double capacity)
      : network_(network), ranks_(ranks), capacity_(capacity) {}

  void AddLinks(FlowSimulation* simulation) const override {
    for (uint32_t i = 0; i < 2 * ranks_; ++i)
      simulation->AddLink(capacity_);
    simulation->AddLink(2 * capacity_);
  }
  std::vector<CollectivePiece> Collective(
      const CollectiveCall& call, std::span<const int32_t> members) const override {
    const auto size = static_cast<uint32_t>(members.size());
    if (size == 1)
      return {};
    const int64_t ns = network_->Collective(call, members).duration.nanoseconds() / 2;
    std::vector<CollectivePiece> pieces;
    const auto add = [&](uint32_t from, uint32_t to, bool everyone) {
      if (pieces.empty() || !everyone) {
        pieces.emplace_back().plan.alone_ns = ns;
        if (!everyone) {
          pieces.back().from = from;
          pieces.back().to = to;
        }
      }
      AddFlow(members[from], members[to], static_cast<double>(ns + from),
              &pieces.back().plan);
    };
    for (uint32_t i = 0; i < size; ++i) {
      switch (call.operation) {
        case CollectiveKind::kBroadcast:
          if (i + 1 != size)
            add((call.root + i) % size, (call.root + i + 1) % size, false);
          break;
        case CollectiveKind::kReduce:
          if (i + 1 != size)
            add((call.root + 1 + i) % size, (call.root + 2 + i) % size, false);
          break;
        case CollectiveKind::kGather:
        case CollectiveKind::kScatter:
          if (i != call.root)
            add(call.root, i, false);
          break;
        default:
          add(i, (i + 1) % size, true);
      }
    }
    return pieces;
  }
  FlowPlan Transfer(uint64_t bytes, int32_t from, int32_t to) const override {
    FlowPlan plan;
    plan.alone_ns = network_->Transfer(bytes, from, to).duration.nanoseconds() / 2;
    AddFlow(from, to, static_cast<double>(plan.alone_ns), &plan);
    return plan;
  }

 private:
  void AddFlow(int32_t from, int32_t to, double bytes, FlowPlan* plan) const {
    FlowPlan::Flow& flow = plan->flows.emplace_back();
    flow.bytes = bytes;
    flow.path = {static_cast<uint32_t>(2 * from), 2 * ranks_,
                 static_cast<uint32_t>(2 * to + 1)};
    flow.hops = from == to ? 0 : 3;
  }

  const NetworkModel* network_;
  uint32_t ranks_;
  double capacity_;
};

// Writes down what is begun and told; numbers are used once only.
class Recorder : public Contention {
 public:
  explicit Recorder(Contention* inner) : inner_(inner) {}

  struct Begun {
    bool transfer = false;
    Collective collective;
    std::vector<Member> members;
    Transfer one;
  };
  std::vector<Begun> begun;
  std::map<uint64_t, int64_t> ends;

  void Begin(const Collective& collective, std::span<const Member> members) override {
    Begun& one = begun.emplace_back();
    one.collective = collective;
    one.collective.identity = &*identities_.insert(*collective.identity).first;
    one.collective.communicator = static_cast<uint32_t>(
        std::distance(identities_.begin(), identities_.find(*collective.identity)));
    world_.push_back({collective.members.begin(), collective.members.end()});
    one.collective.members = world_.back();
    calls_.push_back(std::make_unique<CollectiveCall>(*collective.call));
    one.collective.call = calls_.back().get();
    one.members.assign(members.begin(), members.end());
    for (Member& member : one.members)
      member.ticket = NumberOf(member.ticket);
    inner_->Begin(collective, members);
  }
  void Begin(const Transfer& transfer) override {
    Begun& one = begun.emplace_back();
    one.transfer = true;
    one.one = transfer;
    one.one.identity = &*identities_.insert(*transfer.identity).first;
    one.one.ticket = NumberOf(transfer.ticket);
    inner_->Begin(transfer);
  }
  bool Advance(std::vector<Ended>* ended) override {
    if (!inner_->Advance(ended))
      return false;
    for (const Ended& one : *ended)
      ends[numbers_.at(one.ticket)] = one.end_ns;
    return true;
  }

  // Identities are known in full only at the end.
  void Number() {
    for (Begun& one : begun) {
      if (!one.transfer)
        one.collective.communicator = static_cast<uint32_t>(std::distance(
            identities_.begin(), identities_.find(*one.collective.identity)));
    }
  }

 private:
  uint64_t NumberOf(uint64_t ticket) { return numbers_[ticket] = next_++; }

  Contention* inner_;
  std::set<std::string> identities_;
  std::deque<std::vector<int32_t>> world_;
  std::vector<std::unique_ptr<CollectiveCall>> calls_;
  std::map<uint64_t, uint64_t> numbers_;
  uint64_t next_ = 0;
};

class Lines : public SilentObserver, public TimelineObserver {
 public:
  std::map<std::string, int64_t> ends;  // by what ended
  std::multiset<std::string> text;

  void OnCollectiveEnd(const std::string& communicator, uint32_t sequence,
                       uint32_t member, int32_t rank, const CollectiveCall& call,
                       Stamp arrival, Stamp end) override {
    text.insert(fmt::format("collective {} {} {} {} {} {} {}", communicator, sequence,
                            member, rank, Name(call.operation), Text(arrival),
                            Text(end)));
  }
  void OnTransferEnd(const std::string& communicator, uint32_t from, uint32_t to,
                     uint32_t sequence, uint64_t bytes, bool is_send, int32_t rank,
                     Stamp arrival, Stamp end) override {
    text.insert(fmt::format("transfer {} {} {} {} {} {} {} {} {}", communicator, from,
                            to, sequence, bytes, is_send, rank, Text(arrival),
                            Text(end)));
  }
  void OnOpPassed(int32_t rank, uint64_t op, const Stamp& reached,
                  const Stamp& passed) override {
    text.insert(
        fmt::format("passed {} {} {} {}", rank, op, Text(reached), Text(passed)));
    ends[fmt::format("host {} {}", rank, op)] = passed.ns;
  }
  void OnOpEnded(int32_t rank, uint64_t op, const Stamp& begin,
                 const Stamp& end) override {
    text.insert(fmt::format("ended {} {} {} {}", rank, op, Text(begin), Text(end)));
    ends[fmt::format("lane {} {}", rank, op)] = end.ns;
  }

  static std::string Text(const Stamp& stamp) {
    return fmt::format("{}({},{},{},{})", stamp.ns, stamp.assumed, stamp.recorded,
                       stamp.measured, stamp.assumed_host);
  }
};

std::string Play(const FoldingJob& made, const NetworkModel& network,
                 Contention* contention, uint64_t shuffle_seed, Lines* lines) {
  CutMembership membership(&made.cuts);
  EngineOptions options = made.job.options;
  options.contention = contention;
  options.shuffle_seed = shuffle_seed;
  Engine engine(options, &network, &membership, lines);
  for (const ReplayJob::Rank& rank : made.job.ranks) {
    engine.AddRank(rank.world_rank, rank.program, rank.options);
    engine.ObserveTimeline(rank.world_rank, lines);
  }
  if (const absl::Status status = engine.Run(); !status.ok())
    return status.ToString();
  if (!engine.Finished())
    return engine.DescribeBlocked(1)[0];
  for (const ReplayJob::Rank& rank : made.job.ranks) {
    const RankResult result = engine.result(rank.world_rank);
    lines->text.insert(fmt::format("result {} {} {} {} {} {}", rank.world_rank,
                                   Lines::Text(result.end), result.peak_memory_bytes,
                                   result.ops, result.divergences,
                                   result.host_waited.nanoseconds()));
  }
  return "";
}

FoldingJob JobOf(uint64_t seed) {
  FoldingJobOptions options;
  options.classes = 1 + seed % 4;
  options.replicas = 2 + seed / 4 % 7;
  options.stragglers = static_cast<int>(seed % 3 == 0);
  options.irregular = seed % 5 == 0;
  options.even_pieces = seed % 3 != 0;
  options.events = seed % 2 == 0 ? 20 : 60;
  FoldingJob made = MakeFoldingJob(seed, options);
  for (ReplayJob::Rank& rank : made.job.ranks) {
    if (seed % 2 != 0)
      rank.options.jitter = {200'000, seed};
  }
  return made;
}

uint32_t RanksOf(const FoldingJob& made) {
  return static_cast<uint32_t>(made.job.ranks.size());
}

TEST(ContentionTest, EqualsTheEngineToTheByteWhereNothingIsShared) {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    const FoldingJob made = JobOf(seed);
    const NodeNetwork network(1 + static_cast<int32_t>(seed % 5));
    Lines expected, told;
    ASSERT_EQ(Play(made, network, nullptr, 0, &expected), "") << seed;
    const StarModel model(&network, RanksOf(made), 1e9);
    FlowContention flows(&model);
    ASSERT_EQ(Play(made, network, &flows, 0, &told), "") << seed;
    ASSERT_EQ(told.text, expected.text) << seed;
    EXPECT_EQ(flows.simulation().delayed(), 0u);
    if (seed % 10 != 0)
      continue;
    // ... and so does the sweep.
    CutMembership membership(&made.cuts);
    const auto job = ResolveCommunicators(made.job, &membership);
    SweepOptions options;
    options.store_ends = true;
    const auto sweep = Sweep::Prepare(*job, network, options);
    if (!sweep.ok() || !(*sweep)->Run().ok())
      continue;
    for (uint32_t place = 0; place < made.job.ranks.size(); ++place) {
      const int32_t rank = made.job.ranks[place].world_rank;
      const uint64_t ops = made.job.ranks[place].program->size();
      for (uint64_t op = 0; op < ops; ++op) {
        const auto at = told.ends.find(fmt::format("lane {} {}", rank, op));
        if (at != told.ends.end()) {
          ASSERT_EQ((*sweep)->end(place, op), at->second) << seed;
        }
      }
    }
  }
}

TEST(ContentionTest, NeverEndsBeforeWhatItWouldAlone) {
  uint64_t later = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const FoldingJob made = JobOf(seed);
    const NodeNetwork network(1 + static_cast<int32_t>(seed % 5));
    Lines alone, shared;
    ASSERT_EQ(Play(made, network, nullptr, 0, &alone), "");
    const StarModel model(&network, RanksOf(made), 1);
    FlowContention flows(&model);
    ASSERT_EQ(Play(made, network, &flows, 0, &shared), "");
    ASSERT_EQ(alone.ends.size(), shared.ends.size());
    for (const auto& [what, ns] : alone.ends) {
      ASSERT_GE(shared.ends.at(what), ns) << seed << " " << what;
      later += shared.ends.at(what) > ns;
    }
  }
  EXPECT_GT(later, 10'000u);
}

TEST(ContentionTest, DoesNotDependOnTheOrderOfEvaluation) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const FoldingJob made = JobOf(seed);
    const NodeNetwork network(1 + static_cast<int32_t>(seed % 5));
    const StarModel model(&network, RanksOf(made), 1);
    Lines expected;
    FlowContention first(&model);
    ASSERT_EQ(Play(made, network, &first, 0, &expected), "");
    for (uint64_t shuffle = 1; shuffle < 4; ++shuffle) {
      Lines told;
      FlowContention flows(&model);
      ASSERT_EQ(Play(made, network, &flows, 7 * seed + shuffle, &told), "");
      ASSERT_EQ(told.text, expected.text) << seed;
    }
  }
}

// Knowing everything that ever begins from the beginning changes no end: none was told
// while something was still to come that would have changed it.
TEST(ContentionTest, TellsEndsOnlyOnceTheyAreFinal) {
  uint64_t ends = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const FoldingJob made = JobOf(seed);
    const NodeNetwork network(1 + static_cast<int32_t>(seed % 5));
    const StarModel model(&network, RanksOf(made), 1);
    FlowContention flows(&model);
    Recorder recorder(&flows);
    Lines told;
    ASSERT_EQ(Play(made, network, &recorder, 0, &told), "");
    recorder.Number();
    FlowContention again(&model);
    for (const Recorder::Begun& one : recorder.begun) {
      if (one.transfer)
        again.Begin(one.one);
      else
        again.Begin(one.collective, one.members);
    }
    std::map<uint64_t, int64_t> known_before;
    std::vector<Contention::Ended> ended;
    while (again.Advance(&ended)) {
      for (const Contention::Ended& one : ended)
        known_before[one.ticket] = one.end_ns;
      ended.clear();
    }
    ASSERT_EQ(known_before, recorder.ends) << seed;
    ends += known_before.size();
  }
  EXPECT_GT(ends, 5'000u);
}

}  // namespace
}  // namespace vrank::graph
