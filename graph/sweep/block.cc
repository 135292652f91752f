// How blocks meet; see block.h.

#include "graph/sweep/block.h"

#include <algorithm>
#include <utility>

#include "graph/fold/view.h"
#include "graph/replay/collective_rendezvous.h"
#include "graph/replay/step.h"

namespace vrank::graph {

Stamp ReadStamp(const int64_t* slot, uint32_t width, uint32_t lane,
                const LedgerSet& ledgers) {
  Stamp stamp;
  stamp.ns = slot[lane];
  for (size_t i = 0, part = 1; i < LedgerSet::kAll.size(); ++i) {
    if (ledgers.used[i])
      stamp.*LedgerSet::kAll[i] = slot[part++ * width + lane];
  }
  return stamp;
}

void WriteStamp(const Stamp& stamp, int64_t* slot, uint32_t width, uint32_t lane,
                const LedgerSet& ledgers) {
  slot[lane] = stamp.ns;
  for (size_t i = 0, part = 1; i < LedgerSet::kAll.size(); ++i) {
    if (ledgers.used[i])
      slot[part++ * width + lane] = stamp.*LedgerSet::kAll[i];
  }
}

Stamp StampOf(const Cost& cost, bool host) {
  return host ? Step::CreationEnd({}, cost) : Step::CommunicationEnd({}, cost);
}

namespace {

// One member of an instance in a round.
struct Seat {
  int64_t* slot;  // of its communicator, at its lane
  const int64_t* cost;
  uint32_t width;
};

Seat SeatAt(const SweepAssembly& assembly, const SweepAssembly::Round& round,
            const SweepAssembly::Place& place) {
  SweepBlock& block = *assembly.members[place.member];
  const uint32_t meeting = round.meetings[place.member];
  const uint32_t communicator = block.code->meetings[meeting].communicator;
  return {block.Slot(block.code->communicators[communicator].slot) + place.lane,
          block.bindings[meeting].cost->data() + place.lane, block.lanes.width};
}

// Rows of `n` stamps, each number of a stamp a row, `stride` apart: to := max(to,
// from).
void RaiseRows(const int64_t* __restrict from, size_t from_stride, size_t n,
               size_t parts, int64_t* __restrict to, size_t to_stride) {
  for (size_t part = parts - 1; part > 0; --part) {
    for (size_t k = 0; k < n; ++k) {
      int64_t& own = to[part * to_stride + k];
      own = from[k] > to[k] ? from[part * from_stride + k] : own;
    }
  }
  for (size_t k = 0; k < n; ++k)
    to[k] = std::max(to[k], from[k]);
}

// All end with the latest arrival and their cost; on a tie the first member's ledgers.
void EndTogether(const std::vector<Seat>& seats, int parts) {
  const Seat* latest = seats.data();
  for (const Seat& seat : seats) {
    if (*seat.slot > *latest->slot)
      latest = &seat;
  }
  std::array<int64_t, 5> end{};
  for (int part = 0; part < parts; ++part)
    end[part] = latest->slot[static_cast<size_t>(part) * latest->width];
  for (const Seat& seat : seats) {
    for (int part = 0; part < parts; ++part) {
      const size_t at = static_cast<size_t>(part) * seat.width;
      seat.slot[at] = end[part] + seat.cost[at];
    }
  }
}

// Where members depend on some arrivals only: as the incremental engine has it.
void EndRooted(const CollectiveCall& call, const std::vector<Seat>& seats,
               const LedgerSet& ledgers) {
  CollectiveRendezvous<Step> meeting;
  CollectiveRendezvous<Step>::Ends ends;
  meeting.Open(call, 0, {}, std::vector<bool>(seats.size()));
  for (uint32_t i = 0; i < seats.size(); ++i)
    meeting.Arrive(i, ReadStamp(seats[i].slot, seats[i].width, 0, ledgers), 0, ends);
  for (const auto& [member, latest] : ends) {
    const Seat& seat = seats[member];
    WriteStamp(latest, seat.slot, seat.width, 0, ledgers);
    for (int part = 0; part <= ledgers.count(); ++part) {
      const size_t at = static_cast<size_t>(part) * seat.width;
      seat.slot[at] += seat.cost[at];
    }
  }
}

void SeatAll(const SweepAssembly& assembly, const SweepAssembly::Round& round,
             const std::vector<SweepAssembly::Place>& instance,
             std::vector<Seat>* seats) {
  seats->clear();
  for (const SweepAssembly::Place& place : instance)
    seats->push_back(SeatAt(assembly, round, place));
}

}  // namespace

void EndCollective(SweepAssembly& assembly, const LedgerSet& ledgers) {
  thread_local std::vector<Seat> seats;
  const SweepCode& code = *assembly.members[0]->code;
  const CollectiveCall& call =
      code.program->details()
          .collectives[code.meetings[assembly.collective.meetings[0]].details];
  for (const auto& instance : assembly.instances) {
    SeatAll(assembly, assembly.collective, instance, &seats);
    if (HasRoot(call.operation))
      EndRooted(call, seats, ledgers);
    else
      EndTogether(seats, 1 + ledgers.count());
  }
}

void EndCreation(SweepAssembly& assembly, const LedgerSet& ledgers) {
  thread_local std::vector<Seat> seats;
  for (const auto& instance : assembly.instances) {
    SeatAll(assembly, assembly.host, instance, &seats);
    EndTogether(seats, 1 + ledgers.count());
  }
}

void EndTransfers(SweepBlock& block, uint32_t communicator, const LedgerSet& ledgers) {
  const SweepCode::Communicator& local = block.code->communicators[communicator];
  const SweepBinding& binding = block.bindings[block.meeting[communicator]];
  const size_t width = block.lanes.width, n = block.ranks.size();
  const size_t parts = 1 + static_cast<size_t>(ledgers.count());
  int64_t* const slot = block.Slot(local.slot);
  uint32_t transfers = 0;
  for (const SweepBinding::Part& part : binding.parts)
    transfers = std::max(transfers, part.place + 1);
  if (transfers == 0)
    return;
  int64_t* const waited = block.waited.data();
  const int64_t* const cost = binding.cost->data();
  for (size_t lane = 0; lane < n; ++lane)
    waited[lane] -= slot[lane] + cost[lane];
  // The first one always counts, as in the incremental engine.
  const int64_t* const first = block.Slot(local.transfer_slot);
  for (size_t part = 0; part < parts; ++part)
    std::copy_n(first + part * width, n, slot + part * width);
  for (uint32_t place = 1; place < transfers; ++place)
    RaiseRows(block.Slot(local.transfer_slot + place), width, n, parts, slot, width);
  for (size_t lane = 0; lane < n; ++lane)
    waited[lane] += slot[lane];
}

namespace {

// One after the other?
bool InOrder(const std::vector<uint32_t>& lanes) {
  for (size_t k = 1; k < lanes.size(); ++k) {
    if (lanes[k] != lanes[0] + k)
      return false;
  }
  return true;
}

}  // namespace

SweepChannel::SweepChannel(ChannelPairs pairs, const NetworkModel* network,
                           const LedgerSet& ledgers)
    : pairs_(std::move(pairs)),
      network_(network),
      ledgers_(ledgers),
      parts_(1 + static_cast<size_t>(ledgers.count())),
      from_in_order_(InOrder(pairs_.from_lane)),
      to_in_order_(InOrder(pairs_.to_lane)) {}

void SweepChannel::Reset() {
  entries_.clear();
  base_ = sent_ = received_ = effective_ = completed_ = 0;
  window_first_ = window_next_ = window_bytes_ = 0;
}

SweepChannel::Entry& SweepChannel::At(uint64_t sequence) {
  while (base_ + entries_.size() <= sequence) {
    if (spare_.empty()) {
      entries_.emplace_back();
    } else {
      entries_.push_back(std::move(spare_.back()));
      spare_.pop_back();
    }
  }
  return entries_[sequence - base_];
}

void SweepChannel::Gather(bool is_send, StampLanes* to) const {
  const SweepBlock& block = is_send ? *pairs_.from : *pairs_.to;
  const std::vector<uint32_t>& lanes = is_send ? pairs_.from_lane : pairs_.to_lane;
  const uint32_t communicator =
      is_send ? pairs_.from_communicator : pairs_.to_communicator;
  const int64_t* const slot = block.Slot(block.code->communicators[communicator].slot);
  const size_t n = lanes.size();
  to->resize(n * parts_);
  for (size_t part = 0; part < parts_; ++part) {
    const int64_t* const from = slot + part * block.lanes.width;
    int64_t* const row = to->data() + part * n;
    if (is_send ? from_in_order_ : to_in_order_) {
      std::copy_n(from + lanes[0], n, row);
    } else {
      for (size_t k = 0; k < n; ++k)
        row[k] = from[lanes[k]];
    }
  }
}

bool SweepChannel::Send(uint32_t place, uint64_t bytes, SweepWaker* waker) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Entry& entry = At(sent_++);
  entry.sent_bytes = bytes;
  entry.send_place = place;
  Gather(true, &entry.send);
  return Advance(waker);
}

bool SweepChannel::Receive(uint32_t place, uint64_t bytes, SweepWaker* waker) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Entry& entry = At(received_++);
  entry.received_bytes = bytes;
  entry.receive_place = place;
  Gather(false, &entry.receive);
  return Advance(waker);
}

bool SweepChannel::Advance(SweepWaker* waker) {
  while (true) {
    const bool moved = effective_ < sent_ && ReleaseSend(waker);
    if (completed_ < effective_ && completed_ < received_) {
      if (!Complete(waker))
        return false;
    } else if (!moved) {
      break;
    }
  }
  const uint64_t needed =
      std::min(completed_, window_first_ == 0 ? 0 : window_first_ - 1);
  for (; base_ < needed; ++base_) {
    spare_.push_back(std::move(entries_.front()));
    entries_.pop_front();
  }
  return true;
}

// transfer_channel.h: Gate and ReleaseSend.
bool SweepChannel::ReleaseSend(SweepWaker* waker) {
  if (window_next_ == effective_) {
    window_bytes_ += At(effective_).sent_bytes;
    ++window_next_;
    while (window_bytes_ > pairs_.credit && window_first_ <= effective_)
      window_bytes_ -= At(window_first_++).sent_bytes;
  }
  const uint64_t first = std::min(window_first_, effective_);
  if (first > completed_)
    return false;
  Entry& entry = At(effective_);
  if (first != 0) {
    // The end of the receive that gives the credit back.
    const size_t n = pairs_.from_lane.size();
    RaiseRows(At(first - 1).receive.data(), n, n, parts_, entry.send.data(), n);
  }
  ++effective_;
  if (entry.sent_bytes <= pairs_.credit) {
    End(true, entry.send_place, entry.send, nullptr, CostOf(entry.sent_bytes), nullptr);
    waker->PartEnded(pairs_.from, pairs_.from_communicator);
  }
  return true;
}

// transfer_channel.h: Complete.
bool SweepChannel::Complete(SweepWaker* waker) {
  Entry& entry = At(completed_);
  if (entry.sent_bytes != entry.received_bytes)
    return false;
  const StampLanes& cost = CostOf(entry.sent_bytes);
  ++completed_;
  const bool together = entry.sent_bytes > pairs_.credit;
  if (together)
    End(true, entry.send_place, entry.send, &entry.receive, cost, nullptr);
  End(false, entry.receive_place, entry.receive, &entry.send, cost, &entry.receive);
  if (together)
    waker->PartEnded(pairs_.from, pairs_.from_communicator);
  waker->PartEnded(pairs_.to, pairs_.to_communicator);
  return true;
}

// Step::TransferEnd of every pair, into the slot of its side.
void SweepChannel::End(bool is_send, uint32_t place, const StampLanes& own,
                       const StampLanes* other, const StampLanes& cost,
                       StampLanes* keep) {
  const SweepBlock& block = is_send ? *pairs_.from : *pairs_.to;
  const std::vector<uint32_t>& lanes = is_send ? pairs_.from_lane : pairs_.to_lane;
  const SweepCode::Communicator& local =
      block.code
          ->communicators[is_send ? pairs_.from_communicator : pairs_.to_communicator];
  int64_t* const slot = block.Slot(local.transfer_slot + place);
  const size_t n = lanes.size(), width = block.lanes.width;
  ends_ = own;
  if (other != nullptr)
    RaiseRows(other->data(), n, n, parts_, ends_.data(), n);
  for (size_t i = 0; i < ends_.size(); ++i)
    ends_[i] += cost[i];
  for (size_t part = 0; part < parts_; ++part) {
    const int64_t* const from = ends_.data() + part * n;
    int64_t* const row = slot + part * width;
    if (is_send ? from_in_order_ : to_in_order_) {
      std::copy_n(from, n, row + lanes[0]);
    } else {
      for (size_t k = 0; k < n; ++k)
        row[lanes[k]] = from[k];
    }
  }
  if (keep != nullptr)
    keep->swap(ends_);
}

const StampLanes& SweepChannel::CostOf(uint64_t bytes) {
  for (const auto& [size, cost] : costs_) {
    if (size == bytes)
      return cost;
  }
  const auto n = static_cast<uint32_t>(pairs_.from_lane.size());
  StampLanes cost(n * parts_);
  for (uint32_t k = 0; k < n; ++k) {
    WriteStamp(
        StampOf(network_->Transfer(bytes, pairs_.from_rank[k], pairs_.to_rank[k]),
                false),
        cost.data(), n, k, ledgers_);
  }
  return costs_.emplace_back(bytes, std::move(cost)).second;
}

}  // namespace vrank::graph
