// The trainer trains: on the host backend, with the schedule, buckets, optimizer and
// communication that run on GPUs.

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "examples/gpt_trainer/closed_form.h"
#include "examples/gpt_trainer/reference.h"
#include "examples/gpt_trainer/trainer.h"
#include "tests/examples/gpt_trainer/host_training.h"

namespace gpt {
namespace {

constexpr double kTolerance = 1e-5;

struct Layout {
  int tp, pp, dp;
};

std::vector<Layout> AllLayouts() {
  std::vector<Layout> layouts;
  for (int tp : {1, 2, 4}) {
    for (int pp : {1, 2, 4}) {
      for (int dp : {1, 2, 4, 8}) {
        if (tp * pp * dp <= 8) {
          layouts.push_back({tp, pp, dp});
        }
      }
    }
  }
  return layouts;
}

std::string Name(const Layout& layout) {
  return "tp " + std::to_string(layout.tp) + " pp " + std::to_string(layout.pp) +
         " dp " + std::to_string(layout.dp);
}

TEST(TrainingTest, LossFalls) {
  const TrainingRun run = TrainOnHost(TinyModel(2, 2, 2, {"--iterations", "40"}));
  EXPECT_NEAR(run.loss(0), std::log(256.0), 0.1);
  EXPECT_LT(run.loss(39), 0.6f * run.loss(0));
}

TEST(TrainingTest, StartsAtTheLossOfTheReference) {
  const Arguments arguments = TinyModel(2, 2, 2);
  const TrainingRun run = TrainOnHost(arguments);
  EXPECT_NEAR(run.loss(0), ReferenceLoss(arguments, run.shape), 1e-5);
}

TEST(TrainingTest, EveryLayoutTrainsAsOneRankDoes) {
  const TrainingRun alone = TrainOnHost(TinyModel(1, 1, 1));
  for (const Layout& layout : AllLayouts()) {
    const TrainingRun run = TrainOnHost(TinyModel(layout.tp, layout.pp, layout.dp));
    EXPECT_LT(Difference(alone, run), kTolerance) << Name(layout);
  }
}

// Whatever streams do in which order, events make the result the same, to the bit.
TEST(TrainingTest, PausesOfStreamsChangeNothing) {
  const Arguments arguments = TinyModel(2, 2, 2, {"--bucket-mb", "1"});
  const TrainingRun undisturbed = TrainOnHost(arguments);
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    HostJob job;
    job.jitter = seed;
    EXPECT_EQ(Difference(undisturbed, TrainOnHost(arguments, job)), 0.0);
  }
}

// Each collective call of an iteration in turn leaves its members with what they had:
// the run must differ from that of one rank.
void ExpectAllToMatter(const std::vector<std::string>& words,
                       const std::vector<std::string>& layout_words,
                       const std::vector<const char*>& communicators) {
  std::vector<std::string> all = words;
  all.insert(all.end(), layout_words.begin(), layout_words.end());
  const Arguments arguments = TinyModel(2, 2, 2, all);
  const TrainingRun alone = TrainOnHost(TinyModel(1, 1, 1, words));
  const TrainingRun sound = TrainOnHost(arguments);
  ASSERT_LT(Difference(alone, sound), kTolerance);
  for (const char* communicator : communicators) {
    int calls = 0;  // of the rank that makes most of them
    for (const RankAccount& rank : sound.ranks) {
      const auto found = rank.one_iteration.calls.find(communicator);
      calls =
          std::max(calls, found == rank.one_iteration.calls.end() ? 0 : found->second);
    }
    EXPECT_GT(calls, 0) << communicator;
    for (int call = 0; call < calls; ++call) {
      HostJob job;
      job.faulty_communicator = communicator;
      job.faulty_call = call;
      EXPECT_GT(Difference(alone, TrainOnHost(arguments, job)), kTolerance)
          << "call " << call << " of " << communicator;
    }
  }
}

TEST(TrainingTest, NoCollectiveCanBeLeftOut) {
  ExpectAllToMatter({"--iterations", "2", "--layers", "2"}, {},
                    {"tp", "dp", "embedding", "world"});
}

// But for the counts of rows, without which nothing would fit.
TEST(TrainingTest, NoCollectiveOfExpertsCanBeLeftOut) {
  ExpectAllToMatter({"--iterations", "2", "--layers", "2", "--experts", "4"},
                    {"--ep", "2"}, {"edp"});
}

// The slope along the gradient of each tensor is that gradient's norm.
void ExpectGradientsToBeSlopes(const Arguments& arguments) {
  const ModelShape shape = MakeModelShape(arguments, 0, sizeof(Element));
  RunRanks({}, [&](const World& world) {
    Trainer trainer(arguments, world, shape);
    trainer.RunIteration(0);
    SynchronizeDevice();  // the update comes after the loss
    const ParameterStore& store = trainer.parameters();
    const std::vector<float> gradients(store.gradients(),
                                       store.gradients() + store.layout().elements);
    for (const Parameter& parameter : store.layout().parameters) {
      const float* gradient = gradients.data() + parameter.offset;
      float* values = store.values() + parameter.offset;
      const double norm = std::sqrt(
          std::inner_product(gradient, gradient + parameter.elements(), gradient, 0.0));
      ASSERT_GT(norm, 0.0);
      // With a learning rate of 0 each iteration restores the values.
      const double change = 2e-3;  // of the loss, by each step
      const auto loss_after = [&](double step) {
        for (long long i = 0; i < parameter.elements(); ++i) {
          values[i] += static_cast<float>(step * gradient[i] / norm);
        }
        const float loss = trainer.RunIteration(0).loss;
        SynchronizeDevice();
        return static_cast<double>(loss);
      };
      // Where the slope is small, not so far that it changes.
      const double step = std::min(change / norm, 0.1);
      const double slope = (loss_after(step) - loss_after(-step)) / (2 * step);
      EXPECT_NEAR(slope / norm, 1.0, 0.02) << "tensor " << parameter.tensor;
    }
  });
}

TEST(TrainingTest, GradientsAgreeWithFiniteDifferences) {
  ExpectGradientsToBeSlopes(
      TinyModel(1, 1, 1, {"--lr", "0", "--layers", "2", "--iterations", "1"}));
}

// With drawn experts: a router's choice would jump.
TEST(TrainingTest, GradientsOfExpertsAgreeWithFiniteDifferences) {
  ExpectGradientsToBeSlopes(
      TinyModel(1, 1, 1,
                {"--lr", "0", "--layers", "1", "--iterations", "1", "--experts", "2",
                 "--router-skew", "0.5", "--attention", "fused"}));
}

void ExpectExpertsToTrainAsOnOneRank(const std::vector<std::string>& experts) {
  const TrainingRun alone = TrainOnHost(TinyModel(1, 1, 1, experts));
  for (const auto& [layout, ep] : {std::pair{Layout{2, 1, 1}, 1},
                                   {Layout{1, 1, 2}, 1},
                                   {Layout{1, 1, 2}, 2},
                                   {Layout{2, 2, 2}, 2},
                                   {Layout{2, 1, 4}, 2},
                                   {Layout{1, 1, 8}, 4}}) {
    std::vector<std::string> words = experts;
    words.insert(words.end(), {"--ep", std::to_string(ep)});
    const Arguments arguments = TinyModel(layout.tp, layout.pp, layout.dp, words);
    HostJob job;
    job.jitter = 1;
    EXPECT_LT(Difference(alone, TrainOnHost(arguments, job)), kTolerance)
        << Name(layout) << " ep " << ep;
  }
}

TEST(TrainingTest, ExpertsTrainAsOnOneRank) {
  ExpectExpertsToTrainAsOnOneRank({"--experts", "4"});
}

// Drawn by the token, whoever holds it.
TEST(TrainingTest, DrawnExpertsAreTheSameInEveryLayout) {
  const std::vector<std::string> drawn = {"--experts", "4", "--router-skew", "1"};
  ExpectExpertsToTrainAsOnOneRank(drawn);
  std::vector<std::string> words = drawn;
  words.insert(words.end(), {"--micro-batch-size", "2", "--attention", "fused",
                             "--layers", "8", "--micro-batches"});
  std::vector<std::string> split = words;
  words.push_back("4");
  split.insert(split.end(), {"2", "--cp", "2", "--ep", "2", "--virtual-stages", "2"});
  const TrainingRun alone = TrainOnHost(TinyModel(1, 1, 1, words));
  EXPECT_LT(Difference(alone, TrainOnHost(TinyModel(1, 2, 2, split))), kTolerance);
  EXPECT_LT(Difference(alone, TrainOnHost(TinyModel(2, 2, 2, split))), kTolerance);
}

// Where rows go differs from rank to rank; what all ranks do together does not.
TEST(TrainingTest, AccountsOfExpertsAddUpToTheClosedForms) {
  for (const char* skew : {"", "1.5"}) {
    std::vector<std::string> words = {"--experts", "4", "--ep", "2"};
    if (*skew != '\0') {
      words.insert(words.end(), {"--router-skew", skew});
    }
    const Arguments arguments = TinyModel(2, 2, 2, words);
    const TrainingRun run = TrainOnHost(arguments);
    HostCounters sum;
    double flops = 0;
    Traffic traffic;
    for (size_t rank = 0; rank < run.ranks.size(); ++rank) {
      sum.matrix_flops += run.ranks[rank].one_iteration.matrix_flops;
      for (const auto& [operation, bytes] : run.ranks[rank].one_iteration.bytes) {
        sum.bytes[operation] += bytes;
      }
      const int stage = run.shape.CoordinatesOf(static_cast<int>(rank)).pp;
      flops += ExecutedMatrixFlops(run.shape, stage);
      const Traffic of_rank = NcclTraffic(arguments, run.shape, stage);
      traffic.all_gather += of_rank.all_gather;
      traffic.reduce_scatter += of_rank.reduce_scatter;
      traffic.all_reduce += of_rank.all_reduce;
      traffic.send += of_rank.send;
    }
    EXPECT_EQ(sum.matrix_flops, flops);
    EXPECT_EQ(sum.bytes["all_gather"], traffic.all_gather);
    EXPECT_EQ(sum.bytes["reduce_scatter"], traffic.reduce_scatter);
    EXPECT_EQ(sum.bytes["all_reduce"], traffic.all_reduce);
    EXPECT_EQ(sum.bytes["send"], traffic.send);
    EXPECT_EQ(sum.bytes["receive"], traffic.send);
  }
}

using Words = std::vector<std::string>;

// Ways to run that must not change what is learned.
const std::vector<Words>& Variants() {
  static const std::vector<Words> kVariants = {
      {},
      {"--overlap-tp"},
      {"--recompute", "none"},
      {"--recompute", "full"},
      {"--attention", "fused"},
      {"--attention", "fused", "--recompute", "full"},
      {"--attention", "fused", "--cp", "2", "--dp", "1", "--micro-batches", "8"},
      {"--attention", "fused", "--cp", "2", "--dp", "1", "--micro-batches", "8",
       "--recompute", "full"},
      {"--attention", "fused", "--cp", "4", "--tp", "1", "--dp", "1", "--micro-batches",
       "8", "--micro-batch-size", "1"},
  };
  return kVariants;
}

std::string Text(const Words& words) {
  return std::accumulate(words.begin(), words.end(), std::string(),
                         [](std::string text, const std::string& word) {
                           return std::move(text) + " " + word;
                         });
}

void ExpectClosedForms(const Arguments& arguments) {
  TrainingRun run = TrainOnHost(arguments);
  for (size_t rank = 0; rank < run.ranks.size(); ++rank) {
    SCOPED_TRACE("rank " + std::to_string(rank));
    HostCounters& counted = run.ranks[rank].one_iteration;
    const int stage = run.shape.CoordinatesOf(static_cast<int>(rank)).pp;
    EXPECT_EQ(counted.matrix_flops, ExecutedMatrixFlops(run.shape, stage));
    const Traffic traffic = NcclTraffic(arguments, run.shape, stage);
    EXPECT_EQ(counted.bytes["all_gather"], traffic.all_gather);
    EXPECT_EQ(counted.bytes["reduce_scatter"], traffic.reduce_scatter);
    EXPECT_EQ(counted.bytes["all_reduce"], traffic.all_reduce);
    EXPECT_EQ(counted.bytes["send"], traffic.send);
    EXPECT_EQ(counted.bytes["receive"], traffic.receive);
    EXPECT_EQ(static_cast<double>(run.ranks[rank].memory.peak_allocated_bytes),
              PeakMemory(run.shape, stage, arguments.bucket_mb).total());
  }
}

TEST(TrainingTest, VirtualStagesTrainAsOneRankDoes) {
  const Words size = {"--layers", "16", "--micro-batches", "8"};
  const TrainingRun alone = TrainOnHost(TinyModel(1, 1, 1, size));
  for (const char* chunks : {"2", "4"}) {
    Words words = size;
    words.insert(words.end(), {"--virtual-stages", chunks});
    for (const Layout& layout : {Layout{2, 4, 1}, Layout{1, 4, 1}}) {
      const Arguments arguments = TinyModel(layout.tp, layout.pp, layout.dp, words);
      EXPECT_LT(Difference(alone, TrainOnHost(arguments)), kTolerance) << chunks;
      SCOPED_TRACE(chunks);
      ExpectClosedForms(arguments);
    }
  }
  const Arguments replicated =
      TinyModel(2, 2, 2, {"--layers", "16", "--virtual-stages", "2"});
  EXPECT_LT(Difference(alone, TrainOnHost(replicated)), kTolerance);
}

TEST(TrainingTest, EveryVariantTrainsAsOneRankDoes) {
  const TrainingRun alone = TrainOnHost(TinyModel(1, 1, 1));
  for (const Words& words : Variants()) {
    HostJob job;
    job.jitter = 1;
    const TrainingRun run = TrainOnHost(TinyModel(2, 2, 2, words), job);
    EXPECT_LT(Difference(alone, run), kTolerance) << Text(words);
  }
}

TEST(TrainingTest, LossScaleChangesNothing) {
  const TrainingRun alone = TrainOnHost(TinyModel(1, 1, 1));
  const TrainingRun run = TrainOnHost(TinyModel(2, 2, 2, {"--loss-scale", "4096"}));
  EXPECT_LT(Difference(alone, run), kTolerance);
}

// The norm of a gradient of 3.5 times 2^63 has a square above the largest float.
TEST(TrainingTest, SkipsStepsUntilTheLossScaleFits) {
  const TrainingRun run =
      TrainOnHost(TinyModel(2, 2, 2,
                            {"--loss-scale", "36893488147419103232",  // 2^65
                             "--loss-scale-window", "4", "--iterations", "12"}));
  std::vector<bool> skipped;
  std::vector<int> scales;
  for (const IterationResult& result : run.iterations) {
    skipped.push_back(result.skipped);
    scales.push_back(std::ilogb(result.loss_scale));
  }
  EXPECT_EQ(std::vector<bool>(skipped.begin(), skipped.begin() + 4),
            (std::vector<bool>{true, true, true, false}));
  EXPECT_EQ(std::vector<int>(scales.begin(), scales.begin() + 9),
            (std::vector<int>{65, 64, 63, 62, 62, 62, 62, 63, 63}));
  EXPECT_LT(run.iterations.back().loss, run.loss(3));
}

TEST(TrainingTest, OneRankThatOverflowsMakesAllSkip) {
  const auto train = [](int tp, int pp, int dp, const char* rank) {
    return TrainOnHost(TinyModel(tp, pp, dp,
                                 {"--loss-scale", "8", "--overflow-rank", rank,
                                  "--overflow-iteration", "1", "--iterations", "4"}));
  };
  const TrainingRun alone = train(1, 1, 1, "0"), run = train(2, 2, 2, "5");
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(run.iterations[i].skipped, i == 1);
    EXPECT_EQ(run.iterations[i].loss_scale, i < 2 ? 8.0f : 4.0f);
    EXPECT_NEAR(run.loss(i) / alone.loss(i), 1.0, kTolerance);
  }
}

// What the ranks issue and allocate is what the closed forms say, to the last byte.
TEST(TrainingTest, AccountsAreTheClosedForms) {
  for (const Layout& layout : AllLayouts()) {
    SCOPED_TRACE(Name(layout));
    ExpectClosedForms(TinyModel(layout.tp, layout.pp, layout.dp));
  }
}

TEST(TrainingTest, AccountsOfVariantsAreTheClosedForms) {
  for (const Words& words : Variants()) {
    for (const Layout& layout : {Layout{1, 1, 1}, Layout{2, 2, 2}}) {
      SCOPED_TRACE(Name(layout) + Text(words));
      ExpectClosedForms(TinyModel(layout.tp, layout.pp, layout.dp, words));
    }
  }
}

}  // namespace
}  // namespace gpt
