// A program as the batched sweep executes it: 16 bytes per op, addressed by slots.
//
// All ranks of a class run one code in lock step (sweep.h). What does not depend on
// times is done here, once: memory, names, tokens that nobody waits for, which lane
// waits for which operation, and the launch queue (launches.h).
//
// Thread rule: plain values.

#ifndef VRANK_GRAPH_SWEEP_CODE_H_
#define VRANK_GRAPH_SWEEP_CODE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "graph/replay/engine.h"
#include "graph/sweep/ledgers.h"
#include "graph/sweep/op.h"

namespace vrank::graph {

struct SweepCode {
  struct Communicator {
    uint32_t number = 0;  // the program's own
    uint16_t slot = 0;    // arrival while an operation is pending, then its end
    // Ends of the transfers of the group that is pending, by place in the group.
    uint32_t transfer_slot = 0, transfer_slots = 0;
  };
  // What ops that meet in the same way have in common.
  struct Meeting {
    OpKind kind = OpKind::kCollective;  // or kTransfers, kCreateCommunicator
    uint32_t communicator = 0;          // place in `communicators`
    uint32_t details = 0;               // Op::b
    uint32_t times = 1;                 // ops
  };
  struct Poll {
    int64_t cycle = 0;
    Source source = Source::kModelled;
  };

  const Program* program = nullptr;
  std::vector<SweepOp> ops;
  std::vector<uint32_t> ledgers;  // of `issue`, LedgerSet::count() for each op
  std::vector<uint32_t> places;   // of each op in the program; only to store ends
  std::vector<Communicator> communicators;
  std::vector<Meeting> meetings;
  std::vector<SweepMeeting> meeting_slots;  // of the same
  std::vector<SweepRun> runs;
  std::vector<Poll> polls;
  std::vector<uint32_t> observations;  // ranges, by index in the program
  uint32_t slots = 0;
  uint64_t works = 0;
  // What is the same for all ranks.
  RankResult fixed;     // memory, ops
  int64_t host_ns = 0;  // costs of all ops
  int64_t busy_ns = 0;  // work without jitter, and callbacks
};

struct SweepCodeOptions {
  EngineOptions engine;
  int64_t work_numerator = 1, work_denominator = 1;
  Jitter jitter;
  LedgerSet ledgers;
  bool store_ends = false;
  std::function<bool(const std::string&)> observe;  // ranges by name; empty: none
};

// Unimplemented: the sweep cannot do this; the incremental engine can.
absl::StatusOr<SweepCode> CompileSweep(const Program& program,
                                       const SweepCodeOptions& options);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_SWEEP_CODE_H_
