// The host of a traced rank: gives the ops of its program their host times.
//
// Ops of one item of the trace are kept until the item's end is known. The rules:
// program_builder.h. On the virtual GPU the rows say how much host time passes, and
// TracedHostTime which part of that is the program's own: it becomes host time of its
// source, as it was in the run, ahead of what the next call costs.
//
// Thread rule: one builder. Times: nanoseconds of the trace's clock. No errors.

#ifndef VRANK_GRAPH_BUILD_HOST_TIMELINE_H_
#define VRANK_GRAPH_BUILD_HOST_TIMELINE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "graph/program/program.h"
#include "graph/schema/op.h"
#include "graph/trace/rank_trace.h"

namespace vrank::graph {

class HostTimeline {
 public:
  // The clock of a virtual GPU starts with the process, at `begin_ns` 0; a real one
  // stands anywhere. `of_program`: RankTrace::host_times, which only a virtual GPU has.
  // All outlive it.
  HostTimeline(bool virtual_gpu, int64_t begin_ns,
               std::span<const TracedHostTime> of_program, Program& program)
      : virtual_gpu_(virtual_gpu),
        program_(program),
        of_program_(virtual_gpu ? of_program : std::span<const TracedHostTime>()),
        cursor_(begin_ns),
        latest_(begin_ns) {}

  // The next op of the item at hand.
  void Append(const Op& op);
  size_t pending() const { return pending_.size(); }
  // The host reached the last op then. REQUIRES: pending() > 0.
  void SetLastAt(int64_t at_ns) { pending_.back().at = at_ns; }
  // ... and continued then, if later.
  void SetLastUntil(int64_t until_ns) { pending_.back().until = until_ns; }
  // `ns`, or when the host reached the last op, if later and known.
  int64_t NotBeforeLast(int64_t ns) const {
    return pending_.empty() ? ns : std::max(ns, pending_.back().at);
  }
  // All ops from number `first` on are one wait. `target_ns`: the end of what was
  // waited for, by the times that the trace shows.
  void SetWait(size_t first, int64_t start_ns, int64_t end_ns, int64_t target_ns);
  // Writes the pending ops; untimed ones before a timed one count up to that, the
  // others up to `end_ns`.
  void Flush(int64_t end_ns);

  // The host was seen then.
  void Reach(int64_t ns) { latest_ = std::max(latest_, ns); }
  int64_t latest_ns() const { return latest_; }
  // The end of the last written op's host part.
  int64_t cursor_ns() const { return cursor_; }

 private:
  static constexpr int64_t kUntimed = std::numeric_limits<int64_t>::min();
  struct Pending {
    Op op;
    int64_t at = kUntimed;     // when the host reached it, where the trace says so
    int64_t until = kUntimed;  // when the host continued, if later
  };

  // Appends the op, behind `host_ns` of host time.
  void Write(Op op, int64_t host_ns);

  const bool virtual_gpu_;
  Program& program_;
  std::span<const TracedHostTime> of_program_;  // that has not passed in full
  int64_t passed_ns_ = 0;                       // host time that ops have
  std::vector<Pending> pending_;
  int64_t cursor_;
  int64_t latest_;
};

// The rows for the trace of a virtual GPU's rank, from the program that the emulator
// decoded from the same run.
std::vector<TracedHostTime> HostTimesOf(const Program& emulated);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_BUILD_HOST_TIMELINE_H_
