// Lanes, tokens, and what they hold while an end is unknown.
//
// In-order lanes, out-of-order completion: a lane whose end is known is just that end,
// and an op on it is executed at once. A lane whose end is unknown owns a LaneQueue:
// ops issued to it are put there with the host clock at their issue, and executed once
// the head's inputs are known. A LaneQueue outlives its lane's number (kReleaseLane).
//
// A token recorded on such a lane has a Future as its end; so has an operation of a
// communicator until it ends. A future is counted: it lives while a token, a
// communicator or a queued wait refers to it. Recording a token again gives it another
// future; queued waits keep the one they named.
//
// Thread rule: plain data of the engine.

#ifndef VRANK_GRAPH_REPLAY_LANE_H_
#define VRANK_GRAPH_REPLAY_LANE_H_

#include <cstdint>
#include <vector>

#include "graph/program/pool.h"
#include "graph/replay/stamp.h"
#include "graph/schema/op.h"

namespace vrank::graph {

// An end that somebody may wait for and that is not known yet.
struct Future {
  // Once known: the end. Before, for an operation of a communicator without `previous`:
  // the end of the communicator's previous operation on this rank.
  Stamp end;
  int64_t lower_bound = 0;  // the end is not before this
  uint32_t references = 0;
  uint32_t waiters = kNone;   // list of Waiter
  uint32_t previous = kNone;  // operation of a communicator: the one before it
  uint32_t queue = kNone;     // the LaneQueue whose progress will make it known
  bool known = false;
};

// What happens when a future becomes known.
struct Waiter {
  enum class Kind : uint8_t { kQueue, kHost, kQueryCheck, kHelper, kNobody };
  Kind kind = Kind::kQueue;
  uint32_t target = 0;  // LaneQueue or rank
  uint32_t next = kNone;
  uint32_t answer = 0;  // kQueryCheck: what the program was told at `host_ns`
  int64_t host_ns = 0;  // kHelper: the host clock when it asked
  uint64_t op = 0;      // kHelper: its question, an index in the program
};

// An op that waits in a lane. 64 bytes: a cache line.
struct QueuedOp {
  Stamp host;  // at issue; kWaitToken without future: the token's end
  // Work: scaled duration; token: generation; communication: see set_communication.
  int64_t value = 0;
  // ... of a host function that has not returned.
  static constexpr int64_t kRuns = -1;
  uint32_t a = 0;  // work: Op::b
  uint32_t b = 0;
  uint32_t future = kNone;
  OpKind kind = OpKind::kHost;
  Source source = Source::kModelled;
  uint16_t launch_place = kNoLaunch;

  static constexpr uint16_t kNoLaunch = 0xffff;

  // Callbacks and questions of helpers name no token: index in the program instead.
  uint64_t op() const { return uint64_t{b} << 32 | a; }
  void set_op(uint64_t op) {
    a = static_cast<uint32_t>(op);
    b = static_cast<uint32_t>(op >> 32);
  }

  // A collective's sequence, or what to add to the peers of a group of transfers.
  uint32_t number() const { return static_cast<uint32_t>(value); }
  void set_communication(uint32_t number, uint64_t op) {
    value = static_cast<int64_t>(op << 32 | number);
  }

  // The low half of the op's index in the program, where it leaves something on a lane.
  uint32_t place() const {
    if (kind == OpKind::kHostFunc)
      return a;
    const bool communicates = kind == OpKind::kCollective || kind == OpKind::kTransfers;
    return communicates ? static_cast<uint32_t>(static_cast<uint64_t>(value) >> 32) : b;
  }
};
static_assert(sizeof(QueuedOp) == 64);

struct LaneQueue {
  // The state of an operation of a communicator at the head.
  enum class Meeting : uint8_t { kNotArrived, kArrived, kEnded };

  uint32_t rank = 0;
  uint32_t lane = 0;
  bool detached = false;    // the lane's number has been released
  bool host_waits = false;  // the rank's host waits until this is empty
  bool started = false;     // the head is a host function that runs
  Stamp end;                // of what has been executed
  int64_t lower_bound = 0;  // of the end of what is queued
  std::vector<QueuedOp> ops;
  size_t head = 0;

  Meeting meeting = Meeting::kNotArrived;
  uint32_t transfers_left = 0;  // of the group at the head
  uint32_t latest_transfer = 0;
  Stamp arrival;
  Stamp meeting_end;

  bool empty() const { return head == ops.size(); }
  void Push(const QueuedOp& op) {
    // A full vector whose front half has been executed makes room instead of growing.
    if (ops.size() == ops.capacity() && head > ops.size() / 2) {
      ops.erase(ops.begin(), ops.begin() + static_cast<std::ptrdiff_t>(head));
      head = 0;
    }
    ops.push_back(op);
  }
};

struct Lane {
  Stamp end;
  uint32_t queue = kNone;  // then `end` is stale
};

struct Token {
  Stamp end;
  uint32_t future = kNone;  // then `end` is stale
  uint32_t generation = 0;  // recordings so far
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_LANE_H_
