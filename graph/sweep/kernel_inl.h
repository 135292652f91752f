// The vector code of the sweep, for a vector unit `I` (sweep_kernel_*.cc).
//
// What an op does is step.h's rule for it, written over vectors of stamps: every
// maximum keeps its first argument on a tie.

#ifndef VRANK_GRAPH_SWEEP_KERNEL_INL_H_
#define VRANK_GRAPH_SWEEP_KERNEL_INL_H_

#include "graph/sweep/stamps_inl.h"
#include "graph/sweep/work_inl.h"

namespace vrank::graph {

template <class I, int kLedgers, bool kJitter, bool kStore, bool kOwn>
class SweepKernelOf : SweepStampsOf<I, kLedgers, kStore, kOwn> {
  using Stamps = SweepStampsOf<I, kLedgers, kStore, kOwn>;
  using V = typename I::V;
  using S = typename Stamps::S;
  using Stamps::Issued;
  using Stamps::Load;
  using Stamps::Raise;
  using Stamps::Store;
  using Stamps::StoreEnd;

 public:
  static void Run(SweepLanes& b) {
    const typename I::Rounding rounding;
    Advance(b);
  }

 private:
  // A function of its own, so that nothing in it moves out of `rounding`.
  [[gnu::noinline]] static void Advance(SweepLanes& b) {
    const SweepOp* const ops = b.ops;
    const SweepOp* op = ops + b.next;
    while (true) {
      const uint32_t at = static_cast<uint32_t>(op - ops);
      switch (op->kind) {
        case SweepKind::kRun:
          op = SweepWorkOf<I, kLedgers, kJitter, kStore, kOwn>::Run(b, at);
          continue;
        case SweepKind::kHostFunc:
          for (uint32_t i = 0; i < b.width; i += I::kWidth)
            HostFunc(b, *op, at, i);
          break;
        case SweepKind::kWeigh:
          for (uint32_t i = 0; i < b.width; i += I::kWidth) {
            Weigh(b, *op, at, op->slot, i);
            Weigh(b, *op, at, 0, i);
          }
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

  static void HostFunc(const SweepLanes& b, const SweepOp& op, uint32_t at,
                       uint32_t i) {
    S lane = Load(b, op.slot, i);
    Raise(lane, Issued(b, op, at, i));
    Stamps::Spend(lane, Stamps::Lowest(b, op, at, i), op.ledger);
    Store(b, op.slot, i, lane);
    StoreEnd(b, at, i, lane);
  }

  static void Weigh(const SweepLanes& b, const SweepOp& op, uint32_t at, uint32_t slot,
                    uint32_t i) {
    S stamp = Load(b, slot, i);
    Stamps::Weigh(stamp, Stamps::Lowest(b, op, at, i), op.ledger);
    Store(b, slot, i, stamp);
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
    // Mostly the lane takes the end at once.
    const SweepOp& next = *(&op + 1);
    const bool taken = IsTaken(op, meeting);
    int64_t* const lane = taken ? b.Slot(next.slot, kLedgers) : slot;
    b.decided[meeting.communicator] = 1;
    if (!kOwn && taken && !meeting.after_previous && !meeting.is_kept &&
        Stamps::IsAhead(b, op.slot, -int64_t{op.issue}, 0, width)) {
      for (uint32_t column = 0; column < columns; column += I::kWidth)
        ColumnAhead(b, lane, cost, at, column);
      return;
    }
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
        I::Store(b.waited + i, I::Add(I::Load(b.waited + i), late));
        for (int l = 0; l <= kLedgers; ++l) {
          I::Store(slot + l * width + i, end.part[l]);
          I::Store(lane + l * width + i, end.part[l]);
        }
        if (taken)
          StoreEnd(b, at + 1, i, end);
      }
    }
  }
  // Where everybody's lane comes after its host.
  static void ColumnAhead(const SweepLanes& b, int64_t* lane, const int64_t* cost,
                          uint32_t at, uint32_t column) {
    const uint32_t width = b.width, columns = b.column_count;
    const auto load = [&](uint32_t i) {
      S arrival;
      for (int l = 0; l <= kLedgers; ++l)
        arrival.part[l] = I::Load(lane + l * width + i);
      return arrival;
    };
    // Of both halves at once: a maximum waits for the one before it.
    const uint32_t half = width / columns / 2 * columns;
    S end = load(column);
    if (half != 0) {
      S other = load(column + half);
      uint32_t i = column + columns;
      for (; i < half; i += columns) {
        Raise(end, load(i));
        Raise(other, load(i + half));
      }
      for (i += half; i < width; i += columns)
        Raise(other, load(i));
      Raise(end, other);
    }
    const V latest = end.part[0];
    for (int l = 0; l <= kLedgers; ++l)
      end.part[l] = I::Add(end.part[l], I::Load(cost + l * width + column));
    int64_t* const waited = b.waited;
    for (uint32_t i = column; i < width; i += columns) {
      const V late = I::Subtract(latest, I::Load(lane + i));
      I::Store(waited + i, I::Add(I::Load(waited + i), late));
      for (int l = 0; l <= kLedgers; ++l)
        I::Store(lane + l * width + i, end.part[l]);
      StoreEnd(b, at + 1, i, end);
    }
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
template <class I, int kLedgers, bool kOwn>
SweepKernel SweepKernelWith(const SweepKernelKey& key) {
  if (key.store_ends)
    return key.jitter ? SweepKernelOf<I, kLedgers, true, true, kOwn>::Run
                      : SweepKernelOf<I, kLedgers, false, true, kOwn>::Run;
  return key.jitter ? SweepKernelOf<I, kLedgers, true, false, kOwn>::Run
                    : SweepKernelOf<I, kLedgers, false, false, kOwn>::Run;
}
template <class I, bool kOwn>
SweepKernel SweepKernelBy(const SweepKernelKey& key) {
  return key.ledgers == 0   ? SweepKernelWith<I, 0, kOwn>(key)
         : key.ledgers == 1 ? SweepKernelWith<I, 1, kOwn>(key)
                            : SweepKernelWith<I, 4, kOwn>(key);
}
template <class I>
SweepKernel SweepKernelFor(const SweepKernelKey& key) {
  return key.own_costs ? SweepKernelBy<I, true>(key) : SweepKernelBy<I, false>(key);
}

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_SWEEP_KERNEL_INL_H_
