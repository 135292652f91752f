// Ends of collectives and transfers, as members are given them: at once, or, where
// links are shared, when Contention decides them.
//
// Who ends when alone is CollectiveRendezvous's and TransferChannel's.
//
// Thread rule: one thread. Times: nanoseconds of the run. No errors.

#ifndef VRANK_GRAPH_REPLAY_OPERATION_ENDS_H_
#define VRANK_GRAPH_REPLAY_OPERATION_ENDS_H_

#include <cstdint>
#include <vector>

#include "graph/program/pool.h"
#include "graph/replay/collective_rendezvous.h"
#include "graph/replay/communicators.h"
#include "graph/replay/contention.h"
#include "graph/replay/end_reports.h"
#include "graph/replay/lane_queues.h"
#include "graph/replay/transfer_channel.h"

namespace vrank::graph {

template <class Step>
class OperationEnds {
 public:
  using Comm = Communicator<Step>;

  // `contention`: nullptr where nothing is shared.
  OperationEnds(Contention* contention, const NetworkModel* network,
                const RankTable& ranks, LaneQueues& queues,
                Communicators<Step>& communicators, const EndReports<Step>& reports)
      : contention_(contention),
        network_(network),
        ranks_(ranks),
        queues_(queues),
        communicators_(communicators),
        reports_(reports) {}

  bool shared() const { return contention_ != nullptr; }

  // Members that `ends` names have their ends, if links are not shared.
  void EndCollectives(const Comm& c, uint32_t communicator, uint32_t sequence,
                      const CollectiveCall& call,
                      const CollectiveRendezvous<Step>& meeting,
                      const typename CollectiveRendezvous<Step>::Ends& ends);
  // The ends in `ended` have become known on a channel, and data may begin to move.
  void EndTransfers(uint32_t communicator, uint32_t from, uint32_t to,
                    TransferChannel<Step>& channel,
                    const std::vector<TransferEnded>& ended);

  // Nothing moves without an end that is held: takes the next ones. False: none is, or
  // nothing is shared.
  bool Advance();

 private:
  // An end that sharing links may delay, until Contention decides it.
  struct Held {
    bool transfer = false;
    uint32_t queue = kNone;  // of a collective's member; of a transfer: none
    uint32_t communicator = kNone;
    uint32_t sequence = 0;
    uint32_t member = 0;  // a transfer's sender
    uint32_t to = 0;      // ... and receiver
    Stamp end;            // alone
  };

  void EndCollective(uint32_t sequence, uint32_t queue, const Stamp& end);
  void EndTransfer(const TransferEnded& ended, uint32_t from, uint32_t to);
  void HoldCollectives(const Comm& c, uint32_t communicator, uint32_t sequence,
                       const CollectiveCall& call,
                       const CollectiveRendezvous<Step>& meeting,
                       const typename CollectiveRendezvous<Step>::Ends& ends);
  void HoldTransfers(uint32_t communicator, uint32_t from, uint32_t to,
                     TransferChannel<Step>& channel);

  Contention* const contention_;
  const NetworkModel* const network_;
  const RankTable& ranks_;
  LaneQueues& queues_;
  Communicators<Step>& communicators_;
  const EndReports<Step>& reports_;
  Pool<Held> held_;  // by ticket
  // Reused from call to call.
  std::vector<Contention::Member> contending_;
  std::vector<Contention::Ended> contention_ends_;
  std::vector<TransferStart> transfer_starts_;
  std::vector<TransferEnded> transfer_ends_;
};

template <class Step>
void OperationEnds<Step>::EndCollectives(
    const Comm& c, uint32_t communicator, uint32_t sequence, const CollectiveCall& call,
    const CollectiveRendezvous<Step>& meeting,
    const typename CollectiveRendezvous<Step>::Ends& ends) {
  if (contention_ == nullptr) [[likely]] {
    for (const auto& [member, end] : ends) {
      if (meeting.tag(member) != kNone)  // else it has left
        EndCollective(sequence, meeting.tag(member), end);
    }
  } else if (!ends.empty()) {
    HoldCollectives(c, communicator, sequence, call, meeting, ends);
  }
}

template <class Step>
void OperationEnds<Step>::EndCollective(uint32_t sequence, uint32_t queue,
                                        const Stamp& end) {
  LaneQueue& q = queues_[queue];
  q.meeting_end = end;
  const RankState& r = ranks_[q.rank];
  const QueuedOp& op = q.ops[q.head];
  reports_.CollectiveEnd(r, op.a, sequence, r.program->details().collectives[op.b],
                         q.arrival, end);
  queues_.MeetingEnded(queue, q);
}

template <class Step>
void OperationEnds<Step>::HoldCollectives(
    const Comm& c, uint32_t communicator, uint32_t sequence, const CollectiveCall& call,
    const CollectiveRendezvous<Step>& meeting,
    const typename CollectiveRendezvous<Step>::Ends& ends) {
  contending_.clear();
  for (const auto& [member, end] : ends) {
    const uint32_t ticket = held_.Take();
    held_[ticket] = {false, meeting.tag(member), communicator, sequence, member, 0,
                     end};
    contending_.push_back({member, ticket, end.ns});
  }
  contention_->Begin({communicator, &c.identity, sequence, &call, c.members, c.present},
                     contending_);
}

template <class Step>
void OperationEnds<Step>::EndTransfers(uint32_t communicator, uint32_t from,
                                       uint32_t to, TransferChannel<Step>& channel,
                                       const std::vector<TransferEnded>& ended) {
  for (const TransferEnded& each : ended)
    EndTransfer(each, from, to);
  if (contention_ != nullptr) [[unlikely]]
    HoldTransfers(communicator, from, to, channel);
}

template <class Step>
void OperationEnds<Step>::EndTransfer(const TransferEnded& ended, uint32_t from,
                                      uint32_t to) {
  LaneQueue& q = queues_[ended.tag.queue];
  // The group ends with its last transfer; on a tie, the first one's ledger.
  if (q.latest_transfer == kNone || ended.end.ns > q.meeting_end.ns ||
      (ended.end.ns == q.meeting_end.ns && ended.tag.place < q.latest_transfer)) {
    q.meeting_end = ended.end;
    q.latest_transfer = ended.tag.place;
  }
  reports_.TransferEnd(ranks_[q.rank], q.ops[q.head].a, from, to, ended);
  if (--q.transfers_left == 0)
    queues_.MeetingEnded(ended.tag.queue, q);
}

template <class Step>
void OperationEnds<Step>::HoldTransfers(uint32_t communicator, uint32_t from,
                                        uint32_t to, TransferChannel<Step>& channel) {
  const Comm& c = communicators_[communicator];
  transfer_starts_.clear();
  channel.TakeStarts(&transfer_starts_);
  for (const TransferStart& start : transfer_starts_) {
    const auto sequence = static_cast<uint32_t>(start.sequence);
    const uint32_t ticket = held_.Take();
    held_[ticket] = {true, kNone, communicator, sequence, from, to, start.end};
    contention_->Begin({ticket, &c.identity, sequence, c.members[from], c.members[to],
                        start.bytes, start.end.ns});
  }
}

template <class Step>
bool OperationEnds<Step>::Advance() {
  contention_ends_.clear();
  if (contention_ == nullptr || !contention_->Advance(&contention_ends_))
    return false;
  for (const Contention::Ended& ended : contention_ends_) {
    const auto ticket = static_cast<uint32_t>(ended.ticket);
    Held held = held_[ticket];
    held_.Drop(ticket);
    if (!held.transfer) {
      Step::Spend(held.end, ended.end_ns - held.end.ns, Source::kModelled);
      EndCollective(held.sequence, held.queue, held.end);
      continue;
    }
    auto& channel =
        communicators_[held.communicator].Channel(held.member, held.to, network_, true);
    transfer_ends_.clear();
    channel.Moved(held.sequence, ended.end_ns - held.end.ns, transfer_ends_);
    EndTransfers(held.communicator, held.member, held.to, channel, transfer_ends_);
  }
  return true;
}

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_OPERATION_ENDS_H_
