#include "graph/scale/stage_schedule.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <absl/hash/hash.h>

#include "graph/scale/token_order.h"

namespace vrank::graph {
namespace {

// What an op does, less what it costs.
class OpDigester {
 public:
  OpDigester(const Program& program, const RelativeStages& stages,
             StageSchedule::Memory memory)
      : program_(program), stages_(stages), memory_(memory) {}

  // With `before`, of the ops before it in the passage. Host time belongs to the next
  // op; helper threads and questions come when they come.
  uint64_t Add(uint64_t before, uint64_t index) {
    const Op& op = program_.op(index);
    const uint64_t token = tokens_.Pass(op);
    switch (op.kind) {
      case OpKind::kHost:
      case OpKind::kAskClock:
      case OpKind::kQueryToken:
      case OpKind::kQueryLane:
        return before;
      default:
        break;
    }
    if (op.from_helper != 0 || (op.kind == OpKind::kMemory && !compares_memory()))
      return before;
    return absl::HashOf(before, op.kind, op.lane, op.work, op.launch, token, About(op));
  }

  bool compares_memory() const { return memory_ == StageSchedule::Memory::kCompared; }

  // Of a group of transfers: those with stages at least that far behind; 0: none.
  uint64_t Transfers(const Op& op, int64_t nearest) const {
    const auto stages = stages_.find(op.a);
    uint64_t digest = 0;
    for (const Transfer& transfer : program_.details().transfer_groups[op.b]) {
      // A file may name a member that does not exist; ScaleProgram refuses that.
      const bool is_known =
          stages != stages_.end() && transfer.peer < stages->second.size();
      const int64_t peer =
          is_known ? stages->second[transfer.peer] : int64_t{transfer.peer};
      if (peer >= nearest)
        digest = absl::HashOf(digest, peer, transfer.bytes, transfer.is_send);
    }
    return digest;
  }
  static constexpr int64_t kAll = std::numeric_limits<int64_t>::min();
  static constexpr int64_t kBehind = 1;

 private:
  uint64_t About(const Op& op) const {
    const Details& details = program_.details();
    switch (op.kind) {
      case OpKind::kWork:
      case OpKind::kHostFunc:
      case OpKind::kRangeBegin:
      case OpKind::kRangeEnd:
        return absl::HashOf(details.names[op.a]);
      case OpKind::kMemory:
        return absl::HashOf(op.value, op.a, op.b);
      case OpKind::kCreateCommunicator:
        return absl::HashOf(op.a, details.creations[op.b].parent);
      case OpKind::kReleaseCommunicator:
        return absl::HashOf(op.a, op.b);
      case OpKind::kCollective:
        return absl::HashOf(op.a, CallOf(details.collectives[op.b]));
      case OpKind::kTransfers:
        return absl::HashOf(op.a, Transfers(op, kAll));
      default:
        return 0;
    }
  }
  static uint64_t CallOf(const CollectiveCall& call) {
    return absl::HashOf(call.operation, call.type, call.reduction, call.count);
  }
  const Program& program_;
  const RelativeStages& stages_;
  const StageSchedule::Memory memory_;
  TokenReader tokens_;
};

// How often the passages of a repeat follow each other in `other` from `at` on.
size_t Occurrences(std::span<const uint64_t> unit, std::span<const uint64_t> other,
                   size_t at) {
  size_t count = 0;
  while (at + unit.size() <= other.size() &&
         std::equal(unit.begin(), unit.end(),
                    other.begin() + static_cast<ptrdiff_t>(at))) {
    at += unit.size();
    ++count;
  }
  return count;
}

}  // namespace

std::vector<PassageRepeat> FindRepeats(std::span<const uint64_t> passages) {
  std::vector<PassageRepeat> repeats;
  for (size_t at = 0; at < passages.size();) {
    PassageRepeat found{at, 1, 1};
    for (size_t period = 1; at + 2 * period <= passages.size(); ++period) {
      const size_t count = Occurrences(passages.subspan(at, period), passages, at);
      if (count < 2)
        continue;
      found = {at, period, count};
      break;
    }
    if (found.count >= 2)
      repeats.push_back(found);
    at += found.period * found.count;
  }
  return repeats;
}

StageSchedule::StageSchedule(const Program* program, const RelativeStages& stages,
                             Memory memory)
    : program_(program) {
  OpDigester digester(*program, stages, memory);
  uint64_t digest = 0;
  for (uint64_t i = 0; i < program->size(); ++i) {
    digest = digester.Add(digest, i);
    const Op& op = program->op(i);
    const bool is_exchange = op.kind == OpKind::kTransfers && stages.contains(op.a);
    const bool gives_back =
        op.kind == OpKind::kMemory && op.value < 0 && memory == Memory::kCompared;
    if (!is_exchange && !gives_back && i + 1 < program->size())
      continue;
    ends_.push_back(i + 1);
    passages_.push_back(std::exchange(digest, 0));
    exchanges_.push_back(is_exchange ? digester.Transfers(op, OpDigester::kAll) : 0);
    exchanges_behind_.push_back(
        is_exchange ? digester.Transfers(op, OpDigester::kBehind) : 0);
  }
  repeats_ = FindRepeats(passages_);
  for (PassageRepeat& repeat : repeats_)
    repeat.key = KeyOf(repeat);
}

// Sums, since a repeat may begin anywhere in its period.
uint64_t StageSchedule::KeyOf(const PassageRepeat& repeat) const {
  const size_t end = repeat.first + repeat.period;
  const bool exchanges = std::any_of(&exchanges_[repeat.first], &exchanges_[end],
                                     [](uint64_t one) { return one != 0; });
  uint64_t key = 0;
  for (size_t i = repeat.first; i < end; ++i)
    key += exchanges ? exchanges_behind_[i] : passages_[i];
  return key;
}

std::optional<std::vector<size_t>> StageSchedule::CountsIn(
    const StageSchedule& other) const {
  std::vector<size_t> counts;
  size_t own = 0, at = 0;
  const auto same_up_to = [&](size_t end) {
    for (; own < end; ++own, ++at) {
      if (at >= other.passages_.size() || passages_[own] != other.passages_[at])
        return false;
    }
    return true;
  };
  for (const PassageRepeat& repeat : repeats_) {
    if (!same_up_to(repeat.first))
      return std::nullopt;
    const std::span<const uint64_t> unit(&passages_[repeat.first], repeat.period);
    counts.push_back(Occurrences(unit, other.passages_, at));
    at += counts.back() * repeat.period;
    own += repeat.count * repeat.period;
  }
  if (!same_up_to(passages_.size()) || at != other.passages_.size())
    return std::nullopt;
  return counts;
}

std::unique_ptr<Program> StageSchedule::WithCounts(
    std::span<const size_t> counts) const {
  TokenWriter writer(*program_);
  size_t passage = 0;
  const auto copy = [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i)
      writer.Copy(i == 0 ? 0 : ends_[i - 1], ends_[i]);
  };
  for (size_t i = 0; i < repeats_.size(); ++i) {
    const auto& [first, period, count, key] = repeats_[i];
    const size_t end = first + period * count;
    copy(passage, first);
    passage = end;
    const size_t kept = std::min(counts[i], count), leading = (kept + 1) / 2;
    copy(first, first + period * leading);
    for (size_t added = count; added < counts[i]; ++added)
      copy(first + period * (leading - 1), first + period * leading);
    copy(end - period * (kept - leading), end);
  }
  copy(passage, passages_.size());
  return writer.Finish();
}

}  // namespace vrank::graph
