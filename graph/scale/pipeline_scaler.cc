#include "graph/scale/pipeline_scaler.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/status_macros.h"

namespace vrank::graph {

namespace {

// One more than shows how a schedule depends on the stage, so that it is seen twice.
constexpr int32_t kFewestStages = 5;

}  // namespace

absl::StatusOr<PipelineScaler> PipelineScaler::Make(const Resizing* resizing,
                                                    std::vector<Stage> stages) {
  if (resizing->old_size() < kFewestStages)
    return absl::FailedPreconditionError(fmt::format(
        "the graph has {} stages: how a schedule depends on the stage shows in three "
        "that are neither the first nor the last; trace the job with pp={} or more",
        resizing->old_size(), kFewestStages));
  PipelineScaler scaler(resizing, std::move(stages));
  RETURN_IF_ERROR(scaler.LearnSteps());
  return scaler;
}

const StageSchedule& PipelineScaler::LeaderOf(int32_t stage) const {
  return std::find_if(stages_.begin(), stages_.end(),
                      [&](const Stage& one) {
                        return one.leads && resizing_->OldPlace(one.rank) == stage;
                      })
      ->schedule;
}

// A stage with many behind it may have too few micro-batches left for a repeat, and one
// with few behind it nothing to warm up with: any that shows all repeats will do.
absl::Status PipelineScaler::LearnSteps() {
  absl::Status first_error;
  for (int32_t stage = 1; stage + 1 < resizing_->old_size(); ++stage) {
    absl::StatusOr<std::vector<Step>> steps = StepsFrom(stage);
    if (steps.ok()) {
      steps_ = *std::move(steps);
      return absl::OkStatus();
    }
    first_error.Update(steps.status());
  }
  return first_error;
}

absl::StatusOr<std::vector<PipelineScaler::Step>> PipelineScaler::StepsFrom(
    int32_t stage) const {
  const StageSchedule& schedule = LeaderOf(stage);
  std::vector<Step> steps;
  for (const PassageRepeat& repeat : schedule.repeats())
    steps.push_back({repeat.key, 0});
  for (int32_t other = 1; other + 1 < resizing_->old_size(); ++other) {
    if (other == stage)
      continue;
    const auto counts = schedule.CountsIn(LeaderOf(other));
    if (!counts.has_value())
      return absl::FailedPreconditionError(fmt::format(
          "stages {} and {} do not do the same passes in the same order, only more or "
          "fewer of them: how a further stage would do is not known",
          stage, other));
    const bool is_first = other == (stage == 1 ? 2 : 1);
    for (size_t i = 0; i < steps.size(); ++i) {
      const int64_t more = static_cast<int64_t>((*counts)[i]) -
                           static_cast<int64_t>(schedule.repeats()[i].count);
      if (is_first)
        steps[i].step = more / (stage - other);
      if (more != steps[i].step * (stage - other))
        return absl::FailedPreconditionError(fmt::format(
            "from stage {} to stage {} the occurrences of a pass change by {}, not by "
            "{} per stage: how a further stage would do is not known",
            stage, other, more, steps[i].step));
    }
  }
  std::erase_if(steps, [](const Step& step) { return step.step == 0; });
  return steps;
}

absl::StatusOr<std::unique_ptr<Program>> PipelineScaler::Moved(const Stage& stage,
                                                               int32_t longer,
                                                               int32_t place) const {
  std::vector<size_t> counts;
  auto step = steps_.begin();
  for (const PassageRepeat& repeat : stage.schedule.repeats()) {
    auto count = static_cast<int64_t>(repeat.count);
    if (step != steps_.end() && step->key == repeat.key)
      count += step++->step * longer;
    if (count < 0)
      return absl::FailedPreconditionError(
          fmt::format("stage {} of {} has more stages behind it than the schedule has "
                      "micro-batches "
                      "for",
                      place, resizing_->new_size()));
    counts.push_back(static_cast<size_t>(count));
  }
  if (longer != 0 && step != steps_.end())
    return absl::FailedPreconditionError(
        fmt::format("rank {} does not repeat what stages in the middle repeat: how it "
                    "would do with "
                    "another number of stages behind it is not known",
                    stage.rank));
  return stage.schedule.WithCounts(counts);
}

absl::StatusOr<std::vector<PipelineScaler::Part>> PipelineScaler::Parts() const {
  const int32_t old_last = resizing_->old_size() - 1;
  const int32_t last = resizing_->new_size() - 1;
  std::vector<Part> parts;
  for (int32_t place = 0; place <= last; ++place) {
    // In the middle: as many stages behind it, where the graph has such a stage.
    const int32_t like = place == 0      ? 0
                         : place == last ? old_last
                                         : std::max(1, old_last - (last - place));
    const int32_t longer = place == last ? 0 : (last - place) - (old_last - like);
    for (const Stage& stage : stages_) {
      if (resizing_->OldPlace(stage.rank) != like)
        continue;
      ASSIGN_OR_RETURN(std::unique_ptr<Program> program, Moved(stage, longer, place));
      parts.push_back(
          {stage.rank, resizing_->RankAt(stage.rank, place), std::move(program)});
    }
  }
  return parts;
}

}  // namespace vrank::graph
