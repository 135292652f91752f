// Waits and polls of the host.
//
// One that finds its token or lane pending blocks the host at its op; once the end is
// known the op is executed again, now with a known end.
//
// Thread rule: one thread. Times: nanoseconds of the run. Errors: numbers out of range
// (FirstError).

#ifndef VRANK_GRAPH_REPLAY_HOST_WAITS_H_
#define VRANK_GRAPH_REPLAY_HOST_WAITS_H_

#include <cstdint>

#include "graph/replay/first_error.h"
#include "graph/replay/futures.h"
#include "graph/replay/host_answers.h"
#include "graph/replay/lane_queues.h"
#include "graph/replay/numbered.h"

namespace vrank::graph {

template <class Step>
class HostWaits {
 public:
  HostWaits(LaneQueues& queues, Futures<Step>& futures, HostAnswers<Step> answers,
            FirstError& error)
      : queues_(queues), futures_(futures), answers_(answers), error_(error) {}

  // False: the host is blocked at this op.
  bool WaitForToken(RankState& r, const Op& op) {
    const Token& token = TokenAt(r, op.a, error_);
    if (token.future != kNone) {
      futures_.AddWaiter(token.future, {Waiter::Kind::kHost, r.index, kNone, 0, 0});
      r.blocked = Blocked::kToken;
      return false;
    }
    Reach(r, op, token.end, op.kind == OpKind::kPollToken);
    return true;
  }

  bool WaitForLane(RankState& r, const Op& op) {
    const Lane& lane = LaneAt(r, op.lane, error_);
    if (lane.queue != kNone) {
      queues_[lane.queue].host_waits = true;
      r.blocked = Blocked::kLane;
      return false;
    }
    Reach(r, op, lane.end, op.kind == OpKind::kPollLane);
    return true;
  }

  // Of a launch, for a place in the launch queue.
  bool WaitForLaunchPlace(RankState& r) {
    if (const Stamp* oldest = r.launches.Oldest()) {
      if (oldest->ns == LaunchQueue::kPending) {
        r.blocked = Blocked::kLaunch;
        return false;
      }
      const int64_t before = r.host.ns;
      Step::HostWait(r.host, *oldest);
      r.host_waited_ns += r.host.ns - before;
    }
    r.launch_place = r.launches.Take();
    return true;
  }

 private:
  void Reach(RankState& r, const Op& op, const Stamp& end, bool poll) {
    const int64_t before = r.host.ns;
    if (poll)
      Step::HostPoll(r.host, end, op.value, op.source);
    else
      Step::HostWait(r.host, end);
    r.host_waited_ns += r.host.ns - before;
    answers_.Answer(r, r.cursor, end, 0);
  }

  LaneQueues& queues_;
  Futures<Step>& futures_;
  HostAnswers<Step> answers_;
  FirstError& error_;
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_HOST_WAITS_H_
