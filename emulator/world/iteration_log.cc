#include "emulator/world/iteration_log.h"

#include <algorithm>
#include <utility>

namespace vrank::emulator {
namespace {

bool IsOnDevice(const graph::Op& op) {
  return op.kind == graph::OpKind::kWork || op.kind == graph::OpKind::kHostFunc ||
         op.kind == graph::OpKind::kCollective || op.kind == graph::OpKind::kTransfers;
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
  const graph::Stamp before = std::exchange(host_, passed);
  next_op_ = index + 1;
  if (full_)
    return;
  const graph::Op& op = program_->op(index);
  if (op.from_helper != 0)
    return;
  using Role = graph::IterationScan::Role;
  const bool was_annotated = scan_.annotated();
  const Role role = scan_.Add(index, op, program_->details());
  if (scan_.annotated() && !was_annotated)
    ForgetMoments();
  const bool on_device = IsOnDevice(op);
  if (role == Role::kNone && !on_device)
    return;
  if (role == Role::kAction && index != 0 && last_kept_ != index - 1)
    Pass({.op = index - 1, .host = before, .kept = true});
  Passed now{
      .op = index, .host = passed, .kept = role != Role::kNone, .on_device = on_device};
  if (on_device) {
    const auto early = std::find_if(early_.begin(), early_.end(),
                                    [&](const Early& e) { return e.op == index; });
    if (early != early_.end()) {
      now.end = early->end;
      early_.erase(early);
    }
  }
  Pass(now);
  Settle();
}

void IterationLog::Pass(const Passed& passed) {
  passed_.push_back(passed);
  if (!passed.kept)
    return;
  last_kept_ = passed.op;
  full_ = ++moment_count_ >= kMostMoments;
}

// The work that they stand for still has to be complete.
void IterationLog::ForgetMoments() {
  moments_.Clear();
  moment_count_ = 0;
  for (Passed& passed : passed_)
    passed.kept = false;
}

void IterationLog::Settle() {
  while (!passed_.empty()) {
    const Passed& next = passed_.front();
    if (next.on_device && !next.end.has_value())
      return;
    if (next.on_device)
      completed_ = Later(completed_, *next.end);
    if (next.kept)
      moments_.Append({next.op, next.host, completed_});
    passed_.pop_front();
  }
}

void IterationLog::OnOpEnded(int32_t, uint64_t op, const graph::Stamp&,
                             const graph::Stamp& end) {
  if (op >= next_op_) {
    if (!full_ && IsOnDevice(program_->op(op)))
      early_.push_back({op, end});
    return;
  }
  const auto known = std::lower_bound(
      passed_.begin(), passed_.end(), op,
      [](const Passed& passed, uint64_t wanted) { return passed.op < wanted; });
  if (known == passed_.end() || known->op != op || !known->on_device)
    return;
  known->end = end;
  Settle();
}

TimedIterations IterationLog::Find(graph::IterationSearch search) const {
  const graph::RankIterations found = scan_.Find(search);
  TimedIterations timed{{}, found.evidence, found.regularity, !full_};
  MomentSequence::Reader moments(moments_);
  for (const graph::IterationBounds& bounds : found.bounds) {
    TimedIteration iteration;
    iteration.bounds = bounds;
    if (bounds.first_op != 0) {
      const Moment* const begin = moments.Find(bounds.first_op - 1);
      if (begin == nullptr)
        break;
      iteration.host_begin = begin->host;
      iteration.begin = Later(begin->host, begin->completed);
    }
    const Moment* const end = moments.Find(bounds.last_op);
    if (end == nullptr)
      break;
    iteration.host_end = end->host;
    iteration.end = Later(end->host, end->completed);
    timed.iterations.push_back(iteration);
  }
  return timed;
}

}  // namespace vrank::emulator
