// What can proceed: lane queues whose head has become executable, and ranks whose host
// can continue.
//
// Both are stacks. Executing an entry may push others; nothing is called recursively,
// so no chain of dependencies is too long for the program stack.
//
// Parking. A rank whose lane has become pending could continue by queueing, but
// queueing costs more than executing at once. It is parked instead while others can
// proceed, since these may make its lane known; it continues by queueing once nothing
// else can proceed.
//
// Thread rule: one thread.

#ifndef VRANK_GRAPH_REPLAY_WORKLIST_H_
#define VRANK_GRAPH_REPLAY_WORKLIST_H_

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "graph/replay/rank_table.h"

namespace vrank::graph {

class Worklist {
 public:
  // `shuffle_seed`: as in EngineOptions.
  Worklist(RankTable& ranks, uint64_t shuffle_seed)
      : ranks_(ranks), shuffle_(shuffle_seed) {}

  bool has_queues() const { return !queues_.empty(); }
  bool has_ranks() const { return !runnable_.empty(); }
  bool empty() const { return queues_.empty() && runnable_.empty(); }

  void AddQueue(uint32_t queue) { queues_.push_back(queue); }
  void AddRank(uint32_t rank) { runnable_.push_back(rank); }
  // What the host of the rank waited for is there.
  void Wake(RankState& r) {
    r.blocked = Blocked::kNo;
    AddRank(r.index);
  }
  uint32_t PopQueue() { return Pop(queues_); }
  uint32_t PopRank() { return Pop(runnable_); }

  // REQUIRES: r.parked.
  void Park(RankState& r) {
    if (!std::exchange(r.listed_as_parked, true))
      parked_.push_back(r.index);
  }
  // The lane of a rank has become known.
  void UnparkRank(RankState& r) {
    if (std::exchange(r.parked, false))
      AddRank(r.index);
  }
  // One parked rank continues by queueing. False: none is parked.
  bool Unpark() {
    while (!parked_.empty()) {
      RankState& r = ranks_[Pop(parked_)];
      r.listed_as_parked = false;
      if (!r.parked)
        continue;
      UnparkRank(r);
      return true;
    }
    return false;
  }

  // How many ops a rank executes before others may. A shuffled run stops at random ops.
  uint64_t Quantum() {
    return shuffle_ == 0 ? std::numeric_limits<uint64_t>::max() : 1 + Random() % 16;
  }

  // Adds for every entry what add_queues(queue, add) and add_ranks(rank, add) pass to
  // `add`.
  template <class AddQueues, class AddRanks>
  void Multiply(AddQueues add_queues, AddRanks add_ranks) {
    Multiply(queues_, add_queues);
    Multiply(runnable_, add_ranks);
    Multiply(parked_, add_ranks);
  }

 private:
  uint32_t Pop(std::vector<uint32_t>& stack) {
    if (shuffle_ != 0)
      std::swap(stack[Random() % stack.size()], stack.back());
    const uint32_t top = stack.back();
    stack.pop_back();
    return top;
  }
  uint64_t Random() {
    // xorshift64 (Marsaglia 2003): the order of evaluation needs no better one.
    shuffle_ ^= shuffle_ << 13;
    shuffle_ ^= shuffle_ >> 7;
    shuffle_ ^= shuffle_ << 17;
    return shuffle_;
  }
  template <class AddCopies>
  static void Multiply(std::vector<uint32_t>& stack, AddCopies add_copies) {
    const std::vector<uint32_t> before = stack;
    for (const uint32_t entry : before)
      add_copies(entry, [&stack](uint32_t copy) { stack.push_back(copy); });
  }

  RankTable& ranks_;
  std::vector<uint32_t> queues_;
  std::vector<uint32_t> runnable_;
  std::vector<uint32_t> parked_;  // some may have continued meanwhile (!parked)
  uint64_t shuffle_;              // state of the generator; 0: off
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_WORKLIST_H_
