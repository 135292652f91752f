// Operations of several members, at the head of their lanes' queues: a member arrives,
// meets the others, and later takes its end.
//
// An operation of a communicator goes through its lane's queue, even where the lane is
// known: it may have to wait for the others. Its end is a future, since the next
// operation of the communicator on this rank, whatever its lane, begins after it.
//
// Thread rule: one thread. Times: nanoseconds of the run. Errors, of calls that differ
// between members or name a member that does not exist: FirstError.

#ifndef VRANK_GRAPH_REPLAY_MEETINGS_H_
#define VRANK_GRAPH_REPLAY_MEETINGS_H_

#include <cstdint>
#include <utility>
#include <vector>

#include <absl/status/status.h>
#include <fmt/format.h>

#include "graph/replay/communicators.h"
#include "graph/replay/current_folding.h"
#include "graph/replay/first_error.h"
#include "graph/replay/futures.h"
#include "graph/replay/lane_queues.h"
#include "graph/replay/operation_ends.h"
#include "graph/replay/rank_table.h"

namespace vrank::graph {

template <class Step>
class Meetings {
 public:
  using Comm = Communicator<Step>;

  // `latency_ns`: EngineOptions::launch_latency.
  Meetings(int64_t latency_ns, const NetworkModel* network, RankTable& ranks,
           LaneQueues& queues, Futures<Step>& futures,
           Communicators<Step>& communicators, const CurrentFolding& folding,
           OperationEnds<Step>& ends, FirstError& error)
      : latency_ns_(latency_ns),
        network_(network),
        ranks_(ranks),
        queues_(queues),
        futures_(futures),
        communicators_(communicators),
        folding_(folding),
        ends_(ends),
        error_(error) {}

  // An operation at the head of its queue: arrives, or takes its end. True: ended.
  // False: it waits, and what it waits for makes the queue executable again.
  bool Meet(uint32_t index, LaneQueue& q, QueuedOp& op);

 private:
  void ArriveAtCollective(uint32_t index, LaneQueue& q, const QueuedOp& op);
  void ArriveAtTransfers(uint32_t index, LaneQueue& q, const QueuedOp& op);
  void FailMismatch(const Comm& c, uint32_t sequence, uint32_t member,
                    const CollectiveCall& call);
  void FailMismatch(const Comm& c, uint32_t from, uint32_t to,
                    const typename TransferChannel<Step>::Mismatch& mismatch);

  const int64_t latency_ns_;
  const NetworkModel* const network_;
  RankTable& ranks_;
  LaneQueues& queues_;
  Futures<Step>& futures_;
  Communicators<Step>& communicators_;
  const CurrentFolding& folding_;
  OperationEnds<Step>& ends_;
  FirstError& error_;
  // Reused from call to call.
  typename CollectiveRendezvous<Step>::Ends collective_ends_;
  std::vector<TransferEnded> transfer_ends_;
};

template <class Step>
bool Meetings<Step>::Meet(uint32_t index, LaneQueue& q, QueuedOp& op) {
  if (q.meeting == LaneQueue::Meeting::kNotArrived) {
    Future& own = futures_[op.future];
    if (own.previous != kNone) {
      const Future& previous = futures_[own.previous];
      if (!previous.known) {
        futures_.AddWaiter(own.previous, {Waiter::Kind::kQueue, index, kNone, 0, 0});
        return false;
      }
      own.end = previous.end;
      futures_.Unreference(own.previous);
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
  futures_.Resolve(op.future, q.end);
  LocalCommunicator& local = ranks_[q.rank].communicators[op.a];
  if (local.last_future == op.future) {
    local.last_end = q.end;
    local.last_future = kNone;
    futures_.Unreference(op.future);
  }
  futures_.Unreference(op.future);
  --communicators_[local.played].operations;
  if (local.state == LocalCommunicator::State::kReleased)
    communicators_.DropIfUnused(local.played);
  return true;
}

template <class Step>
void Meetings<Step>::ArriveAtCollective(uint32_t index, LaneQueue& q,
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
    communicators_.CountAssumed(
        folding_.on() ? folding_->FamilyOf(local.played).absentees : c.absentees());
  } else if (meeting.call() != call) {
    FailMismatch(c, sequence, local.place, call);
    return;
  }
  collective_ends_.clear();
  meeting.Arrive(local.place, q.arrival, index, collective_ends_);
  ends_.EndCollectives(c, local.played, sequence, call, meeting, collective_ends_);
  c.RetireCollectives();
}

template <class Step>
void Meetings<Step>::FailMismatch(const Comm& c, uint32_t sequence, uint32_t member,
                                  const CollectiveCall& call) {
  const auto describe = [](const CollectiveCall& what) {
    return fmt::format(
        "{}({} {}{}{})", Name(what.operation), what.count, Name(what.type),
        Reduces(what.operation) ? fmt::format(", {}", Name(what.reduction)) : "",
        HasRoot(what.operation) ? fmt::format(", root {}", what.root) : "");
  };
  const auto& meeting = c.Collective(sequence);
  // The lower place comes first: the words are the same in every run.
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
void Meetings<Step>::ArriveAtTransfers(uint32_t index, LaneQueue& q,
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
    auto& channel = c.Channel(from, to, network_, ends_.shared());
    transfer_ends_.clear();
    const TransferTag tag{index, place};
    auto mismatch =
        send ? channel.Send(transfer.bytes, q.arrival, tag, transfer_ends_)
             : channel.Receive(transfer.bytes, q.arrival, tag, transfer_ends_);
    if (c.absent[peer] && !mismatch) {
      communicators_.CountAssumed(folding_.InstancesOf(local.played));
      mismatch = send ? channel.Receive(transfer.bytes, q.arrival, {}, transfer_ends_)
                      : channel.Send(transfer.bytes, q.arrival, {}, transfer_ends_);
    }
    if (mismatch) {
      FailMismatch(c, from, to, *mismatch);
      return;
    }
    ends_.EndTransfers(local.played, from, to, channel, transfer_ends_);
  }
  if (--q.transfers_left == 0)
    queues_.MeetingEnded(index, q);
}

template <class Step>
void Meetings<Step>::FailMismatch(
    const Comm& c, uint32_t from, uint32_t to,
    const typename TransferChannel<Step>::Mismatch& mismatch) {
  error_.Report(absl::InvalidArgumentError(fmt::format(
      "communicator '{}': transfer #{} from {} (index {}) to {} "
      "(index {}) "
      "differs: {} bytes are sent, {} bytes received{}{}",
      c.identity, mismatch.sequence, ranks_.Describe(c.members[from]), from,
      ranks_.Describe(c.members[to]), to, mismatch.sent, mismatch.received,
      ranks_.Follows(c.members[from]) || ranks_.Follows(c.members[to])
          ? "; a rank that follows another sends what that one sends: "
            "where sizes hang on values (routed experts, objects that another rank "
            "sends, as stages of torch.distributed.pipelining do that have no "
            "input_args and output_args), each rank "
            "must be real or have a trace of its own (`vrank trace --ranks`, "
            "`vrank validate --trace-ranks`; what a run of all ranks with "
            "--record-payloads kept goes to --recorded-payloads)"
          : "",
      ranks_.AdviceOnValues(c.members[from], c.members[to]))));
}

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_MEETINGS_H_
