// Collectives and groups of transfers as the host issues them: into the queue of their
// lane, where Meetings takes them up.
//
// Thread rule: one thread. Times: nanoseconds of the run. Errors: a communicator that
// the rank cannot use (FirstError).

#ifndef VRANK_GRAPH_REPLAY_COMMUNICATION_OPS_H_
#define VRANK_GRAPH_REPLAY_COMMUNICATION_OPS_H_

#include <cstdint>

#include <absl/status/status.h>
#include <fmt/format.h>

#include "graph/replay/communicators.h"
#include "graph/replay/end_reports.h"
#include "graph/replay/first_error.h"
#include "graph/replay/futures.h"
#include "graph/replay/lane_drain.h"
#include "graph/replay/lane_queues.h"
#include "graph/replay/network_model.h"
#include "graph/replay/numbered.h"
#include "graph/replay/peer_places.h"
#include "graph/replay/rank_cursor.h"
#include "graph/replay/worklist.h"

namespace vrank::graph {

template <class Step>
class CommunicationOps {
 public:
  // `latency_ns`: EngineOptions::launch_latency. `may_end_alone`: links are not shared.
  CommunicationOps(int64_t latency_ns, const NetworkModel* network, bool may_end_alone,
                   const Worklist& worklist, LaneQueues& queues, Futures<Step>& futures,
                   Communicators<Step>& communicators, const PeerPlaces<Step>& peers,
                   const EndReports<Step>& reports, LaneDrain<Step>& drain,
                   FirstError& error)
      : latency_ns_(latency_ns),
        network_(network),
        may_end_alone_(may_end_alone),
        worklist_(worklist),
        queues_(queues),
        futures_(futures),
        communicators_(communicators),
        peers_(peers),
        reports_(reports),
        drain_(drain),
        error_(error) {}

  // False: the host is blocked at this op.
  bool Issue(RankState& r, const Op& op);

 private:
  using Comm = Communicator<Step>;

  bool EndAlone(RankState& r, const Op& op, LocalCommunicator& local);
  void FailUnbound(const RankState& r, const Op& op, const LocalCommunicator& local);

  const int64_t latency_ns_;
  const NetworkModel* const network_;
  const bool may_end_alone_;
  const Worklist& worklist_;
  LaneQueues& queues_;
  Futures<Step>& futures_;
  Communicators<Step>& communicators_;
  const PeerPlaces<Step>& peers_;
  const EndReports<Step>& reports_;
  LaneDrain<Step>& drain_;
  FirstError& error_;
};

template <class Step>
bool CommunicationOps<Step>::Issue(RankState& r, const Op& op) {
  LocalCommunicator& local = CommunicatorAt(r, op.a, error_);
  if (AwaitsForming(r, local))
    return false;
  if (local.state != LocalCommunicator::State::kBound) {
    FailUnbound(r, op, local);
    return false;
  }
  if (op.kind == OpKind::kCollective && EndAlone(r, op, local))
    return true;
  QueuedOp queued = LaneQueues::Queued(r, op);
  uint32_t shift = 0;
  if (op.kind == OpKind::kTransfers) {
    if (!peers_.Shift(r, op.a, &shift))
      return false;
    queued.b = GroupOf(r, op);
  }
  queued.set_communication(op.kind == OpKind::kCollective ? local.collectives++ : shift,
                           r.cursor);
  Comm& c = communicators_[local.played];
  ++c.operations;
  // Which of its members exchange what is stated by their indices.
  c.apart |= op.kind == OpKind::kTransfers;
  LaneAt(r, op.lane, error_);
  const bool opens = r.lanes[op.lane].queue == kNone;
  const uint32_t queue =
      opens ? queues_.Open(r.index, op.lane) : r.lanes[op.lane].queue;
  LaneQueue& q = queues_[queue];
  q.lower_bound = Step::EarliestStart(q.lower_bound, r.host, latency_ns_);
  // Referred to by the communicator and by the queued op. The previous operation's
  // future, if it is still pending, passes from the communicator to this one.
  queued.future = futures_.New(2, q.lower_bound, queue);
  Future& future = futures_[queued.future];
  if (local.last_future == kNone)
    future.end = local.last_end;
  future.previous = local.last_future;
  local.last_future = queued.future;
  LaneQueues::Push(r, q, queued);
  if (opens)
    drain_.Drain(queue);
  r.parked = r.lanes[op.lane].queue != kNone && !worklist_.empty();
  return true;
}

// A collective of one member has no others to wait for: where its lane and the
// communicator's last end are known, it ends at once. False: it is not so.
template <class Step>
bool CommunicationOps<Step>::EndAlone(RankState& r, const Op& op,
                                      LocalCommunicator& local) {
  Comm& c = communicators_[local.played];
  const CollectiveCall& call = r.program->details().collectives[op.b];
  Lane& lane = LaneAt(r, op.lane, error_);
  if (c.size() != 1 || call.root != 0 || !may_end_alone_ || lane.queue != kNone ||
      local.last_future != kNone)
    return false;
  const Stamp arrival = Step::Arrival(lane.end, r.host, latency_ns_, local.last_end);
  local.last_end = Step::CommunicationEnd(arrival, c.CostOf(call, *network_));
  lane.end = local.last_end;
  c.PassCollective();
  reports_.CollectiveEnd(r, op.a, local.collectives++, call, arrival, lane.end);
  if (r.timeline != nullptr) [[unlikely]]
    ReportEnded(r, static_cast<uint32_t>(r.cursor), arrival, lane.end);
  if (op.launch != 0)
    r.launches.SetEnd(r.launch_place, lane.end);
  return true;
}

template <class Step>
void CommunicationOps<Step>::FailUnbound(const RankState& r, const Op& op,
                                         const LocalCommunicator& local) {
  error_.Report(absl::InvalidArgumentError(fmt::format(
      "rank {}: op {} ({}) uses communicator {}, which {}; use it after its creation "
      "has returned and before its release",
      r.world_rank, r.cursor, Name(op.kind), op.a,
      local.state == LocalCommunicator::State::kUnused
          ? "was never created, or is long gone"
      : local.state == LocalCommunicator::State::kForming  ? "is still being created"
      : local.state == LocalCommunicator::State::kNoMember ? "this rank is no member of"
                                                           : "has been released")));
}

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_COMMUNICATION_OPS_H_
