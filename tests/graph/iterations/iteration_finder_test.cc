// Sequences of training programs of many shapes, written by a small generator that
// knows where each iteration begins and ends.

#include "graph/iterations/iteration_finder.h"

#include <string>

#include <gtest/gtest.h>

namespace vrank::graph {
namespace {

// Actions, by what they stand for.
enum Action : uint32_t {
  kInitialise,
  kBroadcast,
  kToDevice,
  kEmbed,
  kNorm,
  kProduct,
  kAttention,
  kActivation,
  kLoss,
  kLossBackward,
  kNormBackward,
  kAttentionBackward,
  kAddGradients,
  kReduceGradients,
  kUpdate,
  kStateOfUpdate,
  kUpdateOther,
  kZero,
  kReadLoss,
  kTune,
  kSend,
  kReceive,
  kSort,
  kStep,
  kStepOther,
  kAction
};

class Program {
 public:
  std::vector<uint32_t> actions;
  std::vector<ActionSpan> iterations;  // as annotated

  void Do(std::initializer_list<uint32_t> some) {
    actions.insert(actions.end(), some.begin(), some.end());
  }
  void Begin() { iterations.push_back({actions.size(), 0}); }
  void End() { iterations.back().end = actions.size(); }

  void Forward(int layers) {
    Do({kToDevice, kEmbed});
    for (int i = 0; i < layers; ++i)
      Do({kNorm, kProduct, kAttention, kProduct, kNorm, kProduct, kActivation,
          kProduct});
    Do({kNorm, kProduct, kLoss});
  }
  void Backward(int layers, bool adds = false, bool reduces = true) {
    Do({kLossBackward, kProduct, kProduct, kNormBackward});
    for (int i = 0; i < layers; ++i) {
      Do({kProduct, kProduct, kActivation, kProduct, kProduct, kNormBackward});
      if (adds)
        Do({kAddGradients, kAddGradients});
      Do({kProduct, kProduct, kAttentionBackward, kProduct, kProduct, kNormBackward});
      if (adds)
        Do({kAddGradients, kAddGradients});
      if (reduces)
        Do({kReduceGradients});
    }
  }
  void Start(int parameters) {
    for (int i = 0; i < parameters; ++i)
      Do({kInitialise, kSort, kInitialise});
    for (int i = 0; i < parameters; ++i)
      Do({kBroadcast});
  }
  FoundIterations Find() const {
    std::vector<bool> updates(kAction);
    updates[kUpdate] = updates[kUpdateOther] = true;
    return FindIterations(actions, {updates, Computes(), Works()});
  }
  // By what PyTorch says of its optimizers' steps.
  FoundIterations FindBySteps() const {
    std::vector<bool> updates(kAction);
    updates[kUpdate] = updates[kUpdateOther] = true;
    return FindIterations(
        actions, {updates, Computes(), Works(), {{kStep, 1}, {kStepOther, 2}}});
  }
  // Without the names of optimizers.
  FoundIterations FindUnnamed() const {
    return FindIterations(actions, {std::vector<bool>(kAction), Computes(), Works()});
  }
  static std::vector<bool> Computes() {
    std::vector<bool> computes = Works();
    for (const Action other :
         {kStep, kStepOther, kBroadcast, kReduceGradients, kSend, kReceive})
      computes[other] = false;
    return computes;
  }
  // All but copies.
  static std::vector<bool> Works() {
    std::vector<bool> works(kAction, true);
    works[kToDevice] = works[kReadLoss] = works[kStep] = works[kStepOther] = false;
    return works;
  }
};

struct Shape {
  int iterations = 5, layers = 6, accumulate = 1, evaluate_every = 0, evaluations = 0;
  bool vary = false, state = true, tune = false, zero_last = false, zero_first = false;
  bool warm_up = true;
  int updates = 4;
};

Program Make(const Shape& shape) {
  Program program;
  if (shape.warm_up)
    program.Start(20);
  for (int i = 0; i < shape.iterations; ++i) {
    program.Begin();
    const int layers = shape.layers;
    if (shape.zero_first)
      program.Do({kZero, kZero});
    for (int micro = 0; micro < shape.accumulate; ++micro) {
      program.Forward(layers);
      if (i == 0 && micro == 0 && shape.tune)
        program.Do({kTune, kTune, kTune});
      if (shape.vary && (i * 7 + micro) % 3 == 0)
        program.Do({kSort, kSort});  // a longer sequence takes another kernel
      program.Backward(layers);
    }
    for (int u = 0; u < shape.updates; ++u) {
      if (i == 0 && shape.state)
        program.Do({kStateOfUpdate, kStateOfUpdate});
      program.Do({kUpdate});
    }
    if (shape.zero_last)
      program.Do({kZero, kZero, kReadLoss});
    program.End();
    if (shape.evaluate_every != 0 && (i + 1) % shape.evaluate_every == 0)
      for (int e = 0; e < shape.evaluations; ++e) {
        program.Forward(layers);
        program.Do({kReadLoss});
      }
  }
  return program;
}

void ExpectFound(const Shape& shape, const std::string& what) {
  const Program program = Make(shape);
  const FoundIterations found = program.Find();
  EXPECT_EQ(found.evidence, IterationEvidence::kOptimizer) << what;
  ASSERT_EQ(found.spans.size(), program.iterations.size()) << what;
  for (size_t i = 0; i < found.spans.size(); ++i) {
    EXPECT_EQ(found.spans[i].begin, program.iterations[i].begin) << what << ' ' << i;
    EXPECT_EQ(found.spans[i].end, program.iterations[i].end) << what << ' ' << i;
  }
}

// What the first iteration lacks of the others is looked for before it.
void ExpectFoundButForTheFirstBegin(const Program& program) {
  std::vector<ActionSpan> found = program.Find().spans;
  ASSERT_EQ(found.size(), program.iterations.size());
  EXPECT_LE(found.front().begin, program.iterations.front().begin);
  found.front().begin = program.iterations.front().begin;
  EXPECT_EQ(found, program.iterations);
}

TEST(IterationFinderTest, PlainTraining) {
  ExpectFound({}, "plain");
  ExpectFound({.iterations = 2}, "two iterations");
  ExpectFound({.layers = 48}, "many layers");
  ExpectFound({.layers = 1}, "one layer");
  ExpectFound({.updates = 1}, "a fused optimizer");
  ExpectFound({.updates = 60}, "an update for each parameter");
  ExpectFound({.warm_up = false}, "nothing before the first");
  ExpectFound({.tune = true}, "a first iteration that tunes");
}

TEST(IterationFinderTest, WhatFollowsTheUpdateBelongsToItsIteration) {
  ExpectFound({.zero_last = true}, "gradients set to zero at the end");
  ExpectFound({.zero_first = true}, "gradients set to zero at the beginning");
}

TEST(IterationFinderTest, GradientAccumulation) {
  for (const int accumulate : {2, 3, 8})
    ExpectFound({.accumulate = accumulate}, "accumulation");
}

// The number of micro batches grows during training, or the last iteration of an epoch
// has fewer. All but the last micro batch leave out the exchange of gradients, and all
// but the first add to them.
TEST(IterationFinderTest, AccumulationThatVaries) {
  const std::vector<std::vector<int>> runs = {
      {1, 1, 1, 1, 4, 4, 4, 4}, {4, 4, 2, 4, 4, 2, 4, 4, 2},
      {4, 4, 4, 4, 1, 1, 1},    {2, 2, 5, 5, 2, 2},
      {5, 5, 2, 2, 2},          {2, 2, 2, 2, 16, 16},
      {3, 1, 3, 1, 3, 1},       {8, 8, 8, 3, 8, 8, 8, 3}};
  for (const std::vector<int>& run : runs)
    for (const int layers : {2, 6})
      for (const bool zero_last : {false, true})
        for (const int evaluations : {0, 4}) {
          Program program;
          program.Start(20);
          for (size_t i = 0; i < run.size(); ++i) {
            program.Begin();
            for (int micro = 0; micro < run[i]; ++micro) {
              program.Forward(layers);
              program.Backward(layers, micro > 0, micro + 1 == run[i]);
            }
            program.Do({kUpdate, kUpdate});
            if (zero_last)
              program.Do({kZero, kZero, kReadLoss});
            program.End();
            for (int e = 0; e < evaluations && i == 1; ++e) {
              program.Forward(layers);
              program.Do({kReadLoss});
            }
          }
          const FoundIterations found = program.Find();
          const std::string what = testing::PrintToString(run) + ' ' +
                                   std::to_string(layers) + ' ' +
                                   std::to_string(evaluations);
          ASSERT_EQ(found.spans.size(), run.size()) << what;
          for (size_t i = 0; i < run.size(); ++i) {
            EXPECT_EQ(found.spans[i].end, program.iterations[i].end)
                << what << ' ' << i;
            // The reading of an evaluation's loss may count to what follows.
            const size_t off = program.iterations[i].begin - found.spans[i].begin;
            EXPECT_LE(off, evaluations == 0 ? 0u : 1u) << what << ' ' << i;
          }
        }
}

// An epoch ends with an iteration of fewer micro batches, and an evaluation that begins
// like them.
TEST(IterationFinderTest, EpochsOfAccumulationWithAnEvaluation) {
  for (const int layers : {4, 8}) {
    Program program;
    program.Start(20);
    for (int epoch = 0; epoch < 3; ++epoch) {
      for (const int micro_batches : {4, 4, 3}) {
        program.Begin();
        for (int micro = 0; micro < micro_batches; ++micro) {
          if (micro == 0)
            program.Do({kToDevice});
          program.Forward(layers);
          program.Backward(layers, micro > 0, micro + 1 == micro_batches);
        }
        program.Do({kUpdate, kUpdate});
        program.End();
      }
      program.Do({kToDevice});
      for (int e = 0; e < 6; ++e)
        program.Forward(layers);
    }
    const std::vector<ActionSpan> found = program.Find().spans;
    ASSERT_EQ(found.size(), program.iterations.size());
    for (size_t i = 1; i < found.size(); ++i) {
      EXPECT_EQ(found[i].end, program.iterations[i].end) << layers << ' ' << i;
      EXPECT_LE(found[i].begin - program.iterations[i].begin, 1u) << layers << ' ' << i;
    }
  }
}

TEST(IterationFinderTest, EvaluationIsOutside) {
  for (const int every : {2, 3, 5})
    for (const int evaluations : {1, 4})
      for (const bool zero_last : {false, true})
        ExpectFound({.iterations = 7,
                     .evaluate_every = every,
                     .evaluations = evaluations,
                     .zero_last = zero_last},
                    "evaluation");
}

TEST(IterationFinderTest, LengthsThatVary) {
  const Shape shape{.iterations = 9, .accumulate = 2, .vary = true};
  ExpectFound(shape, "lengths");
  EXPECT_LT(Make(shape).Find().regularity, 1);
  EXPECT_GT(Make(shape).Find().regularity, 0.9);
  EXPECT_EQ(Make({}).Find().regularity, 1);
}

// Clipping, then the state of the optimizer, then updates.
TEST(IterationFinderTest, AFirstIterationThatCreatesStateBetweenItsUpdates) {
  Program program;
  program.Start(20);
  for (int i = 0; i < 4; ++i) {
    program.Begin();
    program.Forward(2);
    program.Backward(2);
    program.Do({kUpdateOther, kUpdateOther});
    if (i == 0)
      for (int parameter = 0; parameter < 30; ++parameter)
        program.Do({kStateOfUpdate});
    program.Do({kUpdate, kUpdate, kUpdate});
    program.End();
  }
  EXPECT_EQ(program.Find().spans, program.iterations);
}

// DistributedDataParallel waits for its events in the first ten iterations, behind the
// copy of the batch.
TEST(IterationFinderTest, WaitsBehindTheFirstActionOfSomeIterations) {
  for (const bool zero_last : {false, true}) {
    Program program;
    program.Start(20);
    for (int i = 0; i < 15; ++i) {
      program.Begin();
      program.Do({kToDevice});
      for (int wait = 0; wait < 8 && i > 0 && i < 10; ++wait)
        program.Do({kReadLoss});
      program.Forward(2);
      program.Backward(2);
      program.Do({kUpdate, kUpdate});
      if (zero_last)
        program.Do({kZero, kZero});
      program.End();
    }
    EXPECT_EQ(program.Find().spans, program.iterations) << zero_last;
  }
}

// The waits stand behind the copies of a batch, of which the first iteration has the
// same; the loss is read behind each update. An iteration that begins too late makes
// the last one shorter than the others.
TEST(IterationFinderTest, TheLastIterationIsWhole) {
  for (const bool evaluates : {false, true}) {
    Program program;
    program.Start(20);
    for (int i = 0; i < 8; ++i) {
      program.Begin();
      program.Do({kToDevice, kReadLoss, kSort, kToDevice, kReadLoss});
      for (int wait = 0; wait < 8 && i > 0; ++wait)
        program.Do({kReadLoss});
      program.Forward(4);
      program.Backward(4);
      program.Do({kUpdate, kUpdate});
      program.Do({kToDevice, kReadLoss});
      program.End();
    }
    if (evaluates) {
      program.Do({kSort});
      program.Forward(4);
    }
    ExpectFoundButForTheFirstBegin(program);
  }
}

// SGD copies each gradient into its state in the first iteration; the others copy as
// many times as they begin (buckets of a static graph). Copies alone align nothing.
TEST(IterationFinderTest, CopiesAtTheEndOfTheFirstIteration) {
  Program program;
  program.Start(20);
  for (int i = 0; i < 6; ++i) {
    program.Begin();
    program.Do({kToDevice, kReadLoss, kSort, kEmbed});
    for (int bucket = 0; bucket < 60 && i > 0; ++bucket)
      program.Do({kToDevice});
    program.Forward(2);
    program.Backward(2);
    for (int parameter = 0; parameter < 60 && i == 0; ++parameter)
      program.Do({kToDevice});
    program.Do({kUpdate, kUpdate});
    program.End();
  }
  ExpectFoundButForTheFirstBegin(program);
}

// The last update is no iteration's: what stands behind it says nothing about those.
TEST(IterationFinderTest, AnOtherOptimizerAtTheEnd) {
  Program program;
  program.Start(20);
  for (int i = 0; i < 8; ++i) {
    program.Begin();
    program.Forward(4);
    program.Backward(4);
    program.Do({kUpdate, kUpdate});
    program.Do({kZero, kTune, kZero, kSort});
    program.End();
  }
  for (int parameter = 0; parameter < 40; ++parameter)
    program.Do({kActivation, kReceive});
  program.Do({kUpdateOther, kUpdateOther});
  std::vector<ActionSpan> found = program.Find().spans;
  ASSERT_EQ(found.size(), 8u);
  // What follows the last iteration is joined to it.
  found.back().end = program.iterations.back().end;
  EXPECT_EQ(found, program.iterations);
}

// The loss is averaged over the ranks and read every third iteration.
TEST(IterationFinderTest, ALineOfALogEndsItsIteration) {
  for (const bool exchanged : {false, true}) {
    Program program;
    program.Start(20);
    for (int i = 0; i < 9; ++i) {
      program.Begin();
      program.Forward(4);
      program.Backward(4);
      program.Do({kUpdate, kUpdate});
      if (i % 3 == 2 && exchanged)
        program.Do({kReduceGradients, kNorm, kReadLoss});
      if (i % 3 == 2 && !exchanged)
        for (int value = 0; value < 25; ++value)
          program.Do({kReadLoss});
      program.End();
    }
    const FoundIterations found = program.Find();
    // The end of the last iteration is open: no other one follows.
    program.iterations.back().end = found.spans.back().end;
    EXPECT_EQ(found.spans, program.iterations) << exchanged;
  }
}

// A compiler that runs between the layers of the first iteration, and measures kernels:
// the beginning of that iteration aligns with no other one.
TEST(IterationFinderTest, ACompilerInTheFirstIteration) {
  for (const int layers : {2, 6})
    for (const bool zero_last : {false, true}) {
      Program program;
      program.Start(20);
      for (int i = 0; i < 8; ++i) {
        program.Begin();
        program.Do({kToDevice, kEmbed, kSort, kNorm});
        for (int layer = 0; layer < layers; ++layer) {
          program.Do({kNorm, kProduct, kAttention, kActivation, kProduct, kSend, kNorm,
                      kReceive});
          for (int tries = 0; tries < 100 && i == 0; ++tries)
            program.Do({kTune, kZero, kInitialise, kTune});
        }
        program.Do({kNorm, kProduct, kLoss});
        program.Backward(layers);
        program.Do({kUpdate, kUpdate});
        if (zero_last)
          program.Do({kZero, kZero});
        if (i % 4 == 3)
          program.Do({kReadLoss, kReduceGradients, kNorm, kReadLoss});
        program.End();
      }
      const FoundIterations found = program.Find();
      ASSERT_GE(found.spans.size(), 7u);
      // The first one need not be found. The end of the last one is open.
      program.iterations.back().end = found.spans.back().end;
      for (size_t i = 1; i < 8; ++i)
        EXPECT_EQ(found.spans[found.spans.size() - i], program.iterations[8 - i])
            << layers << ' ' << zero_last << ' ' << 8 - i;
    }
}

// Norms of gradients, which ranks exchange before they clip; the first iteration stops
// in more places; every other one logs.
TEST(IterationFinderTest, ClippingAwayFromTheUpdateAndAFirstIterationOfItsOwn) {
  for (const int iterations : {4, 5, 8, 30}) {
    Program program;
    program.Start(20);
    for (int i = 0; i < iterations; ++i) {
      program.Begin();
      program.Forward(4);
      program.Backward(4);
      program.Do({kUpdateOther, kUpdateOther});
      for (int shard = 0; shard < 5; ++shard)
        program.Do({kReduceGradients, kNorm, kActivation});
      if (i == 0) {
        program.Do({kUpdateOther});
        for (int parameter = 0; parameter < 30; ++parameter)
          program.Do({kStateOfUpdate, kInitialise, kSort});
        program.Do({kUpdateOther});
        for (int parameter = 0; parameter < 30; ++parameter)
          program.Do({kStateOfUpdate});
      }
      program.Do({kUpdate, kUpdate});
      program.End();
      if (i % 2 == 1)
        for (int value = 0; value < 9; ++value)
          program.Do({kReadLoss, kTune, kTune});
    }
    const FoundIterations found = program.Find();
    EXPECT_EQ(found.evidence, IterationEvidence::kOptimizer);
    EXPECT_EQ(found.spans, program.iterations) << iterations;
  }
}

// Two optimizers in turn, as in adversarial training.
TEST(IterationFinderTest, TwoOptimizers) {
  Program program;
  program.Start(20);
  for (int i = 0; i < 5; ++i) {
    program.Begin();
    program.Forward(2);
    program.Backward(2);
    program.Do({kUpdateOther, kUpdateOther});
    for (int layer = 0; layer < 9; ++layer)
      program.Do({kActivation, kSort, kActivation, kNorm, kSort});
    program.Forward(6);
    program.Backward(6);
    program.Do({kUpdate, kUpdate});
    program.End();
  }
  const FoundIterations found = program.Find();
  ASSERT_EQ(found.spans.size(), 5u);
  for (size_t i = 1; i < 5; ++i)
    EXPECT_EQ(found.spans[i].size(), program.iterations[i].size());
}

// Every second step updates a second network, too: two steps are an iteration, which
// ends with a step whose actions precede all updates of the next one. A line of a log
// may stand in front of that step.
TEST(IterationFinderTest, TwoOptimizersOfDifferentFrequencyAndALog) {
  Program program;
  program.Start(20);
  for (int i = 0; i < 12; ++i) {
    program.Begin();
    for (const bool both : {true, false}) {
      program.Forward(4);
      program.Backward(4);
      program.Do({kUpdate, kUpdate});
      if (both) {
        program.Forward(2);
        program.Do({kSort, kActivation, kSort});
        program.Backward(2);
        program.Do({kUpdateOther, kUpdateOther});
      }
      if ((2 * i + (both ? 0 : 1)) % 5 == 4)
        program.Do({kTune, kReadLoss, kReadLoss});
    }
    program.End();
  }
  ExpectFoundButForTheFirstBegin(program);
}

// The first iteration waits more often than the others, and creates the states of both
// optimizers.
TEST(IterationFinderTest, TwoOptimizersAndAFirstIterationOfItsOwn) {
  Program program;
  program.Start(20);
  const auto wait = [&program](int i) {
    for (int times = 0; times < 25 && i == 0; ++times)
      program.Do({kReadLoss, kTune});
  };
  for (int i = 0; i < 8; ++i) {
    program.Begin();
    program.Forward(4);
    wait(i);
    program.Backward(4);
    program.Do({kUpdateOther, kUpdateOther});
    program.Forward(2);
    wait(i);
    program.Do({kSort, kActivation, kSort});
    program.Backward(2);
    program.Do({kUpdate, kUpdate});
    program.End();
  }
  const FoundIterations found = program.Find();
  ASSERT_EQ(found.spans.size(), 8u);
  for (size_t i = 1; i < 8; ++i)
    EXPECT_EQ(found.spans[i], program.iterations[i]);
}

// A pipeline with two chunks of the model per rank: forward and backward passes of
// micro batches in an order of their own.
TEST(IterationFinderTest, VirtualPipelineStages) {
  Program program;
  program.Start(20);
  for (int i = 0; i < 4; ++i) {
    program.Begin();
    for (int warm = 0; warm < 5; ++warm) {
      program.Do({kReceive});
      program.Forward(2);
      program.Do({kSend});
    }
    for (int steady = 0; steady < 11; ++steady) {
      program.Forward(2);
      program.Do({kSend, kReceive});
      program.Backward(2);
      program.Do({kSend, kReceive});
    }
    for (int drain = 0; drain < 5; ++drain) {
      program.Backward(2);
      program.Do({kSend});
    }
    program.Do({kUpdate, kUpdate, kUpdate});
    program.End();
  }
  const FoundIterations found = program.Find();
  EXPECT_EQ(found.spans, program.iterations);
}

// ---- Steps ----

// An optimizer of plain operations: no kernel is an update by its name.
TEST(IterationFinderTest, StepsOfAnOptimizerWithoutNames) {
  Program program;
  program.Start(20);
  for (int i = 0; i < 5; ++i) {
    program.Begin();
    for (int batch = 0; batch < 2; ++batch) {
      program.Forward(4);
      program.Backward(4, batch == 1);
    }
    for (int parameter = 0; parameter < 30; ++parameter)
      program.Do({kSort, kAddGradients});
    program.Do({kStep});
    program.End();
  }
  const FoundIterations found = program.FindBySteps();
  EXPECT_EQ(found.evidence, IterationEvidence::kOptimizer);
  EXPECT_EQ(found.regularity, 1);
  EXPECT_EQ(found.spans, program.iterations);
}

// Generator and discriminator are alike: their kernels do not tell one from the other.
TEST(IterationFinderTest, StepsOfTwoOptimizersThatAreAlike) {
  for (const int of_first : {1, 3}) {
    Program program;
    for (int i = 0; i < 4; ++i) {
      program.Begin();
      for (int k = 0; k < of_first; ++k) {
        program.Forward(4);
        program.Backward(4);
        program.Do({kUpdate, kUpdate, kStep});
      }
      program.Forward(4);
      program.Backward(4);
      program.Do({kUpdate, kUpdate, kStepOther});
      program.End();
    }
    EXPECT_EQ(program.FindBySteps().spans, program.iterations) << of_first;
  }
}

// Other parameters are trained in the second half of a long run.
TEST(IterationFinderTest, StepsOfOneOptimizerAfterTheOther) {
  Program program;
  for (int i = 0; i < 8'000; ++i) {
    program.Begin();
    program.Do({kEmbed, kProduct, kNorm, kProduct, i < 4'000 ? kStep : kStepOther});
    program.End();
  }
  EXPECT_EQ(program.FindBySteps().spans, program.iterations);
}

// One step for each group of parameters.
TEST(IterationFinderTest, SeveralStepsOfOneOptimizerInARow) {
  for (const int groups : {2, 3, 4}) {
    Program program;
    for (int i = 0; i < 5; ++i) {
      program.Begin();
      program.Forward(6);
      program.Backward(6);
      for (int group = 0; group < groups; ++group)
        program.Do({kUpdate, kUpdate, kAddGradients, kStep});
      program.End();
    }
    EXPECT_EQ(program.FindBySteps().spans, program.iterations) << groups;
  }
}

TEST(IterationFinderTest, StepsWithEvaluations) {
  Program program;
  for (int i = 0; i < 6; ++i) {
    program.Begin();
    program.Forward(4);
    program.Backward(4);
    program.Do({kUpdate, kStep});
    program.End();
    for (int e = 0; i == 2 && e < 20; ++e)
      program.Forward(4);
  }
  for (int e = 0; e < 50; ++e)
    program.Forward(4);
  EXPECT_EQ(program.FindBySteps().spans, program.iterations);
}

// Steps were seen while a CUDA graph was made, and none when it is launched.
TEST(IterationFinderTest, StepsInACudaGraphAreFoundByTheirUpdates) {
  Program program;
  for (int i = 0; i < 10; ++i) {
    program.Begin();
    program.Forward(4);
    program.Backward(4);
    program.Do({kUpdate, kUpdate});
    program.End();
    if (i < 3)
      program.Do({kStep});
  }
  EXPECT_EQ(program.FindBySteps().spans.size(), 10u);
}

TEST(IterationFinderTest, WithoutNamesByItsPeriod) {
  for (const Shape& shape :
       {Shape{.iterations = 6}, Shape{.iterations = 6, .accumulate = 4},
        Shape{.iterations = 6, .zero_last = true},
        Shape{.iterations = 4, .layers = 96}}) {
    const Program program = Make(shape);
    const FoundIterations found = program.FindUnnamed();
    EXPECT_EQ(found.evidence, IterationEvidence::kPeriod);
    // The first one creates the optimizer's state: it is no repetition.
    ASSERT_EQ(found.spans.size() + 1, program.iterations.size());
    for (size_t i = 0; i < found.spans.size(); ++i)
      EXPECT_EQ(found.spans[i].size(), program.iterations[i + 1].size());
  }
}

// A model is copied to its GPU, parameter by parameter.
TEST(IterationFinderTest, CopiesAloneAreNoIterations) {
  Program program;
  for (int i = 0; i < 40; ++i)
    program.Do({kToDevice, kToDevice, kReadLoss});
  EXPECT_TRUE(program.FindUnnamed().spans.empty());
  for (int i = 0; i < 120; ++i)
    program.Do({kToDevice, kNorm, kToDevice, kReadLoss});
  EXPECT_FALSE(program.FindUnnamed().spans.empty());
}

TEST(IterationFinderTest, NothingThatRepeatsHasNoIterations) {
  Program program;
  program.Start(20);
  program.Forward(6);
  program.Backward(6);
  EXPECT_TRUE(program.Find().spans.empty());
  EXPECT_TRUE(FindIterations({}, ActionKinds{}).spans.empty());
  // One update alone is no iteration either.
  program.Do({kUpdate});
  EXPECT_TRUE(program.Find().spans.empty());
}

}  // namespace
}  // namespace vrank::graph
