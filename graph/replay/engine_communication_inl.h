// Collectives and transfers of EngineImpl. Included by engine_impl.h.
//
// An operation of several members goes through its lane's queue, even where the lane
// is known: it may have to wait for the others. Its end is a future, since the next
// operation of the communicator on this rank, whatever its lane, begins after it.

#ifndef VRANK_GRAPH_REPLAY_ENGINE_COMMUNICATION_INL_H_
#define VRANK_GRAPH_REPLAY_ENGINE_COMMUNICATION_INL_H_

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "graph/program/rooted_transfers.h"
#include "graph/replay/engine_impl.h"

namespace vrank::graph {

// Of the program's groups of transfers, the one that the rank takes part with.
inline uint32_t GroupOf(const RankState& r, const Op& op) {
  return r.options.follower
             ? GroupOfFollower(op, r.program->details(), r.communicators[op.a].index)
             : op.b;
}

template <class Step>
bool EngineImpl<Step>::IssueCommunication(uint32_t index, RankState& r, const Op& op) {
  LocalCommunicator& local = CommunicatorAt(r, op.a, error_);
  if (AwaitsForming(r, local))
    return false;
  if (local.state != LocalCommunicator::State::kBound) {
    error_.Report(absl::InvalidArgumentError(fmt::format(
        "rank {}: op {} ({}) uses communicator {}, which {}; use it after its creation "
        "has returned and before its release",
        r.world_rank, r.cursor, Name(op.kind), op.a,
        local.state == LocalCommunicator::State::kUnused
            ? "was never created, or is long gone"
        : local.state == LocalCommunicator::State::kForming ? "is still being created"
        : local.state == LocalCommunicator::State::kNoMember
            ? "this rank is no member of"
            : "has been released")));
    return false;
  }
  if (op.kind == OpKind::kCollective && EndAlone(r, op, local))
    return true;
  QueuedOp queued = Queued(r, op);
  uint32_t shift = 0;
  if (op.kind == OpKind::kTransfers) {
    if (!PeerShift(index, r, op.a, &shift))
      return false;
    queued.b = GroupOf(r, op);
  }
  queued.set_communication(op.kind == OpKind::kCollective ? local.collectives++ : shift,
                           r.cursor);
  Comm& c = communicators_[local.played];
  ++c.operations;
  // Which of its members exchange what is told by their indices.
  c.apart |= op.kind == OpKind::kTransfers;
  LaneAt(r, op.lane, error_);
  const bool opens = r.lanes[op.lane].queue == kNone;
  const uint32_t queue = opens ? OpenQueue(index, op.lane) : r.lanes[op.lane].queue;
  LaneQueue& q = queues_[queue];
  q.lower_bound = Step::EarliestStart(q.lower_bound, r.host, latency_ns_);
  // Referred to by the communicator and by the queued op. The previous operation's
  // future, if it is still pending, passes from the communicator to this one.
  queued.future = NewFuture(2, q.lower_bound, queue);
  Future& future = futures_[queued.future];
  if (local.last_future == kNone)
    future.end = local.last_end;
  future.previous = local.last_future;
  local.last_future = queued.future;
  q.Push(queued);
  ++r.queued;
  if (opens)
    Drain(queue);
  r.parked = r.lanes[op.lane].queue != kNone && !worklist_.empty();
  return true;
}

// A collective of one member waits for nobody: where its lane and the communicator's
// last end are known, it is over at once. False: it is not so.
template <class Step>
bool EngineImpl<Step>::EndAlone(RankState& r, const Op& op, LocalCommunicator& local) {
  Comm& c = communicators_[local.played];
  const CollectiveCall& call = r.program->details().collectives[op.b];
  Lane& lane = LaneAt(r, op.lane, error_);
  if (c.size() != 1 || call.root != 0 || contention_ != nullptr ||
      lane.queue != kNone || local.last_future != kNone)
    return false;
  const Stamp arrival = Step::Arrival(lane.end, r.host, latency_ns_, local.last_end);
  local.last_end = Step::CommunicationEnd(arrival, c.CostOf(call, *network_));
  lane.end = local.last_end;
  c.PassCollective();
  TellCollectiveEnd(r, op.a, local.collectives++, call, arrival, lane.end);
  if (r.timeline != nullptr) [[unlikely]]
    ReportEnded(r, static_cast<uint32_t>(r.cursor), arrival, lane.end);
  if (op.launch != 0)
    r.launches.SetEnd(r.launch_place, lane.end);
  return true;
}

// What to add to a leader's peer to get this rank's; see RankOptions::leader.
// False: the leader's index is not known yet.
template <class Step>
bool EngineImpl<Step>::PeerShift(uint32_t index, RankState& r, uint32_t number,
                                 uint32_t* shift) {
  if (!r.options.follower || r.options.leader < 0)
    return true;
  const uint32_t leader_index = ranks_.IndexOf(r.options.leader);
  if (leader_index == kNone || leader_index == RankTable::kAbsent) {
    error_.Report(absl::InvalidArgumentError(
        fmt::format("rank {}: follows rank {}, which is not part of the run; add it",
                    r.world_rank, r.options.leader)));
    return false;
  }
  RankState& leader = ranks_[leader_index];
  const LocalCommunicator& theirs = CommunicatorAt(leader, number, error_);
  if (theirs.state != LocalCommunicator::State::kBound &&
      theirs.state != LocalCommunicator::State::kReleased) {
    leader.followers_waiting.push_back(index);
    r.blocked = Blocked::kLeader;
    return false;
  }
  const LocalCommunicator& own = r.communicators[number];
  const uint32_t size = communicators_[own.communicator].size();
  *shift = (own.index + size - theirs.index % size) % size;
  return true;
}

// An operation at the head of its queue: arrives, and later takes its end. True: ended.
template <class Step>
bool EngineImpl<Step>::Meet(uint32_t index, LaneQueue& q, QueuedOp& op) {
  if (q.meeting == LaneQueue::Meeting::kNotArrived) {
    Future& own = futures_[op.future];
    if (own.previous != kNone) {
      const Future& previous = futures_[own.previous];
      if (!previous.known) {
        AddWaiter(own.previous, {Waiter::Kind::kQueue, index, kNone, 0, 0});
        return false;
      }
      own.end = previous.end;
      Unreference(own.previous);
      own.previous = kNone;
    }
    q.arrival = Step::Arrival(q.end, op.host, latency_ns_, own.end);
    q.meeting = LaneQueue::Meeting::kArrived;
    if (op.kind == OpKind::kCollective)
      ArriveAtCollective(index, q, op);
    else
      ArriveAtTransfers(index, q, op);
  }
  if (q.meeting != LaneQueue::Meeting::kEnded)
    return false;
  q.meeting = LaneQueue::Meeting::kNotArrived;
  q.end = q.meeting_end;
  Resolve(op.future, q.end);
  LocalCommunicator& local = ranks_[q.rank].communicators[op.a];
  if (local.last_future == op.future) {
    local.last_end = q.end;
    local.last_future = kNone;
    Unreference(op.future);
  }
  Unreference(op.future);
  --communicators_[local.played].operations;
  if (local.state == LocalCommunicator::State::kReleased)
    DropIfUnused(local.played);
  return true;
}

template <class Step>
void EngineImpl<Step>::MeetingEnded(uint32_t queue, LaneQueue& q) {
  q.meeting = LaneQueue::Meeting::kEnded;
  if (queue != draining_)
    worklist_.AddQueue(queue);
}

template <class Step>
void EngineImpl<Step>::ArriveAtCollective(uint32_t index, LaneQueue& q,
                                          const QueuedOp& op) {
  const RankState& r = ranks_[q.rank];
  const LocalCommunicator& local = r.communicators[op.a];
  Comm& c = communicators_[local.played];
  const CollectiveCall& call = r.program->details().collectives[op.b];
  const uint32_t sequence = op.number();
  auto& meeting = c.Collective(sequence);
  if (!meeting.open()) {
    if (call.root >= c.size()) {
      error_.Report(absl::InvalidArgumentError(fmt::format(
          "communicator '{}': {} #{} of rank {} has root {}; there are {} members",
          c.identity, Name(call.operation), sequence, r.world_rank, call.root,
          c.size())));
      return;
    }
    meeting.Open(call, local.place, c.CostOf(call, *network_), c.absent);
    assumed_arrivals_ += AbsenteesOf(local.played);
  } else if (meeting.call() != call) {
    FailMismatch(c, sequence, local.place, call);
    return;
  }
  collective_ends_.clear();
  meeting.Arrive(local.place, q.arrival, index, collective_ends_);
  EndCollectives(c, local.played, sequence, call, meeting);
  c.RetireCollectives();
}

template <class Step>
void EngineImpl<Step>::FailMismatch(const Comm& c, uint32_t sequence, uint32_t member,
                                    const CollectiveCall& call) {
  const auto describe = [](const CollectiveCall& what) {
    return fmt::format(
        "{}({} {}{}{})", Name(what.operation), what.count, Name(what.type),
        Reduces(what.operation) ? fmt::format(", {}", Name(what.reduction)) : "",
        HasRoot(what.operation) ? fmt::format(", root {}", what.root) : "");
  };
  const auto& meeting = c.Collective(sequence);
  // Whoever came first: the words are the same in every run.
  std::pair<uint32_t, const CollectiveCall*> one{meeting.first(), &meeting.call()};
  std::pair<uint32_t, const CollectiveCall*> other{member, &call};
  if (other.first < one.first)
    std::swap(one, other);
  error_.Report(absl::InvalidArgumentError(fmt::format(
      "communicator '{}': collective #{} differs between members: {} calls {}, {} "
      "calls {}; all members must make the same calls in the same order{}{}",
      c.identity, sequence, ranks_.Describe(c.members[one.first]),
      describe(*one.second), ranks_.Describe(c.members[other.first]),
      describe(*other.second),
      ranks_.Follows(c.members[meeting.first()]) || ranks_.Follows(c.members[member])
          ? ", and ranks that --layout puts into one stage must run one program"
          : "",
      ranks_.AdviceOnValues(c.members[meeting.first()], c.members[member]))));
}

template <class Step>
void EngineImpl<Step>::ArriveAtTransfers(uint32_t index, LaneQueue& q,
                                         const QueuedOp& op) {
  const RankState& r = ranks_[q.rank];
  const LocalCommunicator& local = r.communicators[op.a];
  Comm& c = communicators_[local.played];
  const auto& group = r.program->details().transfer_groups[op.b];
  // One more than there are, so that none of them ends the group while it is arriving.
  q.transfers_left = static_cast<uint32_t>(group.size()) + 1;
  q.latest_transfer = kNone;
  q.meeting_end = q.arrival;
  for (uint32_t place = 0; place < group.size(); ++place) {
    const Transfer& transfer = group[place];
    if ((transfer.peer & ~kAbsolutePeer) >= c.size()) {
      error_.Report(absl::InvalidArgumentError(fmt::format(
          "communicator '{}': rank {} names peer {} in a {}; there are {} members",
          c.identity, r.world_rank, transfer.peer & ~kAbsolutePeer,
          transfer.is_send != 0 ? "send" : "receive", c.size())));
      return;
    }
    const uint32_t peer = PeerIndex(transfer, op.number(), c.size());
    const bool send = transfer.is_send != 0;
    const uint32_t from = send ? local.place : peer;
    const uint32_t to = send ? peer : local.place;
    auto& channel = c.Channel(from, to, network_, contention_ != nullptr);
    transfer_ends_.clear();
    const TransferTag tag{index, place};
    auto mismatch =
        send ? channel.Send(transfer.bytes, q.arrival, tag, transfer_ends_)
             : channel.Receive(transfer.bytes, q.arrival, tag, transfer_ends_);
    if (c.absent[peer] && !mismatch) {
      assumed_arrivals_ += StandingFor(local.played);
      mismatch = send ? channel.Receive(transfer.bytes, q.arrival, {}, transfer_ends_)
                      : channel.Send(transfer.bytes, q.arrival, {}, transfer_ends_);
    }
    if (mismatch) {
      error_.Report(absl::InvalidArgumentError(fmt::format(
          "communicator '{}': transfer #{} from {} (index {}) to {} "
          "(index {}) "
          "differs: {} bytes are sent, {} bytes received{}{}",
          c.identity, mismatch->sequence, ranks_.Describe(c.members[from]), from,
          ranks_.Describe(c.members[to]), to, mismatch->sent, mismatch->received,
          ranks_.Follows(c.members[from]) || ranks_.Follows(c.members[to])
              ? "; a rank that follows another sends what that one sends: "
                "where sizes hang on values (routed experts), each rank "
                "must be real or have a trace of its own (`vrank trace --ranks`, "
                "`vrank validate --trace-ranks`; what a run of all ranks with "
                "--record-payloads kept goes to --recorded-payloads)"
              : "",
          ranks_.AdviceOnValues(c.members[from], c.members[to]))));
      return;
    }
    EndTransfers(local.played, from, to, channel);
  }
  if (--q.transfers_left == 0)
    MeetingEnded(index, q);
}

template <class Step>
void EngineImpl<Step>::EndTransfer(const TransferEnded& ended, uint32_t from,
                                   uint32_t to) {
  LaneQueue& q = queues_[ended.tag.queue];
  // The group ends with its last transfer; on a tie, the first one's ledger.
  if (q.latest_transfer == kNone || ended.end.ns > q.meeting_end.ns ||
      (ended.end.ns == q.meeting_end.ns && ended.tag.place < q.latest_transfer)) {
    q.meeting_end = ended.end;
    q.latest_transfer = ended.tag.place;
  }
  TellTransferEnd(ranks_[q.rank], q.ops[q.head].a, from, to, ended);
  if (--q.transfers_left == 0)
    MeetingEnded(ended.tag.queue, q);
}

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_ENGINE_COMMUNICATION_INL_H_
