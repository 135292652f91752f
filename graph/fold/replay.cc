// See replay.h.

#include "graph/fold/replay.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace vrank::graph {

FoldedReplay::FoldedReplay(const ResolvedJob* job, const Colouring& colouring,
                           const NetworkModel* network,
                           const ReplayObservers& observers)
    : job_(job),
      quotient_(job, colouring, network),
      unfolder_(job, &quotient_, observers.every_rank,
                observers.operations ? observers.every_rank : nullptr,
                observers.played),
      engine_(job->job.options, &quotient_, &quotient_, &unfolder_) {
  quotient_.AddRanks(engine_);
  if (observers.timeline == nullptr)
    return;
  for (const uint32_t rank : quotient_.representatives())
    engine_.ObserveTimeline(job->job.ranks[rank].world_rank, observers.timeline);
}

absl::Status FoldedReplay::Run() {
  if (absl::Status status = engine_.Run(); !status.ok())
    return status;
  if (engine_.Finished())
    return engine_.CheckTransfersMatched();
  return absl::FailedPreconditionError(fmt::format(
      "the job comes to a halt: {}", fmt::join(engine_.DescribeBlocked(8), "; ")));
}

RankResult FoldedReplay::result(int32_t world_rank) const {
  const uint32_t played = quotient_.representatives()[quotient_.ColourOf(world_rank)];
  return engine_.result(job_->job.ranks[played].world_rank);
}

uint64_t FoldedReplay::ops() const {
  std::vector<uint64_t> by_colour;
  for (const uint32_t rank : quotient_.representatives())
    by_colour.push_back(engine_.result(job_->job.ranks[rank].world_rank).ops);
  uint64_t sum = 0;
  for (const uint32_t colour : quotient_.colouring().colour)
    sum += by_colour[colour];
  return sum;
}

uint64_t FoldedReplay::played_ops() const {
  return engine_.ops();
}

absl::StatusOr<std::unique_ptr<FoldedReplay>> ReplayFolded(
    const ResolvedJob& job, const NetworkModel& network,
    const ReplayObservers& observers) {
  const Colouring colouring = RefineColours(job, network);
  auto folded = std::make_unique<FoldedReplay>(&job, colouring, &network, observers);
  if (folded->Run().ok())
    return folded;
  auto unfolded = std::make_unique<FoldedReplay>(&job, SeparateColours(job.job),
                                                 &network, ReplayObservers{});
  if (absl::Status status = unfolded->Run(); !status.ok())
    return status;
  return absl::InternalError(
      "the folded replay fails where the unfolded one does not; this is a bug of "
      "vrank");
}

}  // namespace vrank::graph
