#include "tools/replay/what_if_trials.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <numeric>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "base/status_macros.h"

namespace vrank::tools {
namespace {

using graph::EditedNodes;
using graph::WhatIf;

// Parts of a kind in a table: families of kernels, ranks.
constexpr size_t kMostOfAKind = 12;

graph::EditableJob Editable(const PricedJob& priced, const graph::ExecutionGraph& graph,
                            const GraphReplayOptions& options) {
  return graph::EditableJob(
      &priced.job, priced.network.get(),
      [&options](const std::string& name) {
        return options.iteration_pattern.Matches(name);
      },
      AbsentRanks(graph));
}

// Tries what the rows of a table state, on several threads.
class Trials {
 public:
  Trials(const graph::EditableJob& job, std::vector<WhatIf> first)
      : job_(job), first_(std::move(first)) {}

  absl::Status Run(std::vector<WhatIfTrial>* parts, uint32_t threads,
                   const std::function<void(const std::string&)>& progress) {
    const size_t count = 2 * parts->size();
    std::atomic<size_t> next{0};
    const auto work = [&] {
      for (size_t i = next++; i < count && !failed_; i = next++) {
        Try((*parts)[i / 2], i % 2 != 0);
        if (progress) {
          const std::lock_guard<std::mutex> lock(mutex_);
          progress(fmt::format("{} of {} what-ifs", ++done_, count));
        }
      }
    };
    std::vector<std::thread> helpers;
    for (uint32_t i = 1; i < threads; ++i)
      helpers.emplace_back(work);
    work();
    for (std::thread& helper : helpers)
      helper.join();
    return status_;
  }

 private:
  void Try(WhatIfTrial& part, bool half) {
    if (half && part.edit.change != WhatIf::Change::kScale)
      return;
    std::vector<WhatIf> edits = first_;
    edits.push_back(part.edit);
    if (half)
      edits.back().factor = 0.5;
    const auto edited = job_.Edit(edits);
    auto times = edited.ok() ? job_.IterationTimes(*edited) : edited.status();
    if (!times.ok()) {
      const std::lock_guard<std::mutex> lock(mutex_);
      status_ = times.status();
      failed_ = true;
      return;
    }
    (half ? part.half_ns : part.free_ns) = *std::move(times);
    if (!half)
      part.nodes = edited->nodes.back();
  }

  const graph::EditableJob& job_;
  const std::vector<WhatIf> first_;
  std::atomic<bool> failed_{false};
  std::mutex mutex_;  // of what follows
  absl::Status status_;
  size_t done_ = 0;
};

}  // namespace

absl::StatusOr<std::vector<WhatIf>> ParseWhatIfs(
    const std::vector<std::string>& flags) {
  std::vector<WhatIf> edits;
  for (const std::string& flag : flags) {
    ASSIGN_OR_RETURN(WhatIf edit, graph::ParseWhatIf(flag));
    edits.push_back(std::move(edit));
  }
  return edits;
}

int64_t MeanOfLater(const std::vector<int64_t>& iterations) {
  if (iterations.size() < 3)
    return 0;
  return std::accumulate(iterations.begin() + 1, iterations.end(), int64_t{0}) /
         static_cast<int64_t>(iterations.size() - 1);
}

absl::StatusOr<std::vector<int64_t>> IterationTimesBefore(
    const graph::ExecutionGraph& graph, const Installation& installation,
    const GraphReplayOptions& options) {
  GraphReplayOptions before = options;
  before.what_ifs.clear();
  ASSIGN_OR_RETURN(const PricedJob priced, PriceJob(graph, installation, before));
  const graph::EditableJob job = Editable(priced, graph, before);
  ASSIGN_OR_RETURN(const graph::EditedJob same, job.Edit({}));
  return job.IterationTimes(same);
}

absl::StatusOr<WhatIfTrials> TryWhatIfs(const graph::ExecutionGraph& graph,
                                        const Installation& installation,
                                        const GraphReplayOptions& options,
                                        const WhatIfTrialOptions& trial_options) {
  WhatIfTrials trials;
  trials.edits = options.what_ifs;
  GraphReplayOptions before = options;
  before.what_ifs.clear();
  ASSIGN_OR_RETURN(const PricedJob priced, PriceJob(graph, installation, before));
  trials.cluster = priced.cluster;
  const graph::EditableJob job = Editable(priced, graph, before);
  ASSIGN_OR_RETURN(const graph::EditedJob edited, job.Edit(trials.edits));
  trials.nodes = edited.nodes;
  ASSIGN_OR_RETURN(const std::vector<int64_t> times, job.IterationTimes(edited));
  if (times.empty())
    return absl::InvalidArgumentError(
        "--what-if-table: the graph has no operations, so nothing can take less time");
  if (trial_options.iteration >= static_cast<int32_t>(times.size()))
    return absl::InvalidArgumentError(
        fmt::format("--iteration {}: the last one of all ranks is {}",
                    trial_options.iteration, times.size() - 1));
  trials.iteration = trial_options.iteration >= 0
                         ? static_cast<size_t>(trial_options.iteration)
                         : times.size() - 1;
  trials.ns = times[trials.iteration];

  for (WhatIf& edit : job.Candidates(kMostOfAKind))
    trials.rows.push_back({std::move(edit), {}, {}, {}});
  const uint32_t threads = trial_options.threads != 0
                               ? trial_options.threads
                               : std::max(1u, std::thread::hardware_concurrency());
  RETURN_IF_ERROR(
      Trials(job, trials.edits).Run(&trials.rows, threads, trial_options.progress));
  std::stable_sort(trials.rows.begin(), trials.rows.end(),
                   [&](const WhatIfTrial& a, const WhatIfTrial& b) {
                     return a.free_ns[trials.iteration] < b.free_ns[trials.iteration];
                   });
  return trials;
}

}  // namespace vrank::tools
