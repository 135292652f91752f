// Stamps of several ranks at once, for a vector unit `I`: loading, storing, maxima.
//
// Ranks of a block have either the costs of its ops in common, or rows of their own
// (SweepLanes::own): `kOwn`.

#ifndef VRANK_GRAPH_SWEEP_STAMPS_INL_H_
#define VRANK_GRAPH_SWEEP_STAMPS_INL_H_

#include "graph/sweep/lanes.h"

namespace vrank::graph {

template <class I, int kLedgers, bool kStore, bool kOwn>
struct SweepStampsOf {
  using V = typename I::V;

  struct S {
    V part[1 + kLedgers];
  };

  static S Load(const SweepLanes& b, uint32_t slot, uint32_t i) {
    const int64_t* from = b.Slot(slot, kLedgers) + i;
    S s;
    for (int l = 0; l <= kLedgers; ++l)
      s.part[l] = I::Load(from + l * b.width);
    return s;
  }
  static void Store(const SweepLanes& b, uint32_t slot, uint32_t i, const S& s) {
    int64_t* to = b.Slot(slot, kLedgers) + i;
    for (int l = 0; l <= kLedgers; ++l)
      I::Store(to + l * b.width, s.part[l]);
  }
  static void StoreEnd(const SweepLanes& b, uint32_t at, uint32_t i, const S& s) {
    if constexpr (kStore)
      I::Stream(b.ends + static_cast<size_t>(b.places[at]) * b.width + i, s.part[0]);
  }

  // Is every host in [begin, end) ahead of the lane in `slot` by at most `slack`?
  static bool IsAhead(const SweepLanes& b, uint32_t slot, int64_t slack, uint32_t begin,
                      uint32_t end) {
    const V most = I::Set(slack);
    const int64_t* const lane = b.Slot(slot, kLedgers);
    const int64_t* const host = b.Slot(0, kLedgers);
    auto late = I::Greater(I::Load(host + begin), I::Add(I::Load(lane + begin), most));
    for (uint32_t i = begin + I::kWidth; i < end; i += I::kWidth) {
      late =
          I::Or(late, I::Greater(I::Load(host + i), I::Add(I::Load(lane + i), most)));
    }
    return I::None(late);
  }

  // Step::Raise.
  static void Raise(S& a, const S& b) {
    const auto later = I::Greater(b.part[0], a.part[0]);
    for (int l = 0; l <= kLedgers; ++l)
      a.part[l] = I::Select(later, b.part[l], a.part[l]);
  }
  // Costs of the op at `at`: of the host up to it, of the work, and their ledgers.
  static const uint32_t* Row(const SweepLanes& b, uint32_t at, uint32_t row,
                             uint32_t i) {
    return b.own +
           (static_cast<size_t>(at) * (SweepLanes::kOwnCosts + kLedgers) + row) *
               b.width +
           i;
  }
  static V Issue(const SweepLanes& b, const SweepOp& op, uint32_t at, uint32_t i) {
    if constexpr (kOwn)
      return I::LoadCosts(Row(b, at, 0, i));
    else
      return I::Set(op.issue);
  }
  static V Lowest(const SweepLanes& b, const SweepOp& op, uint32_t at, uint32_t i) {
    if constexpr (kOwn)
      return I::LoadCosts(Row(b, at, 1, i));
    else
      return I::Set(op.x);
  }
  // `l`: 0 .. kLedgers - 1.
  static V IssueLedger(const SweepLanes& b, uint32_t at, int l, uint32_t i) {
    if constexpr (kOwn)
      return I::LoadCosts(
          Row(b, at, SweepLanes::kOwnCosts + static_cast<uint32_t>(l), i));
    else
      return I::Set(b.ledgers[static_cast<size_t>(at) * kLedgers + l]);
  }
  // The host with what passed since.
  static S Issued(const SweepLanes& b, const SweepOp& op, uint32_t at, uint32_t i) {
    S s = Load(b, 0, i);
    s.part[0] = I::Add(s.part[0], Issue(b, op, at, i));
    for (int l = 0; l < kLedgers; ++l)
      s.part[1 + l] = I::Add(s.part[1 + l], IssueLedger(b, at, l, i));
    return s;
  }
  static void Spend(S& s, const V& ns, uint8_t ledger) {
    s.part[0] = I::Add(s.part[0], ns);
    Weigh(s, ns, ledger);
  }
  // In the ledger alone.
  static void Weigh(S& s, const V& ns, uint8_t ledger) {
    if constexpr (kLedgers > 0) {
      for (int l = 1; l <= kLedgers; ++l) {
        if (ledger == l)
          s.part[l] = I::Add(s.part[l], ns);
      }
    }
  }
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_SWEEP_STAMPS_INL_H_
