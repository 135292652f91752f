// The vector code of the sweep, for a vector unit `I` (sweep_kernel_*.cc).
//
// What an op does is step.h's rule for it, written over vectors of stamps: every
// maximum keeps its first argument on a tie.
//
// Runs of work on one lane keep lane and host in registers, a few vectors at a time.

#ifndef VRANK_GRAPH_REPLAY_SWEEP_KERNEL_INL_H_
#define VRANK_GRAPH_REPLAY_SWEEP_KERNEL_INL_H_

#include "graph/replay/sweep_lanes.h"

namespace vrank::graph {

template <class I, int kLedgers, bool kJitter, bool kStore>
class SweepKernelOf {
  using V = typename I::V;

  struct S {
    V part[1 + kLedgers];
  };

 public:
  static void Run(SweepLanes& b) {
    const SweepOp* const ops = b.ops;
    const SweepOp* op = ops + b.next;
    while (true) {
      const uint32_t at = static_cast<uint32_t>(op - ops);
      switch (op->kind) {
        case SweepKind::kWork:
          op = Works(b, at);
          continue;
        case SweepKind::kHostFunc:
          for (uint32_t i = 0; i < b.width; i += I::kWidth)
            HostFunc(b, *op, at, i);
          break;
        case SweepKind::kRecord:
          for (uint32_t i = 0; i < b.width; i += I::kWidth) {
            S token = Load(b, op->slot, i);
            Raise(token, Issued(b, *op, at, i));
            Store(b, op->x, i, token);
            StoreEnd(b, at, i, token);
          }
          break;
        case SweepKind::kWaitToken:
          for (uint32_t i = 0; i < b.width; i += I::kWidth) {
            S lane = Load(b, op->slot, i);
            Raise(lane, Load(b, op->x, i));
            Store(b, op->slot, i, lane);
            StoreEnd(b, at, i, lane);
          }
          break;
        case SweepKind::kHostWait:
          for (uint32_t i = 0; i < b.width; i += I::kWidth) {
            S host = Issued(b, *op, at, i);
            if (op->slot != SweepOp::kNoSlot)
              Raise(host, Load(b, op->slot, i));
            Store(b, 0, i, host);
          }
          break;
        case SweepKind::kHostMeet:
          for (uint32_t i = 0; i < b.width; i += I::kWidth) {
            S host = Issued(b, *op, at, i);
            const V before = host.part[0];
            Raise(host, Load(b, op->slot, i));
            I::Store(b.met + i,
                     I::Add(I::Load(b.met + i), I::Subtract(host.part[0], before)));
            Store(b, 0, i, host);
          }
          break;
        case SweepKind::kCopy:
          for (uint32_t i = 0; i < b.width; i += I::kWidth)
            Store(b, op->x, i, Load(b, op->slot, i));
          break;
        case SweepKind::kZero:
          for (uint32_t i = 0; i < b.width; i += I::kWidth)
            Store(b, op->slot, i, S{});
          break;
        case SweepKind::kCreate:
        case SweepKind::kTransfers:
          Arrive(b, *op, at);
          b.next = at;
          return;
        case SweepKind::kCollective:
          if (b.columns[op->x] == nullptr) {
            Arrive(b, *op, at);
            b.next = at;
            return;
          }
          Columns(b, *op, at);
          op += IsTaken(*op, b.meetings[op->x]);
          break;
        case SweepKind::kAwait:
          if (b.decided[op->x] == 0) {
            b.next = at;
            return;
          }
          TakeEnd(b, *op, at);
          break;
        default:
          b.next = at;
          return;
      }
      ++op;
    }
  }

 private:
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

  // Step::Raise.
  static void Raise(S& a, const S& b) {
    const auto later = I::Greater(b.part[0], a.part[0]);
    for (int l = 0; l <= kLedgers; ++l)
      a.part[l] = I::Select(later, b.part[l], a.part[l]);
  }
  // `host` with what passed since.
  static S Advanced(const S& host, const SweepOp& op, const uint32_t* ledgers) {
    S s;
    s.part[0] = I::Add(host.part[0], I::Set(op.issue));
    for (int l = 0; l < kLedgers; ++l)
      s.part[1 + l] = I::Add(host.part[1 + l], I::Set(ledgers[l]));
    return s;
  }
  static const uint32_t* LedgersOf(const SweepLanes& b, uint32_t at) {
    return b.ledgers + static_cast<size_t>(at) * kLedgers;
  }
  static S Issued(const SweepLanes& b, const SweepOp& op, uint32_t at, uint32_t i) {
    return Advanced(Load(b, 0, i), op, LedgersOf(b, at));
  }
  static void Spend(S& s, const V& ns, uint8_t ledger) {
    s.part[0] = I::Add(s.part[0], ns);
    if constexpr (kLedgers > 0) {
      for (int l = 1; l <= kLedgers; ++l) {
        if (ledger == l)
          s.part[l] = I::Add(s.part[l], ns);
      }
    }
  }

  // Jitter::Bits.
  static V Bits(const uint64_t* rank_keys, uint64_t four_key) {
    V x = I::Xor(I::LoadKeys(rank_keys), I::Set(static_cast<int64_t>(four_key)));
    x = I::Multiply(I::Xor(x, I::template Right<30>(x)),
                    I::Set(static_cast<int64_t>(0xbf58476d1ce4e5b9)));
    x = I::Multiply(I::Xor(x, I::template Right<27>(x)),
                    I::Set(static_cast<int64_t>(0x94d049bb133111eb)));
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
    const V issue = I::Set(int64_t{op.issue} - v.certain), width = I::Set(op.y);
    const uint32_t* const ledgers = LedgersOf(b, at);
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

  // What jitter adds belongs to a ledger.
  template <uint32_t kVectors>
  [[gnu::always_inline]] static void SpendJitter(Lane<kVectors>& v, uint8_t ledger,
                                                 const V& width) {
    Each<kVectors>([&](uint32_t k) __attribute__((always_inline)) {
      const V extra = I::AddHigh52(I::Set(0), v.bits[k], width);
      for (int l = 1; l <= kLedgers; ++l) {
        if (ledger == l)
          v.at[k].part[l] = I::Add(v.at[k].part[l], extra);
      }
    });
  }

  template <uint32_t kVectors>
  [[gnu::always_inline]] static void Draw(const SweepLanes& b, Lane<kVectors>& v,
                                          uint64_t work, uint32_t i) {
    const uint64_t key = b.four_keys[work / 4];
    Each<kVectors>([&](uint32_t k) __attribute__((always_inline)) {
      v.bits[k] = Bits(b.rank_keys + i + k * I::kWidth, key);
    });
  }

  template <uint32_t kVectors>
  static void WorksOf(const SweepLanes& b, uint32_t begin, uint32_t end, uint32_t i) {
    const SweepOp* const ops = b.ops;
    const uint32_t lane = ops[begin].slot;
    Lane<kVectors> v;
    Each<kVectors>([&](uint32_t k) __attribute__((always_inline)) {
      v.at[k] = Load(b, lane, i + k * I::kWidth);
      v.host[k] = Load(b, 0, i + k * I::kWidth);
      if constexpr (kJitter) {
        v.busy[k] = I::Load(b.busy + i + k * I::kWidth);
        v.bits[k] = I::Set(0);
      }
    });
    uint64_t work = b.works;
    if constexpr (kJitter) {
      if (work % 4 != 0) {
        Draw(b, v, work, i);
        for (uint64_t drawn = 0; drawn < work % 4; ++drawn) {
          Each<kVectors>([&](uint32_t k) __attribute__((always_inline)) {
            v.bits[k] = I::Rotate16(v.bits[k]);
          });
        }
      }
    }
    for (uint32_t at = begin; at < end; ++at, ++work) {
      if constexpr (kJitter) {
        if (work % 4 == 0)
          Draw(b, v, work, i);
      }
      Work(b, v, ops[at], at, i);
    }
    const V certain = I::Set(v.certain);
    Each<kVectors>([&](uint32_t k) __attribute__((always_inline)) {
      v.at[k].part[0] = I::Add(v.at[k].part[0], certain);
      for (int l = 1; l <= kLedgers; ++l)
        v.at[k].part[l] = I::Add(v.at[k].part[l], I::Set(v.spent[l]));
      Store(b, lane, i + k * I::kWidth, v.at[k]);
      if constexpr (kJitter)
        I::Store(b.busy + i + k * I::kWidth, v.busy[k]);
    });
  }

  // A run of work on one lane.
  static const SweepOp* Works(SweepLanes& b, uint32_t begin) {
    constexpr uint32_t kVectors = kLedgers > 1 ? 1 : 4;
    const SweepOp* const ops = b.ops;
    uint32_t end = begin + 1;
    while (ops[end].kind == SweepKind::kWork && ops[end].slot == ops[begin].slot)
      ++end;
    uint32_t i = 0;
    for (; i + kVectors * I::kWidth <= b.width; i += kVectors * I::kWidth)
      WorksOf<kVectors>(b, begin, end, i);
    for (; i < b.width; i += I::kWidth)
      WorksOf<1>(b, begin, end, i);
    b.works += end - begin;
    return ops + end;
  }

  static void HostFunc(const SweepLanes& b, const SweepOp& op, uint32_t at,
                       uint32_t i) {
    S lane = Load(b, op.slot, i);
    Raise(lane, Issued(b, op, at, i));
    Spend(lane, I::Set(op.x), op.ledger);
    Store(b, op.slot, i, lane);
    StoreEnd(b, at, i, lane);
  }

  // When each rank comes to an operation (Step::Arrival), or its host to a meeting.
  static S Arrival(const SweepLanes& b, const SweepOp& op, uint32_t at,
                   const SweepMeeting& meeting, uint32_t i) {
    const S issued = Issued(b, op, at, i);
    if (op.slot == SweepOp::kNoSlot)
      return issued;
    S arrival = Load(b, op.slot, i);
    Raise(arrival, issued);
    if (meeting.after_previous)
      Raise(arrival, Load(b, meeting.slot, i));
    return arrival;
  }
  static void Arrive(const SweepLanes& b, const SweepOp& op, uint32_t at) {
    const SweepMeeting& meeting = b.meetings[op.x];
    for (uint32_t i = 0; i < b.width; i += I::kWidth)
      Store(b, meeting.slot, i, Arrival(b, op, at, meeting, i));
  }

  // A collective of the ranks of each column: all end with the latest arrival and the
  // cost. On a tie the first member gives the ledgers.
  static void Columns(const SweepLanes& b, const SweepOp& op, uint32_t at) {
    const SweepMeeting meeting = b.meetings[op.x];
    const uint32_t width = b.width, columns = b.column_count;
    const int64_t* const cost = b.columns[op.x];
    int64_t* const slot = b.Slot(meeting.slot, kLedgers);
    int64_t* const waited = b.waited;
    // Mostly the lane takes the end at once.
    const SweepOp& next = *(&op + 1);
    const bool taken = IsTaken(op, meeting);
    int64_t* const lane = taken ? b.Slot(next.slot, kLedgers) : slot;
    for (uint32_t column = 0; column < columns; column += I::kWidth) {
      S end = Arrival(b, op, at, meeting, column);
      I::Store(slot + column, end.part[0]);
      for (uint32_t i = column + columns; i < width; i += columns) {
        const S arrival = Arrival(b, op, at, meeting, i);
        I::Store(slot + i, arrival.part[0]);
        Raise(end, arrival);
      }
      const V latest = end.part[0];
      for (int l = 0; l <= kLedgers; ++l)
        end.part[l] = I::Add(end.part[l], I::Load(cost + l * width + column));
      for (uint32_t i = column; i < width; i += columns) {
        const V late = I::Subtract(latest, I::Load(slot + i));
        I::Store(waited + i, I::Add(I::Load(waited + i), late));
        for (int l = 0; l <= kLedgers; ++l) {
          I::Store(slot + l * width + i, end.part[l]);
          I::Store(lane + l * width + i, end.part[l]);
        }
        if (taken)
          StoreEnd(b, at + 1, i, end);
      }
    }
    b.decided[meeting.communicator] = 1;
  }
  // Does the op after a collective take its end?
  static bool IsTaken(const SweepOp& op, const SweepMeeting& meeting) {
    const SweepOp& next = *(&op + 1);
    return next.kind == SweepKind::kAwait && next.y == meeting.slot;
  }

  static void TakeEnd(const SweepLanes& b, const SweepOp& op, uint32_t at) {
    if (op.slot == SweepOp::kNoSlot)
      return;
    for (uint32_t i = 0; i < b.width; i += I::kWidth) {
      const S end = Load(b, op.y, i);
      Store(b, op.slot, i, end);
      StoreEnd(b, at, i, end);
    }
  }
};

// The kernel of a unit for a key.
template <class I, int kLedgers>
SweepKernel SweepKernelWith(const SweepKernelKey& key) {
  if (key.store_ends)
    return key.jitter ? SweepKernelOf<I, kLedgers, true, true>::Run
                      : SweepKernelOf<I, kLedgers, false, true>::Run;
  return key.jitter ? SweepKernelOf<I, kLedgers, true, false>::Run
                    : SweepKernelOf<I, kLedgers, false, false>::Run;
}
template <class I>
SweepKernel SweepKernelFor(const SweepKernelKey& key) {
  return key.ledgers == 0   ? SweepKernelWith<I, 0>(key)
         : key.ledgers == 1 ? SweepKernelWith<I, 1>(key)
                            : SweepKernelWith<I, 4>(key);
}

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_SWEEP_KERNEL_INL_H_
