#include "graph/what_if/iteration_times.h"

#include <algorithm>
#include <limits>

#include "base/status_macros.h"
#include "graph/fold/replay.h"

namespace vrank::graph {
namespace {

// Of one replayed rank. Program order is cut at the bounds: part 2i lies ahead of
// iteration i, part 2i + 1 is the iteration.
class RankClock {
 public:
  explicit RankClock(const std::vector<IterationBounds>& bounds) {
    for (const IterationBounds& one : bounds) {
      cuts_.push_back(one.first_op);
      cuts_.push_back(one.last_op + 1);
    }
    host_ns_.resize(cuts_.size());
    completed_ns_.resize(cuts_.size() + 1);
  }

  void Passed(uint64_t op, int64_t host_ns) {
    // In program order. A bound that no op is ahead of stays at zero.
    while (next_ < cuts_.size() && cuts_[next_] == 0)
      ++next_;
    while (next_ < cuts_.size() && op + 1 == cuts_[next_])
      host_ns_[next_++] = host_ns;
  }
  void Ended(uint64_t op, int64_t end_ns) {
    if (op < part_begin_ || op >= part_end_)
      FindPart(op);
    completed_ns_[part_] = std::max(completed_ns_[part_], end_ns);
  }

  std::vector<int64_t> Lengths() const {
    std::vector<int64_t> lengths;
    int64_t completed_ns = 0, begin_ns = 0;
    for (size_t i = 0; i < cuts_.size(); ++i) {
      completed_ns = std::max(completed_ns, completed_ns_[i]);
      const int64_t at_ns = std::max(host_ns_[i], completed_ns);
      if (i % 2 == 0)
        begin_ns = at_ns;
      else
        lengths.push_back(at_ns - begin_ns);
    }
    return lengths;
  }

 private:
  void FindPart(uint64_t op) {
    const auto behind = std::upper_bound(cuts_.begin(), cuts_.end(), op);
    part_ = static_cast<size_t>(behind - cuts_.begin());
    part_begin_ = part_ == 0 ? 0 : cuts_[part_ - 1];
    part_end_ = behind == cuts_.end() ? std::numeric_limits<uint64_t>::max() : *behind;
  }

  std::vector<uint64_t> cuts_;         // ascending; the first op behind each
  std::vector<int64_t> host_ns_;       // by cut
  std::vector<int64_t> completed_ns_;  // by part, of its device work
  size_t next_ = 0;                    // cut that the host comes to
  size_t part_ = 0;                    // of the op that ended last
  uint64_t part_begin_ = 0, part_end_ = 0;
};

class Clocks : public TimelineObserver {
 public:
  Clocks(const ResolvedJob& job,
         const std::vector<const std::vector<IterationBounds>*>& bounds) {
    for (const ReplayJob::Rank& rank : job.job.ranks)
      if (by_rank_.size() <= static_cast<size_t>(rank.world_rank))
        by_rank_.resize(static_cast<size_t>(rank.world_rank) + 1);
    for (size_t place = 0; place < job.job.ranks.size(); ++place) {
      Row& row = by_rank_[static_cast<size_t>(job.job.ranks[place].world_rank)];
      row.program = job.job.ranks[place].program;
      row.bounds = bounds[place];
    }
  }

  void OnOpPassed(int32_t rank, uint64_t op, const Stamp&,
                  const Stamp& passed) override {
    if (RankClock* const clock = Of(rank); clock != nullptr)
      clock->Passed(op, passed.ns);
  }
  void OnOpEnded(int32_t rank, uint64_t op, const Stamp&, const Stamp& end) override {
    RankClock* const clock = Of(rank);
    if (clock == nullptr)
      return;
    const Row& row = by_rank_[static_cast<size_t>(rank)];
    const OpKind kind = row.program->op(op).kind;
    if (kind == OpKind::kWork || kind == OpKind::kHostFunc ||
        kind == OpKind::kCollective || kind == OpKind::kTransfers)
      clock->Ended(op, end.ns);
  }

  std::vector<int64_t> Longest() const {
    std::vector<int64_t> longest;
    bool first = true;
    for (const Row& row : by_rank_) {
      if (row.clock == nullptr)
        continue;
      const std::vector<int64_t> lengths = row.clock->Lengths();
      longest.resize(first ? lengths.size() : std::min(longest.size(), lengths.size()));
      first = false;
      for (size_t i = 0; i < longest.size(); ++i)
        longest[i] = std::max(longest[i], lengths[i]);
    }
    return longest;
  }

 private:
  struct Row {
    const Program* program = nullptr;
    const std::vector<IterationBounds>* bounds = nullptr;
    std::unique_ptr<RankClock> clock;  // of ranks that are replayed
  };

  RankClock* Of(int32_t rank) {
    Row& row = by_rank_[static_cast<size_t>(rank)];
    if (row.clock == nullptr && row.bounds != nullptr && !row.bounds->empty())
      row.clock = std::make_unique<RankClock>(*row.bounds);
    return row.clock.get();
  }

  std::vector<Row> by_rank_;
};

}  // namespace

std::vector<IterationBounds> BoundsOf(
    const Program& program, const std::function<bool(const std::string&)>& matches) {
  std::vector<IterationBounds> bounds;
  if (matches) {
    IterationScan scan(matches);
    for (uint64_t i = 0; i < program.size(); ++i)
      scan.Add(i, program.op(i), program.details());
    bounds = scan.Find(IterationSearch::kActions).bounds;
  }
  if (bounds.empty() && program.size() != 0)
    bounds.push_back({0, program.size() - 1});
  return bounds;
}

absl::StatusOr<std::vector<int64_t>> ReplayIterationTimes(
    const ResolvedJob& job, const NetworkModel& network,
    const std::vector<const std::vector<IterationBounds>*>& bounds) {
  Clocks clocks(job, bounds);
  RETURN_IF_ERROR(
      ReplayFolded(job, network, {nullptr, nullptr, &clocks, false}).status());
  return clocks.Longest();
}

}  // namespace vrank::graph
