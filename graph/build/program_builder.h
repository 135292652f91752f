// One rank's trace becomes its program: ops in the order of its host, with costs and
// without times.
//
// A trace says when things happened; a program says what has to happen before what, and
// what each thing costs. So times are used for three things only: the order of the
// host's timeline, the host time between two ops, and the length of work. That the ops
// come out as the virtual GPU would have written them (lanes, hidden edges, launch
// queue places) is the rule of this folder: the program built from the trace of an
// emulated run equals the one that the emulator decoded, up to the numbers of lanes,
// tokens and names.
//
//   host     A cursor stands at the end of the last op's host part. An op that does not
//            wait costs the host what lies between the cursor and its call's end; one
//            that waits, what lies before its wait, and the cursor moves to the wait's
//            end. On a real GPU the wait ends where its target did; what the call took
//            from there on is a cost of the next op. Standing at a full launch queue is
//            no cost. Of a virtual GPU, RankTrace::host_times state which part is the
//            program's own, measured or recorded; the rest is assumed. Of a real one
//            all is recorded.
//   joins    Correlation ids join work, edges and memory to calls; event_sync_id joins
//            waits to recordings (without it, CUDA before 13: to the event's last one).
//   threads  A thread that issues nothing (a watchdog) is not part of the program.
//
// Whatever cannot be joined is counted (build_losses.def) and never dropped in silence.
//
// Thread rule: pure function.

#ifndef VRANK_GRAPH_BUILD_PROGRAM_BUILDER_H_
#define VRANK_GRAPH_BUILD_PROGRAM_BUILDER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include <absl/status/statusor.h>

#include "graph/file/kernel_table.h"
#include "graph/program/program.h"
#include "graph/trace/rank_trace.h"

namespace vrank::graph {

enum class BuildLoss : uint8_t {
#define VRANK_BUILD_LOSS(id, expected, name, meaning) id,
#include "graph/build/build_losses.def"
#undef VRANK_BUILD_LOSS
};
const char* Name(BuildLoss loss);
const char* Meaning(BuildLoss loss);
// A program may do what has this loss, and its trace be as good as traces get.
bool IsExpected(BuildLoss loss);

struct BuiltProgram {
  std::unique_ptr<Program> program;  // closed
  std::map<BuildLoss, uint64_t> losses;
};

// Fails on a trace that no tracer writes: numbers of names that do not exist. A launch
// that `kernel_times` holds (nullptr: none) takes the time that it says; the host's
// timeline stays the trace's.
absl::StatusOr<BuiltProgram> BuildProgram(const RankTrace& trace,
                                          const KernelTable* kernel_times = nullptr);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_BUILD_PROGRAM_BUILDER_H_
