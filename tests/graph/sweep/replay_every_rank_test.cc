// Whoever plays, every rank must come out the same.

#include "graph/sweep/replay_every_rank.h"

#include <string>
#include <tuple>

#include <gtest/gtest.h>

#include "graph/fold/colours.h"
#include "tests/graph/fold/folding_job.h"

namespace vrank::graph {
namespace {

auto Numbers(const RankResult& r) {
  return std::tuple(r.end.ns, r.end.assumed, r.end.recorded, r.end.measured,
                    r.end.assumed_host, r.memory_bytes, r.peak_memory_bytes,
                    r.peak_communicator_bytes, r.peak_context_bytes, r.ops,
                    r.divergences, r.host_waited.nanoseconds());
}

TEST(ReplayEveryRankTest, EveryExecutorSaysTheSame) {
  SweepOptions options;
  options.observe = [](const std::string&) { return true; };
  int folded = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    FoldingJobOptions shape;
    shape.classes = 1 + seed % 4;
    shape.replicas = 2 + seed / 4 % 8;
    shape.stragglers = static_cast<int>(seed % 2);
    shape.irregular = seed % 3 == 0;
    shape.even_pieces = seed % 3 != 0;
    shape.rings = seed % 6 == 1;
    FoldingJob made = MakeFoldingJob(seed, shape);
    if (seed % 5 == 0)
      made.job.ranks[0].options.jitter = {20'000, seed};
    CutMembership membership(&made.cuts);
    const auto job = ResolveCommunicators(made.job, &membership);
    ASSERT_TRUE(job.ok()) << job.status();
    const NodeNetwork network(1 + static_cast<int32_t>(seed % 4));
    const auto expected =
        ReplayEveryRank(*job, network, options, ReplayExecutor::kWorklist);
    ASSERT_TRUE(expected.ok()) << expected.status();
    EXPECT_EQ(expected->executor, "incremental engine");
    for (const ReplayExecutor executor :
         {ReplayExecutor::kFastest, ReplayExecutor::kSweep, ReplayExecutor::kFolded}) {
      const auto every = ReplayEveryRank(*job, network, options, executor);
      if (executor == ReplayExecutor::kSweep && absl::IsUnimplemented(every.status()))
        continue;
      ASSERT_TRUE(every.ok()) << every.status();
      for (uint32_t place = 0; place < job->job.ranks.size(); ++place)
        ASSERT_EQ(Numbers(every->results[place]), Numbers(expected->results[place]))
            << "seed " << seed << ", rank " << place << ", " << every->executor;
      ASSERT_EQ(every->activities, expected->activities) << seed << every->executor;
      ASSERT_EQ(every->marks, expected->marks) << seed << every->executor;
    }
    folded += RefineColours(*job, network).colours < job->job.ranks.size();
  }
  EXPECT_GT(folded, 20);  // otherwise little would have been tested
}

TEST(ReplayEveryRankTest, AJobThatDoesNotFitIsRefusedWithWhatItWouldTake) {
  FoldingJob made = MakeFoldingJob(1, {});
  CutMembership membership(&made.cuts);
  const auto job = ResolveCommunicators(made.job, &membership);
  ASSERT_TRUE(job.ok()) << job.status();
  SweepOptions options;
  options.max_bytes = 1;
  for (const ReplayExecutor executor :
       {ReplayExecutor::kFastest, ReplayExecutor::kWorklist}) {
    const auto every = ReplayEveryRank(*job, NodeNetwork(4), options, executor);
    EXPECT_TRUE(absl::IsResourceExhausted(every.status())) << every.status();
    EXPECT_NE(every.status().message().find("GiB of memory, 0.0 GiB are allowed"),
              std::string::npos)
        << every.status();
  }
  EXPECT_TRUE(
      ReplayEveryRank(*job, NodeNetwork(4), options, ReplayExecutor::kFolded).ok());
}

}  // namespace
}  // namespace vrank::graph
