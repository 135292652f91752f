// The transfers from one member of a communicator to another, matched in order.
//
// Sends draw on a credit of C bytes, which receives give back. Send i may not go before
// send j has been received, where j is the latest send before i such that sends j .. i
// exceed C (so j+1 .. i fit):
//   effective(i) = max(arrival of send i, end of receive j)
//   send i ends      bytes <= C: effective(i) + cost, without its receiver
//                    else:       max(effective(i), arrival of receive i) + cost
//   receive i ends   max(arrival of receive i, effective(i)) + cost
// Sends and receives each arrive in order, since a communicator is serialised on every
// rank; hence effective times and ends become known in order, too.
//
// Thread rule: one thread.

#ifndef VRANK_GRAPH_REPLAY_TRANSFER_CHANNEL_H_
#define VRANK_GRAPH_REPLAY_TRANSFER_CHANNEL_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "graph/replay/network_model.h"
#include "graph/replay/pool.h"
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

template <class Step>
class TransferChannel {
 public:
  TransferChannel(const NetworkModel* network, int32_t from, int32_t to)
      : network_(network),
        from_(from),
        to_(to),
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
      if (completed_ < effective_ && completed_ < received_) {
        if (auto mismatch = Complete(ends))
          return mismatch;
      } else if (!send_moved) {
        break;
      }
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
      Report(entry, effective_, true,
             Step::CommunicationEnd(entry.effective, CostOf(entry.sent_bytes)), ends);
    }
    ++effective_;
    return true;
  }

  std::optional<Mismatch> Complete(std::vector<TransferEnded>& ends) {
    Entry& entry = At(completed_);
    if (entry.sent_bytes != entry.received_bytes)
      return Mismatch{completed_, entry.sent_bytes, entry.received_bytes};
    const Cost cost = CostOf(entry.sent_bytes);
    entry.receive_end = Step::TransferEnd(entry.receive_arrival, entry.effective, cost);
    Report(entry, completed_, false, entry.receive_end, ends);
    if (entry.sent_bytes > credit_) {
      Report(entry, completed_, true,
             Step::TransferEnd(entry.effective, entry.receive_arrival, cost), ends);
    }
    ++completed_;
    return std::nullopt;
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
