// What a run beside a graph lacks where the graph is of another program, or of other
// costs, than the run.
//
// Thread rule: reads files, keeps no state.

#ifndef VRANK_TOOLS_REPLAY_GRAPH_LOSSES_H_
#define VRANK_TOOLS_REPLAY_GRAPH_LOSSES_H_

#include <span>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "emulator/world/cast.h"
#include "graph/program/execution_graph.h"
#include "tools/job/job_flags.h"
#include "tools/job/run_losses.h"
#include "tools/replay/graph_cast.h"

namespace vrank::tools {

// Whether `command` runs what the graph was recorded from: the same command line (but
// for folders and what starts the program) and the same bytes of the files that it
// names (program_fingerprint.h). True where the graph does not state either.
absl::StatusOr<bool> IsProgramOf(const graph::ExecutionGraph& graph,
                                 const std::vector<std::string>& command);

// Traced ranks that follow a real one although they do something else, one row each:
// beside a graph of another program their own traces are not played.
std::vector<LossRow> MisfitLosses(const GraphCast& graph_cast,
                                  std::span<const emulator::VirtualRank> cast);

// A change of the program shows only in the ranks that are real or follow one; those
// that play a recorded program keep to the old one. Where the graph was recorded with
// another command line or from another version of it (program_fingerprint.h), one row
// each, with the ranks that play; none where nobody does, or where the graph does not
// say. The program's folder does not count, nor what starts it, such as a debugger.
absl::StatusOr<std::vector<LossRow>> OutdatedGraphLosses(
    const graph::ExecutionGraph& graph, std::span<const emulator::VirtualRank> cast,
    const std::vector<std::string>& command);

// What to put before the error of a run beside the graph (`path`) that failed, where
// the program of `command` is not the one that the graph was recorded from: both, as
// the likely cause. Empty: they are the same.
std::string WhyAGraphMayNotFit(const graph::ExecutionGraph& graph,
                               const std::string& path,
                               const std::vector<std::string>& command);

// As OutdatedGraphLosses, where the real ranks' work costs something else than what was
// traced: other
// --kernels, --kernel-times or --host-cost than `flags` has.
absl::StatusOr<std::vector<LossRow>> OtherCostLosses(
    const graph::ExecutionGraph& graph, std::span<const emulator::VirtualRank> cast,
    const JobFlags& flags);

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_REPLAY_GRAPH_LOSSES_H_
