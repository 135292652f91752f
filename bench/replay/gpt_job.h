// A job of examples/gpt_trainer for benchmarks, from the graph that `vrank build` made,
// at another data parallel size: the same programs, and communicators over the same
// dimensions of a larger layout. What data parallel exchanges would weigh at that size
// is left as it is: it changes times, not work.

#ifndef VRANK_BENCH_REPLAY_GPT_JOB_H_
#define VRANK_BENCH_REPLAY_GPT_JOB_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "graph/models/alpha_beta_network.h"
#include "graph/replay/execution_graph.h"
#include "graph/replay/fold_job.h"

namespace vrank::graph {

class GptJob {
 public:
  // `data_dir`: where descriptions of clusters are.
  static absl::StatusOr<std::unique_ptr<GptJob>> Open(const std::string& path,
                                                      const std::string& data_dir);

  // As built.
  const ResolvedJob& resolved() const { return resolved_; }
  const NetworkModel& network() const { return *network_; }
  // With as many ranks. REQUIRES: a multiple of the ranks as built.
  ResolvedJob Scaled(int32_t ranks, const Jitter& jitter) const;
  // Every rank reads a copy of its program of its own, kept in `programs`; if not
  // `alike`, no two of them do the same.
  static ResolvedJob Separate(const ResolvedJob& job,
                              std::vector<std::unique_ptr<Program>>* programs,
                              bool alike);

 private:
  GptJob() = default;

  ExecutionGraph graph_;
  std::unique_ptr<AlphaBetaNetwork> network_;
  ResolvedJob resolved_;
};

}  // namespace vrank::graph

#endif  // VRANK_BENCH_REPLAY_GPT_JOB_H_
