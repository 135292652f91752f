// A job of examples/gpt_trainer for benchmarks, from the graph that `vrank build` made,
// as it is or scaled to another number of replicas (graph/scale).

#ifndef VRANK_BENCH_REPLAY_GPT_JOB_H_
#define VRANK_BENCH_REPLAY_GPT_JOB_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "graph/fold/job.h"
#include "graph/models/alpha_beta_network.h"
#include "graph/program/execution_graph.h"

namespace vrank::graph {

class GptJob {
 public:
  // `data_dir`: where descriptions of clusters are.
  static absl::StatusOr<std::unique_ptr<GptJob>> Open(const std::string& path,
                                                      const std::string& data_dir);

  // As built.
  const ResolvedJob& resolved() const { return resolved_; }
  const NetworkModel& network() const { return *network_; }
  // With as many ranks, whose programs live as long as this object; a graph that cannot
  // be scaled ends the program. REQUIRES: a multiple of the ranks as built.
  ResolvedJob Scaled(int32_t ranks, const Jitter& jitter);
  // How programs of ranks of a class differ.
  enum class Differ {
    kNot,
    kInCosts,  // of every work
    kInWorks,  // one in a thousand is two, in other places for each rank
  };
  // Every rank reads a copy of its program of its own, kept in `programs`.
  static ResolvedJob Separate(const ResolvedJob& job, Differ differ,
                              std::vector<std::unique_ptr<Program>>* programs);

 private:
  struct Size {
    ExecutionGraph graph;
    ResolvedJob job;
  };
  GptJob() = default;
  absl::StatusOr<Size> MakeSize(int32_t ranks) const;

  ExecutionGraph graph_;
  std::unique_ptr<AlphaBetaNetwork> network_;
  ResolvedJob resolved_;
  std::map<int32_t, Size> sizes_;  // by ranks
};

}  // namespace vrank::graph

#endif  // VRANK_BENCH_REPLAY_GPT_JOB_H_
