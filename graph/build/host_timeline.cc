// See host_timeline.h.

#include "graph/build/host_timeline.h"

namespace vrank::graph {

void HostTimeline::Append(const Op& op) {
  pending_.push_back({op});
}

void HostTimeline::SetWait(size_t first, int64_t start_ns, int64_t end_ns,
                           int64_t target_ns) {
  if (first == pending_.size())
    return;
  for (size_t i = first; i < pending_.size(); ++i)
    pending_[i].at = start_ns;
  // A real call returns a little after its target's end, and that is its own cost. On
  // the virtual GPU it returns at that end, which other ranks may have a part in.
  pending_.back().until =
      virtual_gpu_ ? end_ns : std::clamp(target_ns, start_ns, end_ns);
}

void HostTimeline::Flush(int64_t end_ns) {
  int64_t next = end_ns;
  for (auto pending = pending_.rbegin(); pending != pending_.rend(); ++pending) {
    if (pending->at == kUntimed)
      pending->at = next;
    next = pending->at;
  }
  for (Pending& pending : pending_) {
    const int64_t host_ns = std::max<int64_t>(0, pending.at - cursor_);
    cursor_ += host_ns;
    if (pending.until != kUntimed)
      cursor_ = std::max(cursor_, pending.until);
    Write(pending.op, host_ns);
  }
  pending_.clear();
  Reach(cursor_);
}

void HostTimeline::Write(Op op, int64_t host_ns) {
  const Source others = virtual_gpu_ ? Source::kAssumed : Source::kRecorded;
  // An op's host time has one source: of several, all but the last become ops.
  const auto spend = [&](int64_t ns, Source source) {
    host_ns -= ns;
    passed_ns_ += ns;
    if (host_ns > 0)
      program_.Append(Op{.kind = OpKind::kHost, .host_source = source, .host_ns = ns});
    else
      op.host_ns = ns;
    op.host_source = source;
  };
  while (host_ns > 0) {
    while (!of_program_.empty() && of_program_.front().end_ns() <= passed_ns_)
      of_program_ = of_program_.subspan(1);
    if (of_program_.empty() || of_program_.front().after_ns - passed_ns_ >= host_ns)
      spend(host_ns, others);
    else if (of_program_.front().after_ns > passed_ns_)
      spend(of_program_.front().after_ns - passed_ns_, others);
    else
      spend(std::min(of_program_.front().end_ns() - passed_ns_, host_ns),
            of_program_.front().source);
  }
  program_.Append(op);
}

std::vector<TracedHostTime> HostTimesOf(const Program& emulated) {
  std::vector<TracedHostTime> times;
  int64_t passed_ns = 0;
  for (uint64_t i = 0; i < emulated.size(); ++i) {
    const Op& op = emulated.op(i);
    if (op.from_helper != 0 || op.host_ns == 0)
      continue;
    if (op.host_source == Source::kMeasured || op.host_source == Source::kRecorded) {
      if (!times.empty() && times.back().source == op.host_source &&
          times.back().end_ns() == passed_ns)
        times.back().ns += op.host_ns;
      else
        times.push_back({op.host_source, passed_ns, op.host_ns});
    }
    passed_ns += op.host_ns;
  }
  return times;
}

}  // namespace vrank::graph
