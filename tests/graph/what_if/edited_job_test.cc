// What-ifs of a job by hand, with iteration times that follow from its lines; and of
// random jobs, where no edit changes nothing.

#include "graph/what_if/edited_job.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/analysis/replay_report.h"
#include "graph/models/recorded_network.h"
#include "graph/schema/lane_gaps.h"
#include "graph/what_if/iteration_times.h"
#include "tests/graph/fold/folding_job.h"

namespace vrank::graph {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

bool IsStep(const std::string& name) {
  return name == "step";
}

// Nanoseconds of one rank's step: the host's time, then a kernel, a gap, a product, an
// all-reduce, and the host waits. `side`: of a kernel on another stream, for which the
// host does not wait.
struct StepTimes {
  int64_t host = 10, softmax = 100, gap = 0, product = 1000, all_reduce = 50, side = 0;
};

class HandJob {
 public:
  // By rank, by step.
  explicit HandJob(const std::vector<std::vector<StepTimes>>& ranks) {
    std::vector<int32_t> all;
    for (size_t rank = 0; rank < ranks.size(); ++rank)
      all.push_back(static_cast<int32_t>(rank));
    cuts_.push_back({0, {all}});
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      programs_.push_back(std::make_unique<Program>(true));
      Write(ranks[rank], *programs_.back());
      ReplayJob::Rank played;
      played.world_rank = static_cast<int32_t>(rank);
      played.program = programs_.back().get();
      job_.ranks.push_back(played);
    }
    job_.options.launch_latency = Duration::Nanoseconds(0);
    CutMembership membership(&cuts_);
    auto resolved = ResolveCommunicators(job_, &membership);
    EXPECT_TRUE(resolved.ok()) << resolved.status();
    resolved_ = *std::move(resolved);
    editable_ = std::make_unique<EditableJob>(&resolved_, &network_, IsStep,
                                              std::vector<bool>());
  }

  const EditableJob& editable() const { return *editable_; }

  // Of all steps.
  std::vector<int64_t> Times(const std::vector<std::string>& edits,
                             std::vector<EditedNodes>* nodes = nullptr) const {
    const auto edited = editable_->Edit(Parse(edits));
    EXPECT_TRUE(edited.ok()) << edited.status();
    if (!edited.ok())
      return {};
    if (nodes != nullptr)
      *nodes = edited->nodes;
    const auto times = editable_->IterationTimes(*edited);
    EXPECT_TRUE(times.ok()) << times.status();
    return times.ok() ? *times : std::vector<int64_t>();
  }
  std::string ErrorOf(const std::string& edit) const {
    const auto edited = editable_->Edit(Parse({edit}));
    EXPECT_FALSE(edited.ok());
    return std::string(edited.status().message());
  }

 private:
  static std::vector<WhatIf> Parse(const std::vector<std::string>& texts) {
    std::vector<WhatIf> edits;
    for (const std::string& text : texts)
      edits.push_back(*ParseWhatIf(text));
    return edits;
  }

  static void Work(Program& program, const std::string& name, int64_t ns,
                   uint32_t lane = 1) {
    program.Append(Op{.kind = OpKind::kWork,
                      .source = Source::kRecorded,
                      .work = WorkClass::kKernel,
                      .lane = lane,
                      .value = ns,
                      .a = program.AddName(name)});
  }
  static void Write(const std::vector<StepTimes>& steps, Program& program) {
    Creation world;
    world.unique_id[0] = 1;  // the first cut
    program.Append(Op{
        .kind = OpKind::kCreateCommunicator, .a = 1, .b = program.AddCreation(world)});
    for (const StepTimes& step : steps) {
      program.Append(Op{.kind = OpKind::kRangeBegin, .a = program.AddName("step")});
      program.Append(Op{.kind = OpKind::kHost, .host_ns = step.host});
      Work(program, "void at::softmax<float>(int)", step.softmax);
      if (step.gap != 0)
        program.Append(Op{.kind = OpKind::kHostFunc,
                          .work = WorkClass::kHostFunc,
                          .lane = 1,
                          .value = step.gap,
                          .a = program.AddName(kUnexplainedGapName)});
      Work(program, "product", step.product);
      if (step.side != 0)
        Work(program, "side", step.side, 2);
      CollectiveCall call;
      call.count = 1;
      call.recorded_ns = static_cast<uint64_t>(step.all_reduce);
      program.Append(Op{.kind = OpKind::kCollective,
                        .lane = 1,
                        .a = 1,
                        .b = program.AddCollective(call)});
      program.Append(Op{.kind = OpKind::kHostWaitLane, .lane = 1});
      program.Append(Op{.kind = OpKind::kRangeEnd, .a = program.AddName("step")});
    }
    program.Close();
  }

  std::vector<Cut> cuts_;
  std::vector<std::unique_ptr<Program>> programs_;
  ReplayJob job_;
  ResolvedJob resolved_;
  RecordedNetwork network_;
  std::unique_ptr<EditableJob> editable_;
};

TEST(EditedJobTest, KernelsTakeAFactorOfTheirTime) {
  const HandJob job({{StepTimes{}}});
  EXPECT_THAT(job.Times({}), ElementsAre(1160));
  std::vector<EditedNodes> nodes;
  EXPECT_THAT(job.Times({"kernel *softmax* x0.5"}, &nodes), ElementsAre(1110));
  ASSERT_EQ(nodes.size(), 1u);
  EXPECT_EQ(nodes[0].nodes, 1u);
  EXPECT_EQ(nodes[0].changed, 1u);
  EXPECT_EQ(nodes[0].before_ns, 100);
  EXPECT_EQ(nodes[0].after_ns, 50);
  EXPECT_EQ(nodes[0].AssumedShare(), 0);
  // By the name without template arguments, too, and by the whole one.
  EXPECT_THAT(job.Times({"kernel at::softmax free"}), ElementsAre(1060));
  EXPECT_THAT(job.Times({"kernel void at::softmax<float>(int) x3"}), ElementsAre(1360));
}

TEST(EditedJobTest, TheBusiestStreamIsThatOfEachRank) {
  const StepTimes front{.side = 400}, side{.side = 1500};
  const HandJob one({{front}});
  EXPECT_THAT(one.Times({}), ElementsAre(1160));
  EXPECT_THAT(one.Times({"busiest stream x2"}), ElementsAre(1160 + 1100));
  const HandJob two({{front, front}, {front, side}});
  std::vector<EditedNodes> nodes;
  EXPECT_THAT(two.Times({"busiest stream x2"}, &nodes),
              ElementsAre(1160 + 1100, 1160 + 1100));
  // Of the first rank two products and two others, of the second one likewise: its side
  // takes 1,900 ns, the other stream 2,200.
  EXPECT_EQ(nodes[0].before_ns, 4 * 1100);
  // With shorter products, it is the second rank's side.
  EXPECT_THAT(two.Times({"kernel product x0.5", "busiest stream x2"}, &nodes),
              ElementsAre(660 + 600, 3010));
  EXPECT_EQ(nodes[1].before_ns, 2 * 600 + 1900);
}

TEST(EditedJobTest, EditsApplyInTheirOrder) {
  const HandJob job({{StepTimes{}}});
  std::vector<EditedNodes> nodes;
  EXPECT_THAT(
      job.Times({"kernel product x0.5", "kernel * x0.1", "all_reduce free"}, &nodes),
      ElementsAre(10 + 10 + 50));
  EXPECT_EQ(nodes[1].before_ns, 600);
  EXPECT_EQ(nodes[1].AssumedShare(), 500.0 / 600);  // the first edit's
  EXPECT_THAT(job.Times({"communication x0.5", "all_reduce x0.2", "network x10"}),
              ElementsAre(10 + 1100 + 50));
}

TEST(EditedJobTest, WhatMatchesNothingIsAnErrorWithTheNearestNames) {
  const HandJob job({{StepTimes{}}});
  EXPECT_THAT(job.ErrorOf("kernel *sofmax* x0.5"), HasSubstr("nearest: at::softmax"));
  EXPECT_THAT(job.ErrorOf("all_gather x0.5"), HasSubstr("nearest: all_reduce"));
  EXPECT_THAT(job.ErrorOf("gaps free"),
              HasSubstr("--what-if 'gaps free': nothing of it"));
  EXPECT_THAT(job.ErrorOf("rank 1 host free"), HasSubstr("ranks 0 to 0"));
}

TEST(EditedJobTest, TheHostOfOneRankTakesTheMedianOfItsLike) {
  // Rank 2 loads slowly in its second step.
  const StepTimes usual{.host = 20}, slow{.host = 520};
  const HandJob job({{usual, usual}, {usual, usual}, {usual, slow}});
  EXPECT_THAT(job.Times({}), ElementsAre(1170, 1670));
  std::vector<EditedNodes> nodes;
  EXPECT_THAT(job.Times({"rank 2 host as median"}, &nodes), ElementsAre(1170, 1170));
  EXPECT_EQ(nodes[0].changed, 1u);
  EXPECT_THAT(job.Times({"rank 1 host as median"}), ElementsAre(1170, 1670));
  EXPECT_THAT(job.Times({"rank 2 host free"}), ElementsAre(1170, 1170));
  EXPECT_THAT(job.Times({"host free"}), ElementsAre(1150, 1150));
}

TEST(EditedJobTest, WithoutStragglersEachWorkTakesTheMedianOfItsLike) {
  const StepTimes usual, slow{.product = 3000}, late{.all_reduce = 450};
  const HandJob job({{usual, usual, late}, {usual, slow, late}, {usual, usual, late}});
  EXPECT_THAT(job.Times({}), ElementsAre(1160, 3160, 1560));
  std::vector<EditedNodes> nodes;
  EXPECT_THAT(job.Times({"no stragglers"}, &nodes), ElementsAre(1160, 1160, 1160));
  EXPECT_EQ(nodes[0].nodes, 3u * 3 * 3);  // two works and an all-reduce
  EXPECT_EQ(nodes[0].changed, 1u + 3);    // a work, and one all-reduce of three ranks
}

TEST(EditedJobTest, ComputationsMayTakeTheMeanOfTheirLike) {
  const StepTimes usual, slow{.product = 4000};
  const HandJob job({{usual, usual}, {slow, usual}, {usual, usual}});
  EXPECT_THAT(job.Times({"no stragglers as mean"}),
              ElementsAre(10 + 100 + 1500 + 50, 10 + 100 + 1500 + 50));
  EXPECT_THAT(job.Times({"no stragglers"}), ElementsAre(1160, 1160));
}

TEST(EditedJobTest, GapsMayBeFree) {
  const HandJob job({{StepTimes{.gap = 200}}});
  EXPECT_THAT(job.Times({}), ElementsAre(1360));
  EXPECT_THAT(job.Times({"gaps free"}), ElementsAre(1160));
  EXPECT_THAT(job.Times({"gaps x0.5"}), ElementsAre(1260));
  // Not the host's.
  EXPECT_THAT(job.Times({"host free"}), ElementsAre(1350));
}

TEST(EditedJobTest, TooLongIsAnError) {
  const HandJob job({{StepTimes{.product = int64_t{1} << 55}}});
  EXPECT_THAT(job.ErrorOf("kernel product x1000"), HasSubstr("longer than 36 years"));
}

TEST(EditedJobTest, CandidatesNameEveryPartOnce) {
  const HandJob job({{StepTimes{.gap = 1}}, {StepTimes{}}});
  std::vector<std::string> texts;
  for (const WhatIf& edit : job.editable().Candidates(8)) {
    texts.push_back(edit.text);
    EXPECT_TRUE(job.editable().Edit({edit}).ok()) << edit.text;
    // What a table prints may be given to --what-if.
    const auto parsed = ParseWhatIf(edit.text);
    ASSERT_TRUE(parsed.ok()) << edit.text;
    EXPECT_EQ(parsed->subject, edit.subject);
    EXPECT_EQ(parsed->factor, edit.factor);
    EXPECT_EQ(parsed->rank, edit.rank);
  }
  EXPECT_THAT(texts, ElementsAre("kernel product free", "kernel at::softmax free",
                                 "all_reduce free", "communication free", "host free",
                                 "rank 0 host free", "rank 1 host free", "gaps free",
                                 "no stragglers"));
}

// Random jobs that fold, with transfers, roots and ranks that follow.
struct RandomJob {
  explicit RandomJob(uint64_t seed) {
    FoldingJobOptions options;
    options.classes = 1 + seed % 3;
    options.replicas = 2 + seed % 4;
    options.irregular = seed % 3 == 0;
    made = MakeFoldingJob(seed, options);
    CutMembership membership(&made.cuts);
    resolved = *ResolveCommunicators(made.job, &membership);
  }
  FoldingJob made;
  ResolvedJob resolved;
  NodeNetwork network{4};
};

TEST(EditedJobTest, WithoutEditsAllTimesAreThoseOfTheReport) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const RandomJob job(seed);
    Timeline timeline;
    const auto replay = ReplayFolded(job.resolved, job.network, timeline.Observers());
    ASSERT_TRUE(replay.ok());
    timeline.Complete(job.resolved, **replay);
    const EditableJob editable(&job.resolved, &job.network, nullptr, {});
    const auto same = editable.Edit({});
    ASSERT_TRUE(same.ok());
    const auto times = editable.IterationTimes(*same);
    ASSERT_TRUE(times.ok());
    EXPECT_EQ(*times, MakeReport(timeline, {}).iteration_time_ns) << "seed " << seed;
  }
}

TEST(EditedJobTest, FreeCommunicationIsThatOfANetworkWithoutCosts) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    const RandomJob job(seed);
    const EditableJob editable(&job.resolved, &job.network, nullptr, {});
    const auto edited = editable.Edit({*ParseWhatIf("network free")});
    if (!edited.ok())
      continue;  // nothing communicates
    const NetworkModel& network = *edited->network;
    EXPECT_EQ(network.Transfer(1 << 20, 0, 1).duration, Duration::Nanoseconds(0));
    EXPECT_EQ(network.Creation(std::vector<int32_t>{0, 1}).duration,
              job.network.Creation(std::vector<int32_t>{0, 1}).duration);
    EXPECT_EQ(edited->nodes[0].after_ns, 0);
    const auto same = editable.Edit({});
    EXPECT_LE(editable.IterationTimes(*edited)->front(),
              editable.IterationTimes(*same)->front())
        << "seed " << seed;
  }
}

}  // namespace
}  // namespace vrank::graph
