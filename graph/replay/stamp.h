// A time and how it came about.
//
// The ledger of a result (which share of it was modelled, assumed, recorded, measured)
// must follow the critical path, and storing the path would need memory in proportion
// to the run. So every time carries the sums of its own critical path: a maximum takes
// the later stamp whole (the first one on a tie), a cost adds to its source.
//
// Thread rule: plain values.

#ifndef VRANK_GRAPH_REPLAY_STAMP_H_
#define VRANK_GRAPH_REPLAY_STAMP_H_

#include <cstdint>

namespace vrank::graph {

struct Stamp {
  int64_t ns = 0;  // the time itself; what no other member counts is modelled
  // On lanes and in communication: kernels, copies, transfers. With what assumed work
  // weighs beyond its time (Step::Launched), so that it may exceed `ns`.
  int64_t assumed = 0;
  int64_t recorded = 0;
  int64_t measured = 0;
  int64_t assumed_host = 0;  // on the host: calls, launch latency, communicators made
  friend bool operator==(const Stamp&, const Stamp&) = default;
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_STAMP_H_
