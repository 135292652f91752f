// What the stages of a longer or shorter pipeline do.
//
// A middle stage of a schedule does the same passages as another one, some of them more
// often: in 1F1B one with more stages behind it warms up longer. How often, by how many
// stages are behind it, is read off the middle stages of the graph, and has to be the
// same from each of them to the next. The first stage's repeats go by the steps of
// those that exchange the same with the stages behind; the last one's schedule does not
// depend on how many come before it.
//
// Thread rule: one thread.

#ifndef VRANK_GRAPH_SCALE_PIPELINE_SCALER_H_
#define VRANK_GRAPH_SCALE_PIPELINE_SCALER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include <absl/status/statusor.h>

#include "graph/scale/resizing.h"
#include "graph/scale/stage_schedule.h"

namespace vrank::graph {

class PipelineScaler {
 public:
  // A traced rank of the graph.
  struct Stage {
    int32_t rank = 0;
    bool leads = false;  // others of its stage follow it
    StageSchedule schedule;
  };

  // `resizing` outlives it. Errors: fewer than four stages, or schedules that differ
  // between stages in another way.
  static absl::StatusOr<PipelineScaler> Make(const Resizing* resizing,
                                             std::vector<Stage> stages);

  struct Part {
    int32_t rank = 0, becomes = 0;
    std::unique_ptr<Program> program;  // in terms of `rank`
  };
  // Every traced rank of the longer or shorter pipeline. Errors: more stages than the
  // schedule has micro-batches for.
  absl::StatusOr<std::vector<Part>> Parts() const;

 private:
  // A repeat that occurs `step` times more often with one more stage behind.
  struct Step {
    uint64_t key = 0;  // PassageRepeat
    int64_t step = 0;
  };

  PipelineScaler(const Resizing* resizing, std::vector<Stage> stages)
      : resizing_(resizing), stages_(std::move(stages)) {}
  absl::Status LearnSteps();
  // The same, read off how often the repeats of `stage` occur in the others.
  absl::StatusOr<std::vector<Step>> StepsFrom(int32_t stage) const;
  const StageSchedule& LeaderOf(int32_t stage) const;
  // `stage` as it would be at `place`, with `longer` more stages behind it.
  absl::StatusOr<std::unique_ptr<Program>> Moved(const Stage& stage, int32_t longer,
                                                 int32_t place) const;

  const Resizing* resizing_;
  std::vector<Stage> stages_;
  std::vector<Step> steps_;  // other than 0, in order
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_SCALE_PIPELINE_SCALER_H_
