#include "emulator/session/iteration_log.h"

#include <algorithm>
#include <utility>

namespace vrank::emulator {
namespace {

bool IsOnDevice(const graph::Op& op) {
  return op.kind == graph::OpKind::kWork || op.kind == graph::OpKind::kHostFunc ||
         op.kind == graph::OpKind::kCollective || op.kind == graph::OpKind::kTransfers;
}

bool MayBoundIterations(const graph::Op& op) {
  return IsOnDevice(op) || op.kind == graph::OpKind::kRangeBegin ||
         op.kind == graph::OpKind::kRangeEnd ||
         op.kind == graph::OpKind::kHostWaitToken ||
         op.kind == graph::OpKind::kHostWaitLane;
}

constexpr int64_t kUnknown = -1;  // when device work ends

// Of moments in the order of their ops.
template <class Moments>
auto FindOp(Moments& moments, uint64_t op) {
  const auto found = std::lower_bound(
      moments.begin(), moments.end(), op,
      [](const auto& moment, uint64_t wanted) { return moment.op < wanted; });
  return found != moments.end() && found->op == op ? found : moments.end();
}

const graph::Stamp& Later(const graph::Stamp& a, const graph::Stamp& b) {
  return b.ns > a.ns ? b : a;
}

}  // namespace

IterationLog::IterationLog(const graph::Program* program,
                           std::function<bool(const std::string&)> matches)
    : program_(program), scan_(std::move(matches)) {}

void IterationLog::OnOpPassed(int32_t, uint64_t index, const graph::Stamp&,
                              const graph::Stamp& passed) {
  const Moment previous = std::exchange(previous_, Moment{index, passed});
  next_op_ = index + 1;
  if (full_)
    return;
  const graph::Op& op = program_->op(index);
  if (op.from_helper != 0 || !MayBoundIterations(op))
    return;
  if (passed_.size() >= kMostMoments) {
    full_ = true;
    return;
  }
  scan_.Add(index, op, program_->details());
  if (index != 0 && (passed_.empty() || passed_.back().op != previous.op))
    passed_.push_back(previous);
  passed_.push_back({index, passed});
  if (!IsOnDevice(op))
    return;
  ended_.push_back({index, graph::Stamp{.ns = kUnknown}});
  const auto early = std::find_if(early_.begin(), early_.end(),
                                  [&](const Moment& m) { return m.op == index; });
  if (early == early_.end())
    return;
  ended_.back().at = early->at;
  early_.erase(early);
}

void IterationLog::OnOpEnded(int32_t, uint64_t op, const graph::Stamp&,
                             const graph::Stamp& end) {
  const auto known = FindOp(ended_, op);
  if (known != ended_.end())
    known->at = end;
  else if (!full_ && op >= next_op_ && IsOnDevice(program_->op(op)))
    early_.push_back({op, end});
}

TimedIterations IterationLog::Find(bool annotations_alone) const {
  const graph::RankIterations found = scan_.Find(annotations_alone);
  TimedIterations timed{{}, found.evidence, found.regularity, !full_};
  graph::Stamp completed;
  bool is_known = true;  // `completed`
  auto device = ended_.begin();
  const auto complete_before = [&](uint64_t op) {
    for (; device != ended_.end() && device->op < op; ++device) {
      is_known &= device->at.ns != kUnknown;
      completed = Later(completed, device->at);
    }
    return completed;
  };
  for (const graph::IterationBounds& bounds : found.bounds) {
    TimedIteration iteration;
    if (bounds.first_op != 0)
      if (const auto begin = FindOp(passed_, bounds.first_op - 1);
          begin != passed_.end())
        iteration.host_begin = begin->at;
    iteration.begin = Later(iteration.host_begin, complete_before(bounds.first_op));
    if (const auto end = FindOp(passed_, bounds.last_op); end != passed_.end())
      iteration.host_end = end->at;
    iteration.end = Later(iteration.host_end, complete_before(bounds.last_op + 1));
    if (!is_known)
      break;
    timed.iterations.push_back(iteration);
  }
  return timed;
}

}  // namespace vrank::emulator
