// What the ranks of a Gloo group that are not real answer to those that are.
//
// Gloo announces every send and every receive, with its length, so nothing has to be
// known of its algorithms: what a rank sends is taken, and what it waits for is sent.
//
// Bytes of an all-gather are those of the real ranks (the mirror policy): an absent
// rank contributes what the nearest real rank before it does. Around the ring, each
// rank sends the two halves of its own part, then what it has received (pytorch/gloo,
// gloo/allgather.cc): behind m absent ranks come m times the halves that entered first,
// then all that entered. A broadcast goes down a tree, in which absent ranks pass on
// what its root sends, where that is real. Whatever else an absent rank sends is zero.
//
// Thread rule: one thread.

#ifndef VRANK_EMULATOR_STORE_GLOO_GROUP_H_
#define VRANK_EMULATOR_STORE_GLOO_GROUP_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "emulator/store/gloo_wire.h"

namespace vrank::emulator {

class GlooGroup {
 public:
  // Between an absent rank and a real one, by rank in the group.
  struct Pair {
    uint32_t absent = 0;
    uint32_t real = 0;
    friend auto operator<=>(const Pair&, const Pair&) = default;
  };
  // What goes to the real rank of each pair.
  using Replies = std::map<Pair, std::string>;

  // REQUIRES: some rank is not absent.
  GlooGroup(uint32_t size, std::set<uint32_t> absent)
      : size_(size), absent_(std::move(absent)) {}

  uint32_t size() const { return size_; }
  bool Has(Pair pair) const {
    return std::max(pair.absent, pair.real) < size_ && absent_.contains(pair.absent) &&
           !absent_.contains(pair.real);
  }
  // REQUIRES: Has(pair).
  void Handle(Pair pair, const GlooMessage& message, Replies* replies);
  // Some rank waits for bytes that have not entered yet.
  bool HasPending() const;
  // They never will: zeros instead.
  void AnswerPending(Replies* replies);

  uint64_t mirrored_bytes() const { return mirrored_bytes_; }
  // Parts among them that begin as a serialized object does.
  uint64_t copied_objects() const { return copied_objects_; }
  // Where there were zeros: by operation, and the first of each, for a person to know.
  struct Zeros {
    uint64_t bytes = 0;
    Pair first;
  };
  const std::map<std::string_view, Zeros>& zeros() const { return zeros_; }

 private:
  // What a real rank sent to the absent one behind it, in one all-gather.
  struct Entered {
    std::vector<std::string> parts;  // as many as leave again
  };
  struct Leaving {
    size_t sent = 0;
    std::deque<uint64_t> lengths;  // that the real rank waits for
  };
  struct Gathering {
    std::map<uint32_t, Entered> entered;  // by real rank
    std::map<Pair, Leaving> leaving;
  };
  // The bytes of a broadcast, once they have entered, and who waits for them.
  struct Broadcast {
    std::optional<std::string> data;
    std::vector<std::pair<Pair, uint64_t>> waiting;  // with lengths
  };
  static constexpr size_t kHalves = 2;
  // Finished ones are forgotten by and by.
  static constexpr size_t kKeptGatherings = 16;
  // Real ranks behind absent ones may come that much later than the root.
  static constexpr size_t kKeptBroadcasts = 256;
  static constexpr size_t kKeptBroadcastBytes = size_t{1} << 28;

  Gathering& GatheringOf(uint64_t slot);
  // The nearest real rank before an absent one.
  uint32_t Before(uint32_t absent) const;
  // How many absent ranks follow a real one.
  uint32_t AbsentAfter(uint32_t real) const;
  void Pass(uint64_t slot, Gathering* gathering, Replies* replies);
  Broadcast& BroadcastOf(uint64_t slot);
  void PassBroadcast(uint64_t slot, Broadcast* broadcast, Replies* replies);
  void SendZeros(Pair pair, uint64_t slot, uint64_t length, Replies* replies);

  const uint32_t size_;
  const std::set<uint32_t> absent_;
  std::map<uint64_t, Gathering> gatherings_;  // by slot
  uint64_t mirrored_bytes_ = 0;
  uint64_t copied_objects_ = 0;
  std::map<uint64_t, Broadcast> broadcasts_;  // by slot
  size_t broadcast_bytes_ = 0;
  std::map<std::string_view, Zeros> zeros_;
};

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_STORE_GLOO_GROUP_H_
