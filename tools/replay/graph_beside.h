// An execution graph that a run has beside it: what it states of the job, what it
// plays, and what the result then lacks (`vrank emulate --graph`).
//
// Thread rule: one thread.

#ifndef VRANK_TOOLS_REPLAY_GRAPH_BESIDE_H_
#define VRANK_TOOLS_REPLAY_GRAPH_BESIDE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "graph/program/execution_graph.h"
#include "tools/job/job.h"
#include "tools/job/job_flags.h"
#include "tools/job/run_losses.h"
#include "tools/replay/graph_cast.h"

namespace vrank::tools {

class GraphBeside {
 public:
  // Opens `path`. What the flags leave open is the graph's: world size, layout,
  // cluster, ranks per node, which ranges are iterations. World size and layout that
  // contradict it are an error; of the others the flags hold, which Losses() tells.
  static absl::StatusOr<std::unique_ptr<GraphBeside>> Open(
      const std::string& path, const std::vector<std::string>& command,
      int32_t* world_size, JobFlags* flags);

  // The graph is of another GPU than the job.
  absl::Status CheckGpu(const Job& job) const;

  // Which ranks follow real ones and which play the graph, and its hints.
  absl::Status Cast(RunOptions* options) const;

  // What to put before the error of a run that failed: that the graph is of another
  // program. Empty: it is not.
  std::string LikelyCause() const;

  // What the run lacks since ranks played a graph of another program or of other costs.
  absl::StatusOr<std::vector<LossRow>> Losses(const Run& run,
                                              const JobFlags& flags) const;

 private:
  GraphBeside() = default;

  // Real ranks that did not do, to the op, what the graph has of them. REQUIRES: equal
  // costs and virtual GPUs, or times differ.
  std::vector<LossRow> OtherProgramLosses(const Run& run) const;

  std::string path_;
  std::vector<std::string> command_;
  graph::ExecutionGraph graph_;
  std::optional<GraphCast> cast_;  // of graph_
  bool same_program_ = false;      // that of command_ and the recorded one
};

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_REPLAY_GRAPH_BESIDE_H_
