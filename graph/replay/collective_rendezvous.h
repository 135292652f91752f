// One collective: who has arrived, and who ends when.
//
// A member's end depends on arrivals according to the operation:
//   all-reduce, all-gather, reduce-scatter, all-to-all   all members
//   broadcast   a chain along the ring, from the root on in index order: a member
//   depends
//               on the chain up to itself and, unless it is the last, on the next one,
//               which must have room for what it passes on
//   reduce      the same with the chain that ends in the root: the root depends on all
//   gather, scatter   the root on all, every other member on the root and itself
// So members that are known early may end, and go on, before late ones are known.
// Absent members arrive with the first present one, which no maximum over a set that
// holds a present member can show: they are left out.
// Ties between arrivals: the lower index; in a chain, the earlier place.
//
// Thread rule: one thread.

#ifndef VRANK_GRAPH_REPLAY_COLLECTIVE_RENDEZVOUS_H_
#define VRANK_GRAPH_REPLAY_COLLECTIVE_RENDEZVOUS_H_

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "graph/program/pool.h"
#include "graph/replay/network_model.h"
#include "graph/replay/stamp.h"
#include "graph/schema/op.h"

namespace vrank::graph {

template <class Step>
class CollectiveRendezvous {
 public:
  enum class Pattern : uint8_t { kAll, kChain, kHub };
  enum class Member : uint8_t { kExpected, kAbsent, kArrived, kEnded };
  using Ends = std::vector<std::pair<uint32_t, Stamp>>;  // member, end

  // `absent[i]`: member i is assumed. `first`: the member whose call this is.
  void Open(const CollectiveCall& call, uint32_t first, const Cost& cost,
            const std::vector<bool>& absent) {
    call_ = call;
    first_ = first;
    cost_ = cost;
    size_ = static_cast<uint32_t>(absent.size());
    expected_ = 0;
    members_.assign(size_, Place{});
    for (uint32_t i = 0; i < size_; ++i) {
      if (absent[i])
        members_[i].state = Member::kAbsent;
      else
        ++expected_;
    }
    arrived_ = ended_ = prefix_ = 0;
    latest_member_ = kNone;
    latest_ = Stamp{};
    pattern_ = PatternOf(call.operation);
    // A broadcast's chain begins with its root, a reduction's ends with it.
    chain_start_ = call.operation == CollectiveKind::kReduce ? (call.root + 1) % size_
                                                             : call.root % size_;
  }

  // Member `member` arrives. Members whose end is now known are appended to `ends`.
  // REQUIRES: it has not arrived before.
  void Arrive(uint32_t member, const Stamp& arrival, uint32_t tag, Ends& ends) {
    Place& place = members_[member];
    place.arrival = arrival;
    place.state = Member::kArrived;
    place.tag = tag;
    ++arrived_;
    switch (pattern_) {
      case Pattern::kAll:
        if (latest_member_ == kNone || arrival.ns > latest_.ns ||
            (arrival.ns == latest_.ns && member < latest_member_)) {
          latest_ = arrival;
          latest_member_ = member;
        }
        if (arrived_ == expected_)
          EndAll(ends);
        break;
      case Pattern::kChain:
        AdvanceChain(ends);
        break;
      case Pattern::kHub:
        AdvanceHub(member, ends);
        break;
    }
  }

  // Nobody waits for the end of this member any more, which has arrived.
  void Leave(uint32_t member) { members_[member].tag = kNone; }

  // Becomes what `from` is, with member m in the state of its member seats[m] (kNone:
  // absent), under the tag tag_of(m, its tag). Where several have one seat, members are
  // alike (live_colours.h). REQUIRES: `from` is open.
  template <class TagOf>
  void TakeOver(const CollectiveRendezvous& from, const std::vector<uint32_t>& seats,
                TagOf tag_of) {
    call_ = from.call_;
    cost_ = from.cost_;
    pattern_ = from.pattern_;
    chain_start_ = from.chain_start_;
    prefix_ = from.prefix_;
    latest_ = from.latest_;
    size_ = static_cast<uint32_t>(seats.size());
    expected_ = arrived_ = ended_ = 0;
    first_ = latest_member_ = kNone;
    members_.assign(size_, Place{});
    for (uint32_t m = 0; m < size_; ++m) {
      Place& place = members_[m];
      if (seats[m] == kNone) {
        place.state = Member::kAbsent;
        continue;
      }
      place = from.members_[seats[m]];
      place.tag = place.state == Member::kArrived ? tag_of(m, place.tag) : kNone;
      ++expected_;
      arrived_ += place.state != Member::kExpected ? 1 : 0;
      ended_ += place.state == Member::kEnded ? 1 : 0;
      if (first_ == kNone && seats[m] == from.first_)
        first_ = m;
      if (latest_member_ == kNone && seats[m] == from.latest_member_)
        latest_member_ = m;
    }
    if (first_ == kNone)
      first_ = from.first_;
  }

  // Such an operation treats all members alike.
  static bool IsSymmetric(CollectiveKind kind) {
    return PatternOf(kind) == Pattern::kAll;
  }

  const CollectiveCall& call() const { return call_; }
  uint32_t first() const { return first_; }
  bool open() const { return size_ != 0; }
  bool done() const { return size_ != 0 && ended_ == expected_; }
  void Close() { size_ = 0; }
  Member state(uint32_t member) const { return members_[member].state; }
  uint32_t tag(uint32_t member) const { return members_[member].tag; }
  const Stamp& arrival(uint32_t member) const { return members_[member].arrival; }

 private:
  struct Place {
    Stamp arrival;
    uint32_t tag = kNone;
    Member state = Member::kExpected;
  };

  static Pattern PatternOf(CollectiveKind kind) {
    switch (kind) {
      case CollectiveKind::kBroadcast:
      case CollectiveKind::kReduce:
        return Pattern::kChain;
      case CollectiveKind::kGather:
      case CollectiveKind::kScatter:
        return Pattern::kHub;
      default:
        return Pattern::kAll;
    }
  }

  void End(uint32_t member, const Stamp& latest, Ends& ends) {
    members_[member].state = Member::kEnded;
    ++ended_;
    ends.emplace_back(member, Step::CommunicationEnd(latest, cost_));
  }

  void EndAll(Ends& ends) {
    for (uint32_t i = 0; i < size_; ++i) {
      if (members_[i].state == Member::kArrived)
        End(i, latest_, ends);
    }
  }

  // The chain's places 0 .. prefix_-1 have arrived; latest_ is the maximum over them.
  void AdvanceChain(Ends& ends) {
    while (prefix_ < size_) {
      const Place& next = members_[(chain_start_ + prefix_) % size_];
      if (next.state == Member::kExpected)
        return;
      if (next.state != Member::kAbsent)
        Step::Raise(latest_, next.arrival);
      ++prefix_;
      if (prefix_ >= 2)
        EndPlace(prefix_ - 2, ends);
      if (prefix_ == size_)
        EndPlace(size_ - 1, ends);
    }
  }
  void EndPlace(uint32_t place, Ends& ends) {
    const uint32_t member = (chain_start_ + place) % size_;
    if (members_[member].state == Member::kArrived)
      End(member, latest_, ends);
  }

  void AdvanceHub(uint32_t member, Ends& ends) {
    const uint32_t root = call_.root % size_;
    const bool root_known = members_[root].state != Member::kExpected;
    if (member == root) {
      for (uint32_t i = 0; i < size_; ++i) {
        if (i != root && members_[i].state == Member::kArrived)
          EndSpoke(i, root, ends);
      }
    } else if (root_known) {
      EndSpoke(member, root, ends);
    }
    if (arrived_ == expected_ && members_[root].state == Member::kArrived) {
      Stamp latest = Stamp{};
      for (uint32_t i = 0; i < size_; ++i) {
        if (members_[i].state != Member::kAbsent)
          Step::Raise(latest, members_[i].arrival);
      }
      End(root, latest, ends);
    }
  }
  void EndSpoke(uint32_t member, uint32_t root, Ends& ends) {
    Stamp latest = members_[member].arrival;
    if (members_[root].state != Member::kAbsent) {
      latest = members_[std::min(member, root)].arrival;
      Step::Raise(latest, members_[std::max(member, root)].arrival);
    }
    End(member, latest, ends);
  }

  CollectiveCall call_;
  uint32_t first_ = 0;
  Cost cost_;
  Pattern pattern_ = Pattern::kAll;
  uint32_t size_ = 0;  // 0: not open
  uint32_t expected_ = 0, arrived_ = 0, ended_ = 0;
  uint32_t chain_start_ = 0, prefix_ = 0;
  uint32_t latest_member_ = kNone;
  Stamp latest_;
  std::vector<Place> members_;
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_COLLECTIVE_RENDEZVOUS_H_
