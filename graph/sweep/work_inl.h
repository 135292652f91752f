// Runs of work on one lane, for a vector unit `I`: where most of a sweep's time goes.
// Lane and host stay in registers, a few vectors at a time. Where the host is so far
// ahead of all of them that no work waits for it (SweepRun::slack), which is nearly
// always, only the lane and its jitter are left.

#ifndef VRANK_GRAPH_SWEEP_WORK_INL_H_
#define VRANK_GRAPH_SWEEP_WORK_INL_H_

#include "graph/sweep/stamps_inl.h"

namespace vrank::graph {

template <class I, int kLedgers, bool kJitter, bool kStore, bool kOwn>
class SweepWorkOf {
  using Stamps = SweepStampsOf<I, kLedgers, kStore, kOwn>;
  using V = typename I::V;
  using Factor = typename I::Factor;
  using S = typename Stamps::S;

 public:
  // The run whose kRun is at `head`.
  static const SweepOp* Run(SweepLanes& b, uint32_t head) {
    const uint32_t rest = RunVectors<I::kVectors>(b, head, 0);
    RunVectors<1>(b, head, rest);
    b.works += b.ops[head].x;
    b.runs_done = b.ops[head].y + 1;
    return b.ops + head + 1 + b.ops[head].x;
  }

 private:
  static constexpr auto kFactor = static_cast<int64_t>(0x94d049bb133111eb);
  // Jitter::Bits.
  static V Bits(const uint64_t* rank_keys, const V& four_key) {
    V x = I::Xor(I::LoadKeys(rank_keys), four_key);
    x = I::Multiply(I::Xor(x, I::template Right<32>(x)), I::Set(kFactor));
    return I::Xor(x, I::template Right<32>(x));
  }
  // Jitter::FourKey of works by their number.
  static V FourKey(const V& work) {
    constexpr auto kFirstFactor = static_cast<int64_t>(0xbf58476d1ce4e5b9);
    V x = I::Xor(I::template Right<2>(work), I::Set(-1));
    x = I::Multiply(I::Xor(x, I::template Right<30>(x)), I::Set(kFirstFactor));
    x = I::Multiply(I::Xor(x, I::template Right<27>(x)), I::Set(kFactor));
    return I::Xor(x, I::template Right<31>(x));
  }

  // Vectors of a run. Lanes are kept less what the run has cost for certain, which is
  // added when it is over: a maximum does not mind.
  template <uint32_t kVectors>
  struct Lane {
    S at[kVectors], host[kVectors];
    V busy[kVectors], bits[kVectors];
    int64_t certain = 0;
    int64_t spent[1 + kLedgers] = {};  // of it, by SweepOp::ledger
  };

  // For k = 0 .. n - 1, written out: only then are the vectors of a run registers.
  template <uint32_t n, uint32_t k = 0, class Body>
  [[gnu::always_inline]] static void Each(Body body) {
    if constexpr (k < n) {
      body(k);
      Each<n, k + 1>(body);
    }
  }

  template <uint32_t kVectors>
  [[gnu::always_inline]] static void Work(const SweepLanes& b, Lane<kVectors>& v,
                                          const SweepOp& op, uint32_t at, uint32_t i) {
    const V issue = I::Set(int64_t{op.issue} - v.certain);
    const Factor width = I::FactorOf(I::Set(op.y));
    const uint32_t* const ledgers = b.ledgers + static_cast<size_t>(at) * kLedgers;
    Each<kVectors>([&](uint32_t k) __attribute__((always_inline)) {
      const V host = I::Add(v.host[k].part[0], issue);
      const auto later = I::Greater(host, v.at[k].part[0]);
      v.at[k].part[0] = I::Select(later, host, v.at[k].part[0]);
      for (int l = 1; l <= kLedgers; ++l)
        v.at[k].part[l] =
            I::AddWhere(later, v.host[k].part[l], I::Set(ledgers[l - 1] - v.spent[l]),
                        v.at[k].part[l]);
    });
    if constexpr (kJitter && kLedgers > 0) {
      if (op.ledger != 0) [[unlikely]]
        SpendJitter(v, op.ledger, width);
    }
    if constexpr (kJitter) {
      Each<kVectors>([&](uint32_t k) __attribute__((always_inline)) {
        v.at[k].part[0] = I::AddHigh52(v.at[k].part[0], v.bits[k], width);
        v.busy[k] = I::AddHigh52(v.busy[k], v.bits[k], width);
        v.bits[k] = I::Rotate16(v.bits[k]);
      });
    }
    v.certain += op.x;
    if constexpr (kLedgers > 0)
      v.spent[op.ledger] += op.x;
    if constexpr (kStore) {
      int64_t* const to = b.ends + static_cast<size_t>(b.places[at]) * b.width + i;
      const V certain = I::Set(v.certain);
      Each<kVectors>([&](uint32_t k) __attribute__((always_inline)) {
        I::Stream(to + k * I::kWidth, I::Add(v.at[k].part[0], certain));
      });
    }
  }

  // The same where each rank has its own costs: nothing is certain for all.
  template <uint32_t kVectors>
  [[gnu::always_inline]] static void OwnWork(const SweepLanes& b, Lane<kVectors>& v,
                                             const SweepOp& op, uint32_t at,
                                             uint32_t first) {
    Each<kVectors>([&](uint32_t k) __attribute__((always_inline)) {
      const uint32_t i = first + k * I::kWidth;
      const V host = I::Add(v.host[k].part[0], Stamps::Issue(b, op, at, i));
      OwnWorkFrom(b, v, k, op, at, i, host);
      if constexpr (kJitter)
        v.bits[k] = I::Rotate16(v.bits[k]);
      Stamps::StoreEnd(b, at, i, v.at[k]);
    });
  }

  // One vector of it, issued at `host`.
  template <uint32_t kVectors>
  [[gnu::always_inline]] static void OwnWorkFrom(const SweepLanes& b, Lane<kVectors>& v,
                                                 uint32_t k, const SweepOp& op,
                                                 uint32_t at, uint32_t i,
                                                 const V& host) {
    const auto later = I::Greater(host, v.at[k].part[0]);
    v.at[k].part[0] = I::Select(later, host, v.at[k].part[0]);
    for (int l = 1; l <= kLedgers; ++l)
      v.at[k].part[l] =
          I::AddWhere(later, v.host[k].part[l], Stamps::IssueLedger(b, at, l - 1, i),
                      v.at[k].part[l]);
    Stamps::Spend(v.at[k], Stamps::Lowest(b, op, at, i), op.ledger);
    if constexpr (kJitter) {
      const Factor width = I::FactorOf(I::LoadCosts(Stamps::Row(b, at, 2, i)));
      const V extra = I::AddHigh52(I::Set(0), v.bits[k], width);
      Stamps::Spend(v.at[k], extra, op.ledger);
      v.busy[k] = I::Add(v.busy[k], extra);
    }
  }

  // Where some ranks do not have some of these works: to them, a work without costs
  // that is never issued after the lane. Their works are not of one number, so each
  // draws for itself.
  template <uint32_t kVectors>
  static void SomeWorks(const SweepLanes& b, Lane<kVectors>& v, uint32_t begin,
                        uint32_t end, uint32_t first) {
    V number[kVectors];
    Each<kVectors>([&](uint32_t k) __attribute__((always_inline)) {
      number[k] = I::Load(b.own_works + first + k * I::kWidth);
    });
    for (uint32_t at = begin; at < end; ++at) {
      const SweepOp& op = b.ops[at];
      Each<kVectors>([&](uint32_t k) __attribute__((always_inline)) {
        const uint32_t i = first + k * I::kWidth;
        const V issue = Stamps::Issue(b, op, at, i);
        const auto has = I::Greater(I::Set(SweepLanes::kNoWork), issue);
        if constexpr (kJitter) {
          v.bits[k] = I::Rotate16(Bits(b.rank_keys + i, FourKey(number[k])), number[k]);
          number[k] = I::AddWhere(has, number[k], I::Set(1), number[k]);
        }
        const V host = I::Add(v.host[k].part[0], issue);
        OwnWorkFrom(b, v, k, op, at, i, I::Select(has, host, v.at[k].part[0]));
      });
    }
    Each<kVectors>([&](uint32_t k) __attribute__((always_inline)) {
      I::Store(b.own_works + first + k * I::kWidth, number[k]);
    });
  }

  // What jitter adds belongs to a ledger.
  template <uint32_t kVectors>
  [[gnu::always_inline]] static void SpendJitter(Lane<kVectors>& v, uint8_t ledger,
                                                 const Factor& width) {
    Each<kVectors>([&](uint32_t k) __attribute__((always_inline)) {
      const V extra = I::AddHigh52(I::Set(0), v.bits[k], width);
      for (int l = 1; l <= kLedgers; ++l) {
        if (ledger == l)
          v.at[k].part[l] = I::Add(v.at[k].part[l], extra);
      }
    });
  }

  template <uint32_t kVectors>
  [[gnu::always_inline]] static void Draw(const SweepLanes& b, V* bits, uint64_t work,
                                          uint32_t i) {
    const V key = I::Set(static_cast<int64_t>(b.four_keys[work / 4]));
    Each<kVectors>([&](uint32_t k) __attribute__((always_inline)) {
      bits[k] = Bits(b.rank_keys + i + k * I::kWidth, key);
    });
  }
  // Of works that began to use them before.
  template <uint32_t kVectors>
  [[gnu::always_inline]] static void LoadBits(const SweepLanes& b, V* bits,
                                              uint32_t i) {
    Each<kVectors>([&](uint32_t k) __attribute__((always_inline)) {
      bits[k] = I::Load(b.bits + i + k * I::kWidth);
    });
  }
  template <uint32_t kVectors>
  [[gnu::always_inline]] static void StoreBits(const SweepLanes& b, const V* bits,
                                               uint32_t i) {
    Each<kVectors>([&](uint32_t k) __attribute__((always_inline)) {
      I::Store(b.bits + i + k * I::kWidth, bits[k]);
    });
  }

  // All ranks from `i` on for which there are kVectors at once. Returns the next one.
  template <uint32_t kVectors>
  static uint32_t RunVectors(SweepLanes& b, uint32_t head, uint32_t i) {
    constexpr uint32_t kEach = kLedgers > 1 || kVectors < 4 ? 1 : 4;
    for (; i + kVectors * I::kWidth <= b.width; i += kVectors * I::kWidth) {
      if (!kOwn && Stamps::IsAhead(b, b.ops[head].slot, b.runs[b.ops[head].y].slack, i,
                                   i + kVectors * I::kWidth)) {
        RunAhead<kVectors>(b, head, i);
        continue;
      }
      for (uint32_t k = 0; k < kVectors; k += kEach)
        WorksOf<kEach>(b, head + 1, head + 1 + b.ops[head].x, i + k * I::kWidth);
    }
    return i;
  }

  // No work waits for the host: the lane takes what they cost, one after the other.
  template <uint32_t kVectors>
  static void RunAhead(const SweepLanes& b, uint32_t head, uint32_t i) {
    const SweepOp& run = b.ops[head];
    const uint32_t end = head + 1 + run.x;
    int64_t* const lane = b.Slot(run.slot, kLedgers) + i;
    const V lowest = I::Set(b.runs[run.y].lowest);
    V at[kVectors], bits[kVectors];
    Each<kVectors>([&](uint32_t k) __attribute__((always_inline)) {
      at[k] = I::Load(lane + k * I::kWidth);
    });
    if constexpr (kJitter || kStore) {
      uint64_t work = b.works;
      if constexpr (kJitter)
        LoadBits<kVectors>(b, bits, i);
      int64_t certain = 0;
      for (uint32_t op = head + 1; op < end; ++op, ++work) {
        if constexpr (kJitter) {
          if (work % 4 == 0)
            Draw<kVectors>(b, bits, work, i);
          const Factor width = I::FactorOf(I::Set(b.ops[op].y));
          Each<kVectors>([&](uint32_t k) __attribute__((always_inline)) {
            at[k] = I::AddHigh52(at[k], bits[k], width);
            bits[k] = I::Rotate16(bits[k]);
          });
        }
        if constexpr (kStore) {
          certain += b.ops[op].x;
          int64_t* const to = b.ends + static_cast<size_t>(b.places[op]) * b.width + i;
          Each<kVectors>([&](uint32_t k) __attribute__((always_inline)) {
            I::Stream(to + k * I::kWidth, I::Add(at[k], I::Set(certain)));
          });
        }
      }
      if constexpr (kJitter)
        StoreBits<kVectors>(b, bits, i);
    }
    Each<kVectors>([&](uint32_t k) __attribute__((always_inline)) {
      const V extra = I::Subtract(at[k], I::Load(lane + k * I::kWidth));
      I::Store(lane + k * I::kWidth, I::Add(at[k], lowest));
      if constexpr (kJitter) {
        int64_t* const busy = b.busy + i + k * I::kWidth;
        I::Store(busy, I::Add(I::Load(busy), extra));
      }
      for (int l = 1; l <= kLedgers; ++l) {
        if (run.ledger != l)
          continue;
        int64_t* const part = lane + l * b.width + k * I::kWidth;
        I::Store(part, I::Add(I::Load(part), I::Add(extra, lowest)));
      }
    });
  }

  template <uint32_t kVectors>
  static void WorksOf(const SweepLanes& b, uint32_t begin, uint32_t end, uint32_t i) {
    const uint32_t lane = b.ops[begin].slot;
    Lane<kVectors> v;
    Each<kVectors>([&](uint32_t k) __attribute__((always_inline)) {
      v.at[k] = Stamps::Load(b, lane, i + k * I::kWidth);
      v.host[k] = Stamps::Load(b, 0, i + k * I::kWidth);
      if constexpr (kJitter)
        v.busy[k] = I::Load(b.busy + i + k * I::kWidth);
    });
    if (kOwn && b.own_works != nullptr)
      SomeWorks(b, v, begin, end, i);
    else
      AllWorks(b, v, begin, end, i);
    const V certain = I::Set(v.certain);
    Each<kVectors>([&](uint32_t k) __attribute__((always_inline)) {
      v.at[k].part[0] = I::Add(v.at[k].part[0], certain);
      for (int l = 1; l <= kLedgers; ++l)
        v.at[k].part[l] = I::Add(v.at[k].part[l], I::Set(v.spent[l]));
      Stamps::Store(b, lane, i + k * I::kWidth, v.at[k]);
      if constexpr (kJitter)
        I::Store(b.busy + i + k * I::kWidth, v.busy[k]);
    });
  }

  template <uint32_t kVectors>
  [[gnu::always_inline]] static void AllWorks(const SweepLanes& b, Lane<kVectors>& v,
                                              uint32_t begin, uint32_t end,
                                              uint32_t i) {
    uint64_t work = b.works;
    if constexpr (kJitter)
      LoadBits<kVectors>(b, v.bits, i);
    for (uint32_t at = begin; at < end; ++at, ++work) {
      if constexpr (kJitter) {
        if (work % 4 == 0)
          Draw<kVectors>(b, v.bits, work, i);
      }
      if constexpr (kOwn)
        OwnWork(b, v, b.ops[at], at, i);
      else
        Work(b, v, b.ops[at], at, i);
    }
    if constexpr (kJitter)
      StoreBits<kVectors>(b, v.bits, i);
  }
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_SWEEP_WORK_INL_H_
