// The transfers from one member of a communicator to another, matched in order.
//
// Sends draw on a credit of C bytes, which receives give back. Send i may not go before
// send j has been received, where j is the latest send before i such that sends j .. i
// exceed C (so j+1 .. i fit):
//   effective(i) = max(arrival of send i, end of receive j)
//   send i ends      bytes <= C: effective(i) + cost, without its receiver
//                    else:       max(effective(i), arrival of receive i) + cost
//   receive i ends   max(arrival of receive i, effective(i)) + cost
// Where links are shared, the data of a transfer begins to move at effective(i), of one
// that exceeds the credit once the receive has arrived as well, and its owner says by
// how much later than alone all of it has moved (Moved). Ends of a send, and of both
// sides of one that exceeds the credit, are put off by as much; a receive that finds
// its data under way ends when that has arrived, but not earlier than above.
//
// Sends and receives each arrive in order, since a communicator is serialised on every
// rank; hence effective times and ends become known in order, too.
//
// Thread rule: one thread.

#ifndef VRANK_GRAPH_REPLAY_TRANSFER_CHANNEL_H_
#define VRANK_GRAPH_REPLAY_TRANSFER_CHANNEL_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph/program/pool.h"
#include "graph/replay/condition.h"
#include "graph/replay/network_model.h"
#include "graph/replay/stamp.h"

namespace vrank::graph {

// Whose transfer it is: the LaneQueue with its group at the head, and the place in the
// group. Absent sides have no queue.
struct TransferTag {
  uint32_t queue = kNone;
  uint32_t place = 0;
};

struct TransferEnded {
  TransferTag tag;
  bool is_send = false;
  uint32_t sequence = 0;
  uint64_t bytes = 0;
  Stamp arrival;
  Stamp end;
};

// Data that begins to move; `end`: when it will have moved if nothing else does.
struct TransferStart {
  uint64_t sequence = 0;
  uint64_t bytes = 0;
  Stamp end;
};

template <class Step>
class TransferChannel {
 public:
  // `shared`: ends wait for Moved.
  TransferChannel(const NetworkModel* network, int32_t from, int32_t to, bool shared)
      : network_(network),
        from_(from),
        to_(to),
        shared_(shared),
        credit_(network->TransferCreditBytes(from, to)) {}

  struct Mismatch {
    uint64_t sequence, sent, received;
  };

  // Ends that become known are appended to `ends`. A mismatch of sizes is an error.
  std::optional<Mismatch> Send(uint64_t bytes, const Stamp& arrival, TransferTag tag,
                               std::vector<TransferEnded>& ends) {
    Entry& entry = At(sent_++);
    entry.sent_bytes = bytes;
    entry.send_arrival = arrival;
    entry.sender = tag;
    return Advance(ends);
  }
  std::optional<Mismatch> Receive(uint64_t bytes, const Stamp& arrival, TransferTag tag,
                                  std::vector<TransferEnded>& ends) {
    Entry& entry = At(received_++);
    entry.received_bytes = bytes;
    entry.receive_arrival = arrival;
    entry.receiver = tag;
    return Advance(ends);
  }

  // A send that has arrived and that no receive has; all after it have none, either.
  struct UnmatchedSend {
    uint64_t sequence = 0, bytes = 0;
  };
  std::optional<UnmatchedSend> FirstUnmatchedSend() const {
    if (sent_ <= received_)
      return std::nullopt;
    return UnmatchedSend{received_, entries_[received_ - base_].sent_bytes};
  }
  // Appends the starts since the last call. None unless shared.
  void TakeStarts(std::vector<TransferStart>* starts) {
    starts->insert(starts->end(), starts_.begin(), starts_.end());
    starts_.clear();
  }
  // All data of that transfer has moved, `delay_ns` later than alone.
  void Moved(uint64_t sequence, int64_t delay_ns, std::vector<TransferEnded>& ends) {
    Entry& entry = At(sequence);
    entry.moved = true;
    entry.delay_ns = delay_ns;
    if (entry.sent_bytes <= credit_)
      Report(entry, sequence, true, Delayed(entry, SendEnd(entry)), ends);
    Advance(ends);  // sizes that differ were found when both had arrived
  }

  // Nobody waits any more for the ends of what has arrived from this queue.
  void Leave(uint32_t queue) {
    for (Entry& entry : entries_) {
      if (entry.sender.queue == queue)
        entry.sender = {};
      if (entry.receiver.queue == queue)
        entry.receiver = {};
    }
  }

  // The same between two other ranks, whose queues are sender_of(queue) and
  // receiver_of(queue) where this one's is `queue`.
  template <class SenderOf, class ReceiverOf>
  std::unique_ptr<TransferChannel> CopyFor(int32_t from, int32_t to, SenderOf sender_of,
                                           ReceiverOf receiver_of) const {
    auto copy = std::make_unique<TransferChannel>(*this);
    copy->from_ = from;
    copy->to_ = to;
    for (Entry& entry : copy->entries_) {
      if (entry.sender.queue != kNone)
        entry.sender.queue = sender_of(entry.sender.queue);
      if (entry.receiver.queue != kNone)
        entry.receiver.queue = receiver_of(entry.receiver.queue);
    }
    return copy;
  }
  // Equal for channels that go on alike.
  void AppendCondition(std::string* text) const {
    AppendNumbers(text, {credit_, cost_bytes_, cost_known_ ? 1u : 0u,
                         static_cast<uint64_t>(cost_.duration.nanoseconds()),
                         static_cast<uint64_t>(cost_.source), base_, sent_, received_,
                         effective_, completed_, window_first_, window_next_});
    for (const Entry& entry : entries_) {
      AppendNumbers(text, {entry.sent_bytes, entry.received_bytes, entry.sender.place,
                           entry.receiver.place});
      for (const Stamp* stamp : {&entry.send_arrival, &entry.receive_arrival,
                                 &entry.effective, &entry.receive_end})
        AppendStamp(text, *stamp);
    }
  }

  int32_t from() const { return from_; }
  int32_t to() const { return to_; }
  // Sends and receives that have arrived.
  uint64_t sent() const { return sent_; }
  uint64_t received() const { return received_; }

 private:
  struct Entry {
    uint64_t sent_bytes = 0, received_bytes = 0;
    Stamp send_arrival, receive_arrival;
    Stamp effective, receive_end;
    TransferTag sender, receiver;
    // Where links are shared:
    bool moving = false, moved = false;
    int64_t delay_ns = 0;
  };

  Entry& At(uint64_t sequence) {
    while (base_ + entries_.size() <= sequence)
      entries_.emplace_back();
    return entries_[sequence - base_];
  }

  // The send whose receive must have ended before send `effective_` goes, or none.
  // Moves the window [window_first_, effective_] along.
  std::optional<uint64_t> Gate() {
    if (window_next_ == effective_) {
      window_bytes_ += At(effective_).sent_bytes;
      ++window_next_;
      while (window_bytes_ > credit_ && window_first_ <= effective_) {
        window_bytes_ -= At(window_first_).sent_bytes;
        ++window_first_;
      }
    }
    const uint64_t first = std::min(window_first_, effective_);
    return first == 0 ? std::nullopt : std::optional<uint64_t>(first - 1);
  }

  std::optional<Mismatch> Advance(std::vector<TransferEnded>& ends) {
    while (true) {
      const bool send_moved = effective_ < sent_ && ReleaseSend(ends);
      bool completed = false;
      if (completed_ < effective_ && completed_ < received_) {
        if (auto mismatch = Complete(ends, &completed))
          return mismatch;
      }
      if (!send_moved && !completed)
        break;
    }
    // What no later send can be gated by is forgotten.
    const uint64_t needed =
        std::min(completed_, window_first_ == 0 ? 0 : window_first_ - 1);
    while (base_ < needed) {
      entries_.pop_front();
      ++base_;
    }
    return std::nullopt;
  }

  bool ReleaseSend(std::vector<TransferEnded>& ends) {
    const std::optional<uint64_t> gate = Gate();
    if (gate && *gate >= completed_)
      return false;
    Entry& entry = At(effective_);
    entry.effective = entry.send_arrival;
    if (gate)
      Step::Raise(entry.effective, At(*gate).receive_end);
    if (entry.sent_bytes <= credit_) {
      if (shared_)
        Move(entry, effective_, SendEnd(entry));
      else
        Report(entry, effective_, true, SendEnd(entry), ends);
    }
    ++effective_;
    return true;
  }

  std::optional<Mismatch> Complete(std::vector<TransferEnded>& ends, bool* completed) {
    Entry& entry = At(completed_);
    if (entry.sent_bytes != entry.received_bytes)
      return Mismatch{completed_, entry.sent_bytes, entry.received_bytes};
    const Cost cost = CostOf(entry.sent_bytes);
    const bool waits = entry.sent_bytes > credit_;  // the send, for its receiver
    Stamp send_end = Step::TransferEnd(entry.effective, entry.receive_arrival, cost);
    entry.receive_end = Step::TransferEnd(entry.receive_arrival, entry.effective, cost);
    if (shared_) {
      if (waits && !entry.moving)
        Move(entry, completed_, send_end);
      if (!entry.moved)
        return std::nullopt;
      if (waits) {
        send_end = Delayed(entry, send_end);
        entry.receive_end = Delayed(entry, entry.receive_end);
      } else {
        const int64_t arrived_ns = Delayed(entry, SendEnd(entry)).ns;
        if (arrived_ns > entry.receive_end.ns)
          Step::Spend(entry.receive_end, arrived_ns - entry.receive_end.ns,
                      Source::kModelled);
      }
    }
    Report(entry, completed_, false, entry.receive_end, ends);
    if (waits)
      Report(entry, completed_, true, send_end, ends);
    ++completed_;
    *completed = true;
    return std::nullopt;
  }

  Stamp SendEnd(const Entry& entry) {
    return Step::CommunicationEnd(entry.effective, CostOf(entry.sent_bytes));
  }
  void Move(Entry& entry, uint64_t sequence, const Stamp& end) {
    entry.moving = true;
    starts_.push_back({sequence, entry.sent_bytes, end});
  }
  static Stamp Delayed(const Entry& entry, Stamp end) {
    Step::Spend(end, entry.delay_ns, Source::kModelled);
    return end;
  }

  void Report(const Entry& entry, uint64_t sequence, bool is_send, const Stamp& end,
              std::vector<TransferEnded>& ends) const {
    const TransferTag tag = is_send ? entry.sender : entry.receiver;
    if (tag.queue != kNone) {
      ends.push_back({tag, is_send, static_cast<uint32_t>(sequence), entry.sent_bytes,
                      is_send ? entry.send_arrival : entry.receive_arrival, end});
    }
  }

  // Transfers of one channel mostly have one size.
  Cost CostOf(uint64_t bytes) {
    if (!cost_known_ || bytes != cost_bytes_) {
      cost_ = network_->Transfer(bytes, from_, to_);
      cost_bytes_ = bytes;
      cost_known_ = true;
    }
    return cost_;
  }

  const NetworkModel* network_;
  int32_t from_, to_;
  bool shared_;
  std::vector<TransferStart> starts_;
  uint64_t credit_;
  uint64_t cost_bytes_ = 0;
  bool cost_known_ = false;
  Cost cost_;

  uint64_t base_ = 0;  // sequence of entries_.front()
  std::deque<Entry> entries_;
  uint64_t sent_ = 0, received_ = 0;  // have arrived
  uint64_t effective_ = 0;            // sends whose effective time is known
  uint64_t completed_ = 0;            // receives whose end is known
  // Sends window_first_ .. window_next_-1 fit into the credit together.
  uint64_t window_first_ = 0, window_next_ = 0, window_bytes_ = 0;
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_TRANSFER_CHANNEL_H_
