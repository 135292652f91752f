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
  const Source source = virtual_gpu_ ? Source::kAssumed : Source::kRecorded;
  for (Pending& pending : pending_) {
    const int64_t host_ns = std::max<int64_t>(0, pending.at - cursor_);
    cursor_ += host_ns;
    pending.op.host_ns = host_ns;
    pending.op.host_source = host_ns > 0 ? source : Source::kModelled;
    if (pending.until != kUntimed)
      cursor_ = std::max(cursor_, pending.until);
    program_.Append(pending.op);
  }
  pending_.clear();
  Reach(cursor_);
}

}  // namespace vrank::graph
