#include "emulator/world/gpu_activity.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/communication_kernel.h"

namespace vrank::emulator {

GpuActivity::Kind GpuActivity::KindOfKernel(uint32_t name) {
  if (name >= kinds_.size())
    kinds_.resize(name + 1, Kind::kNone);
  Kind& kind = kinds_[name];
  if (kind == Kind::kNone)
    kind = CommunicationOperation(program_->details().names[name]).has_value()
               ? Kind::kCommunication
               : Kind::kCompute;
  return kind;
}

GpuActivity::Kind GpuActivity::KindOf(const graph::Op& op) {
  switch (op.kind) {
    case graph::OpKind::kCollective:
    case graph::OpKind::kTransfers:
      return Kind::kCommunication;
    case graph::OpKind::kWork:
      return op.work == graph::WorkClass::kCopy ? Kind::kCopy : KindOfKernel(op.a);
    default:
      return Kind::kNone;
  }
}

void GpuActivity::OnOpPassed(int32_t, uint64_t index, const graph::Stamp&,
                             const graph::Stamp&) {
  next_op_ = index + 1;
  const graph::Op& op = program_->op(index);
  const Kind kind = KindOf(op);
  if (kind == Kind::kNone)
    return;
  if (const auto early = std::find(early_.begin(), early_.end(), index);
      early != early_.end())
    early_.erase(early);
  else
    pending_.push_back({index, op.lane, kind});
}

void GpuActivity::OnOpEnded(int32_t, uint64_t index, const graph::Stamp& begin,
                            const graph::Stamp& end) {
  if (index >= next_op_) {
    const graph::Op& op = program_->op(index);
    const Kind kind = KindOf(op);
    if (kind == Kind::kNone)
      return;
    early_.push_back(index);
    Add({begin.ns, end.ns, op.lane, kind});
    return;
  }
  const auto found = std::lower_bound(
      pending_.begin(), pending_.end(), index,
      [](const Pending& pending, uint64_t op) { return pending.op < op; });
  if (found == pending_.end() || found->op != index)
    return;
  Add({begin.ns, end.ns, found->lane, std::exchange(found->kind, Kind::kNone)});
  while (!pending_.empty() && pending_.front().kind == Kind::kNone)
    pending_.pop_front();
}

void GpuActivity::Add(const Span& span) {
  if (span.begin_ns >= span.end_ns)
    return;
  if (!spans_.empty()) {
    Span& latest = spans_.back();
    if (latest.lane == span.lane && latest.kind == span.kind &&
        latest.end_ns == span.begin_ns) {
      latest.end_ns = span.end_ns;
      return;
    }
  }
  spans_.push_back(span);
  if (spans_.size() <= kMostSpans)
    return;
  dropped_until_ns_ = std::max(dropped_until_ns_, spans_.front().end_ns);
  spans_.pop_front();
}

std::optional<GpuTime> GpuActivity::Between(int64_t begin_ns, int64_t end_ns) const {
  if (dropped_until_ns_ > begin_ns)
    return std::nullopt;
  struct Change {
    int64_t ns;
    Kind kind;
    int by;
  };
  std::vector<Change> changes;
  for (const Span& span : spans_) {
    const int64_t from = std::max(span.begin_ns, begin_ns);
    const int64_t to = std::min(span.end_ns, end_ns);
    if (from >= to)
      continue;
    changes.push_back({from, span.kind, 1});
    changes.push_back({to, span.kind, -1});
  }
  std::sort(changes.begin(), changes.end(),
            [](const Change& a, const Change& b) { return a.ns < b.ns; });
  changes.push_back({end_ns, Kind::kNone, 0});
  GpuTime time;
  std::array<int, 4> running{};
  int64_t at_ns = begin_ns;
  for (const Change& change : changes) {
    const int64_t length = change.ns - std::exchange(at_ns, change.ns);
    const auto runs = [&running](Kind kind) {
      return running[static_cast<size_t>(kind)] > 0;
    };
    if (runs(Kind::kCompute))
      time.compute_ns += length;
    else if (runs(Kind::kCommunication))
      time.exposed_communication_ns += length;
    else if (runs(Kind::kCopy))
      time.copies_ns += length;
    else
      time.idle_ns += length;
    if (runs(Kind::kCompute) && runs(Kind::kCommunication))
      time.overlapped_communication_ns += length;
    running[static_cast<size_t>(change.kind)] += change.by;
  }
  return time;
}

}  // namespace vrank::emulator
