// See shortcuts.h.

#include "graph/sweep/shortcuts.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

namespace vrank::graph {
namespace {

size_t EndOfRun(const std::vector<SweepOp>& ops, size_t begin) {
  size_t end = begin + 1;
  while (ops[end].kind == SweepKind::kWork && ops[end].slot == ops[begin].slot)
    ++end;
  return end;
}

SweepRun RunOf(const std::vector<SweepOp>& ops, size_t begin, size_t end) {
  // Any host is further ahead than that.
  constexpr int64_t kNone = std::numeric_limits<int64_t>::min() / 2;
  SweepRun run{std::numeric_limits<int64_t>::max(), 0};
  for (size_t at = begin; at < end; ++at) {
    const bool one_ledger = ops[at].ledger == ops[begin].ledger;
    run.slack = std::min(run.slack, one_ledger ? run.lowest - ops[at].issue : kNone);
    run.lowest += ops[at].x;
  }
  return run;
}

}  // namespace

void MarkRuns(SweepCode* code) {
  std::vector<SweepOp> ops;
  std::vector<uint32_t> ledgers, places;
  const size_t count = code->ledgers.size() / code->ops.size();
  const auto copy = [&](size_t at) {
    for (size_t i = 0; i < count; ++i)
      ledgers.push_back(code->ledgers[at * count + i]);
    if (!code->places.empty())
      places.push_back(code->places[at]);
  };
  size_t end = 0;  // of the last run
  for (size_t at = 0; at < code->ops.size(); ++at) {
    const SweepOp& op = code->ops[at];
    if (op.kind == SweepKind::kWork && at >= end) {
      end = EndOfRun(code->ops, at);
      SweepOp run = op;
      run.kind = SweepKind::kRun;
      run.x = static_cast<uint32_t>(end - at);
      run.y = static_cast<uint32_t>(code->runs.size());
      code->runs.push_back(RunOf(code->ops, at, end));
      ops.push_back(run);
      copy(at);
    }
    ops.push_back(op);
    copy(at);
  }
  code->ops = std::move(ops);
  code->ledgers = std::move(ledgers);
  code->places = std::move(places);
}

namespace {

void FindKeptEnds(SweepCode* code) {
  std::vector<bool> is_read(code->slots);  // from here on, before it is written
  const auto read = [&](uint32_t slot) {
    if (slot < is_read.size())
      is_read[slot] = true;
  };
  for (size_t at = code->ops.size(); at-- > 0;) {
    const SweepOp& op = code->ops[at];
    switch (op.kind) {
      case SweepKind::kCreate:
      case SweepKind::kCollective:
      case SweepKind::kTransfers: {
        SweepMeeting& meeting = code->meeting_slots[op.x];
        meeting.is_kept = is_read[meeting.slot];
        is_read[meeting.slot] = meeting.after_previous;
        break;
      }
      case SweepKind::kAwait:
        // Right behind its operation, the lane takes the end as it is made.
        if (code->ops[at - 1].kind != SweepKind::kCollective ||
            code->meeting_slots[code->ops[at - 1].x].slot != op.y)
          read(op.y);
        break;
      case SweepKind::kWaitToken:
        read(op.x);
        break;
      default:
        read(op.slot);
        break;
    }
  }
}

// A program has thousands of meetings, and a few kinds of them.
void ShareMeetings(SweepCode* code) {
  using Kind = std::tuple<OpKind, uint32_t, uint32_t, bool, bool>;
  std::map<Kind, uint32_t> number_of;
  std::vector<SweepCode::Meeting> meetings;
  std::vector<SweepMeeting> slots;
  for (SweepOp& op : code->ops) {
    if (op.kind != SweepKind::kCreate && op.kind != SweepKind::kCollective &&
        op.kind != SweepKind::kTransfers)
      continue;
    const SweepCode::Meeting& meeting = code->meetings[op.x];
    const SweepMeeting& slot = code->meeting_slots[op.x];
    const auto [at, added] =
        number_of.try_emplace({meeting.kind, meeting.communicator, meeting.details,
                               slot.after_previous, slot.is_kept},
                              static_cast<uint32_t>(meetings.size()));
    if (added) {
      meetings.push_back(meeting);
      slots.push_back(slot);
    } else {
      ++meetings[at->second].times;
    }
    op.x = at->second;
  }
  code->meetings = std::move(meetings);
  code->meeting_slots = std::move(slots);
}

}  // namespace

void FindShortcuts(SweepCode* code) {
  MarkRuns(code);
  FindKeptEnds(code);
  ShareMeetings(code);
}

}  // namespace vrank::graph
