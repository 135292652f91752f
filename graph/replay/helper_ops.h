// Ops of threads that issue no work (watchdogs, loggers), and waits that hold up only
// the thread that issued them.
//
// They ask beside the rank: their waits block neither the host nor its clock, and their
// queries are answered by the clock at their place in the program.
//
// Thread rule: one thread. Times: nanoseconds of the run. Errors: an op that issues
// work (FirstError).

#ifndef VRANK_GRAPH_REPLAY_HELPER_OPS_H_
#define VRANK_GRAPH_REPLAY_HELPER_OPS_H_

#include <absl/status/status.h>
#include <fmt/format.h>

#include "graph/replay/first_error.h"
#include "graph/replay/folded_ops.h"
#include "graph/replay/futures.h"
#include "graph/replay/host_answers.h"
#include "graph/replay/lane_queues.h"
#include "graph/replay/numbered.h"
#include "graph/replay/queries.h"
#include "graph/replay/releases.h"

namespace vrank::graph {

template <class Step>
class HelperOps {
 public:
  HelperOps(LaneQueues& queues, Futures<Step>& futures, Queries<Step>& queries,
            FoldedOps<Step>& folded, Releases<Step>& releases,
            HostAnswers<Step> answers, FirstError& error)
      : queues_(queues),
        futures_(futures),
        queries_(queries),
        folded_(folded),
        releases_(releases),
        answers_(answers),
        error_(error) {}

  // False: the rank's ops wait at this one, not its clock.
  bool Execute(RankState& r, const Op& op);

 private:
  void WaitForToken(RankState& r, const Op& op);
  void WaitForLane(RankState& r, const Op& op);

  LaneQueues& queues_;
  Futures<Step>& futures_;
  Queries<Step>& queries_;
  FoldedOps<Step>& folded_;
  Releases<Step>& releases_;
  HostAnswers<Step> answers_;
  FirstError& error_;
};

template <class Step>
bool HelperOps<Step>::Execute(RankState& r, const Op& op) {
  if (op.kind == OpKind::kReleaseCommunicator)
    return folded_.Allow(r, op) && releases_.Release(r, op);
  ++r.helper_questions;
  if (!r.options.real)
    return true;
  switch (op.kind) {
    case OpKind::kQueryToken:
    case OpKind::kQueryLane: {
      const bool answered = queries_.Ask(r, op);
      if (!answered)
        --r.helper_questions;
      return answered;
    }
    case OpKind::kHostWaitToken:
      WaitForToken(r, op);
      return true;
    case OpKind::kHostWaitLane:
      WaitForLane(r, op);
      return true;
    case OpKind::kAskClock:
      answers_.AnswerHelper(r, r.cursor, r.host.ns, r.host);
      return true;
    default:
      error_.Report(absl::InvalidArgumentError(
          fmt::format("rank {}: op {} ({}) comes from a thread that issues no work",
                      r.world_rank, r.cursor, Name(op.kind))));
      return false;
  }
}

template <class Step>
void HelperOps<Step>::WaitForToken(RankState& r, const Op& op) {
  const Token& token = TokenAt(r, op.a, error_);
  if (token.future == kNone)
    answers_.AnswerHelper(r, r.cursor, r.host.ns, token.end);
  else
    futures_.AddWaiter(token.future,
                       {Waiter::Kind::kHelper, r.index, kNone, 0, r.host.ns, r.cursor});
}

template <class Step>
void HelperOps<Step>::WaitForLane(RankState& r, const Op& op) {
  const Lane& lane = LaneAt(r, op.lane, error_);
  if (lane.queue == kNone)
    answers_.AnswerHelper(r, r.cursor, r.host.ns, lane.end);
  else
    LaneQueues::Push(r, queues_[lane.queue], LaneQueues::Queued(r, op));
}

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_HELPER_OPS_H_
