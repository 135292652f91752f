// How operations of communicators end in EngineImpl: at once, or when Contention says.
// Included by engine_impl.h.

#ifndef VRANK_GRAPH_REPLAY_ENGINE_CONTENTION_INL_H_
#define VRANK_GRAPH_REPLAY_ENGINE_CONTENTION_INL_H_

#include "graph/replay/engine_impl.h"

namespace vrank::graph {

// Members that collective_ends_ names have got to their ends, if links are not shared.
template <class Step>
void EngineImpl<Step>::EndCollectives(const Comm& c, uint32_t communicator,
                                      uint32_t sequence, const CollectiveCall& call,
                                      const CollectiveRendezvous<Step>& meeting) {
  if (contention_ == nullptr) [[likely]] {
    for (const auto& [member, end] : collective_ends_)
      if (meeting.tag(member) != kNone)  // else it has left
        EndCollective(sequence, meeting.tag(member), end);
    return;
  }
  if (collective_ends_.empty())
    return;
  contending_.clear();
  for (const auto& [member, end] : collective_ends_) {
    const uint32_t ticket = held_.Take();
    held_[ticket] = {false, meeting.tag(member), communicator, sequence, member, 0,
                     end};
    contending_.push_back({member, ticket, end.ns});
  }
  contention_->Begin({communicator, &c.identity, sequence, &call, c.members, c.present},
                     contending_);
}

template <class Step>
void EngineImpl<Step>::EndCollective(uint32_t sequence, uint32_t queue,
                                     const Stamp& end) {
  LaneQueue& q = queues_[queue];
  q.meeting_end = end;
  const RankState& r = ranks_[q.rank];
  const QueuedOp& op = q.ops[q.head];
  TellCollectiveEnd(r, op.a, sequence, r.program->details().collectives[op.b],
                    q.arrival, end);
  MeetingEnded(queue, q);
}

// Tells what a channel has come to: ends, in transfer_ends_, and data that begins to
// move.
template <class Step>
void EngineImpl<Step>::EndTransfers(uint32_t communicator, uint32_t from, uint32_t to,
                                    TransferChannel<Step>& channel) {
  for (const TransferEnded& ended : transfer_ends_)
    EndTransfer(ended, from, to);
  if (contention_ == nullptr) [[likely]]
    return;
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
bool EngineImpl<Step>::AdvanceContention() {
  contention_ends_.clear();
  if (!contention_->Advance(&contention_ends_))
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
    EndTransfers(held.communicator, held.member, held.to, channel);
  }
  return true;
}

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_ENGINE_CONTENTION_INL_H_
