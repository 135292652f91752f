// The ops of the batched sweep: 16 bytes each, addressed by slots.
//
// A slot is a stamp per rank: a lane, a token that is still needed, the end of a
// communicator's last operation, or a saved end. Slot 0 is the host: its clock after
// the last wait; since then it has advanced by a sum of costs that is known in advance,
// so an op holds that sum (`issue`) and the clock itself moves at waits only.
//
// This header is all that the vector code sees: it is compiled with instructions that
// the machine may not have, so nothing with code in it may be included there.
//
// Thread rule: plain values.

#ifndef VRANK_GRAPH_SWEEP_OP_H_
#define VRANK_GRAPH_SWEEP_OP_H_

#include <cstdint>

namespace vrank::graph {

enum class SweepKind : uint8_t {
  kRun,         // slot: lane; x: how many works on it follow; y: which SweepRun
  kWork,        // slot: lane; x: lowest duration; y: width of its jitter
  kWeigh,       // slot: lane; x: what the ledger alone takes, here and on the host
  kHostFunc,    // slot: lane; x: duration
  kRecord,      // slot: lane; x: slot of the token
  kWaitToken,   // slot: lane; x: slot of the token
  kHostWait,    // slot: what the host waits for; kNoSlot: takes `issue` over
  kHostMeet,    // the same where members meet; this is not counted as waiting
  kCopy,        // slot: from; x: to
  kZero,        // slot: a lane whose number begins anew
  kObserve,     // x: place in the observations
  kQuery,       // slot: what is asked for; x: the answer in the program
  kPoll,        // slot: what is polled; x: index into SweepCode::polls
  kCollective,  // slot: lane; x: number of the meeting
  kTransfers,   // likewise
  kCreate,      // x: number of the meeting
  kAwait,  // slot: lane that takes the end, or kNoSlot; x: communicator; y: its slot
  kEnd,
};

struct SweepOp {
  static constexpr uint16_t kNoSlot = 0xffff;

  SweepKind kind = SweepKind::kEnd;
  // Ledger that a duration belongs to: 1 + its place in LedgerSet, 0: none.
  uint8_t ledger = 0;
  uint16_t slot = kNoSlot;
  // Of the host since slot 0; on lanes with the launch latency.
  uint32_t issue = 0;
  uint32_t x = 0, y = 0;
};
static_assert(sizeof(SweepOp) == 16);

// Works on one lane that follow each other.
struct SweepRun {
  // Where the host is ahead of the lane by at most this, no work waits for the host: at
  // each of them, what the works before it take at least is more than the host's costs.
  int64_t slack = 0;
  int64_t lowest = 0;  // of all of them together
};

// Where members meet in an operation of a communicator.
struct SweepMeeting {
  uint32_t communicator = 0;  // its place in the code
  uint16_t slot = 0;          // of the communicator
  // The communicator's previous operation may end after this one could begin.
  bool after_previous = false;
  // Somebody looks at the slot once the lane has taken the end.
  bool is_kept = true;
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_SWEEP_OP_H_
