// Communications of training programs, as they are on a real GPU, where nothing else is
// seen of them. A small generator knows how many iterations there are.

#include "graph/iterations/collective_rhythm.h"

#include <functional>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

namespace vrank::graph {
namespace {

constexpr uint32_t kWorld = 1, kTensor = 2, kPipeline = 3;
constexpr uint64_t kMb = 1 << 20;

struct Job {
  std::vector<uint32_t> calls;
  std::vector<CommunicationKind> kinds;
  std::vector<size_t> ends;  // behind the last gradient of each iteration

  void Do(const std::string& operation, uint64_t bytes,
          uint32_t communicator = kWorld) {
    const auto [known, is_new] = kind_of.try_emplace(
        {operation, bytes, communicator}, static_cast<uint32_t>(kinds.size()));
    if (is_new)
      kinds.push_back(
          {communicator, operation == "reduce" || operation == "scatter", bytes});
    calls.push_back(known->second);
  }
  void EndIteration() { ends.push_back(calls.size()); }
  FoundIterations Find() const { return FindIterationsByCommunication(calls, kinds); }

  std::map<std::tuple<std::string, uint64_t, uint32_t>, uint32_t> kind_of;
};

void ExpectAll(const Job& job, const std::string& what) {
  const FoundIterations found = job.Find();
  EXPECT_EQ(found.evidence, IterationEvidence::kCommunication) << what;
  ASSERT_EQ(found.spans.size(), job.ends.size()) << what;
  for (size_t i = 0; i < found.spans.size(); ++i) {
    EXPECT_EQ(found.spans[i].end, job.ends[i]) << what << ", iteration " << i;
    EXPECT_LT(found.spans[i].begin, found.spans[i].end);
    EXPECT_GE(found.spans[i].begin, i == 0 ? 0 : found.spans[i - 1].end);
  }
}

// Between iterations something may be done; `between` gets the iteration's number.
using Between = std::function<void(Job&, int)>;
void Nothing(Job&, int) {}

// Hugging Face's Trainer: the model is compared and broadcast, three buckets, the norm,
// the loss gathered every second step.
Job DataParallel(int iterations, bool rebuilt, const Between& between = Nothing) {
  Job job;
  job.Do("gather", 8);
  for (int i = 0; i < 8; ++i)
    job.Do("broadcast", 12 * kMb + 8 * static_cast<uint64_t>(i));
  for (int i = 0; i < iterations; ++i) {
    if (i == 1)
      job.Do("broadcast", 24);  // the order of the buckets
    if (i == 0 && rebuilt) {
      for (const uint64_t mb : {9, 11, 8})
        job.Do("reduce", mb * kMb);
    } else {
      for (const uint64_t mb : {1, 25, 2})
        job.Do("reduce", mb * kMb);
    }
    job.EndIteration();
    if (i % 2 == 1)
      job.Do("gather", 4);
    between(job, i);
  }
  for (int i = 0; i < 3; ++i)
    job.Do("gather", 8);
  return job;
}

// FSDP: parameters gathered forward and backward, gradients scattered, their norm.
Job Sharded(int iterations, int layers, const Between& between = Nothing) {
  Job job;
  job.Do("gather", 8);
  for (int i = 0; i < iterations; ++i) {
    job.Do("gather", 30 * kMb);
    for (int layer = 0; layer < layers; ++layer)
      job.Do("gather", 10 * kMb);
    for (int layer = 0; layer < layers; ++layer) {
      if (layer > 0)
        job.Do("gather", 10 * kMb);
      job.Do("scatter", 3 * kMb);
    }
    job.Do("scatter", 9 * kMb);
    job.EndIteration();
    job.Do("reduce", 4);
    between(job, i);
  }
  return job;
}

// Tensor and pipeline parallelism, gradients summed at the end.
Job Megatron(int iterations, int micro_batches, int layers,
             const Between& between = Nothing) {
  Job job;
  for (int i = 0; i < iterations; ++i) {
    for (int micro = 0; micro < micro_batches; ++micro) {
      for (const bool backward : {false, true}) {
        job.Do(backward ? "receive gradient" : "receive", 16 * kMb, kPipeline);
        for (int layer = 0; layer < 2 * layers; ++layer)
          job.Do("reduce", 16 * kMb, kTensor);
        job.Do(backward ? "send gradient" : "send", 16 * kMb, kPipeline);
      }
    }
    for (const uint64_t mb : {40, 40, 40, 17})
      job.Do("scatter", mb * kMb);
    job.EndIteration();
    job.Do("reduce", 4, kPipeline);  // the norm
    job.Do("gather", 137 * kMb);     // the parameters
    between(job, i);
  }
  return job;
}

TEST(CollectiveRhythmTest, DataParallel) {
  ExpectAll(DataParallel(8, false), "buckets that stay");
  ExpectAll(DataParallel(8, true), "buckets of another size in the first iteration");
  ExpectAll(DataParallel(3, false), "three iterations");
  ExpectAll(DataParallel(500, true), "many iterations");
}

TEST(CollectiveRhythmTest, Sharded) {
  for (const int layers : {2, 4, 24, 80})
    for (const int iterations : {3, 4, 8, 50})
      ExpectAll(Sharded(iterations, layers), std::to_string(layers) + " layers");
}

TEST(CollectiveRhythmTest, TensorAndPipelineParallel) {
  for (const int micro_batches : {1, 2, 8})
    ExpectAll(Megatron(6, micro_batches, 4), std::to_string(micro_batches));
}

// An iteration follows the one before, but for what is much.
TEST(CollectiveRhythmTest, BeginsWhereTheOneBeforeEnds) {
  const FoundIterations found = DataParallel(8, true).Find();
  for (size_t i = 1; i < found.spans.size(); ++i)
    EXPECT_EQ(found.spans[i].begin, found.spans[i - 1].end) << i;
  EXPECT_EQ(found.spans.front().size(), 3u);
}

TEST(CollectiveRhythmTest, AnEvaluationIsNoPartOfAnIteration) {
  const auto evaluate = [](Job& job, int i) {
    if (i % 3 != 2)
      return;
    for (int batch = 0; batch < 5; ++batch) {
      job.Do("gather", 30 * kMb);
      for (int layer = 0; layer < 4; ++layer)
        job.Do("gather", 10 * kMb);
      job.Do("reduce", 8);
    }
  };
  const Job job = Sharded(12, 4, evaluate);
  ExpectAll(job, "evaluated");
  const FoundIterations found = job.Find();
  EXPECT_GE(found.spans[3].begin, found.spans[2].end + 5 * 6);
  EXPECT_EQ(found.spans[4].begin, found.spans[3].end);
  ExpectAll(Megatron(12, 4, 4,
                     [](Job& added, int i) {
                       for (int layer = 0; i % 4 == 3 && layer < 80; ++layer)
                         added.Do("reduce", 16 * kMb, kTensor);
                     }),
            "activations of an evaluation");
}

TEST(CollectiveRhythmTest, OneSizeSaysNothing) {
  Job job;
  for (int i = 0; i < 100; ++i)
    job.Do("reduce", 16 * kMb, kTensor);
  EXPECT_TRUE(job.Find().spans.empty());
  EXPECT_TRUE(Job().Find().spans.empty());
}

// A loss that is summed over the tensor-parallel group in each iteration.
TEST(CollectiveRhythmTest, AllThatIsCommunicatedIsLookedAtWithoutGradients) {
  Job job;
  for (int i = 0; i < 6; ++i) {
    for (int layer = 0; layer < 16; ++layer)
      job.Do("reduce", 16 * kMb, kTensor);
    job.Do("reduce", 4, kTensor);
    job.EndIteration();
  }
  EXPECT_EQ(job.Find().spans.size(), 6u);
}

// ---- Whatever else is communicated ----

struct Shape {
  const char* name;
  std::function<Job(const Between&)> make;
};
const std::vector<Shape>& Shapes() {
  static const auto* const shapes = new std::vector<Shape>{
      {"data parallel",
       [](const Between& between) { return DataParallel(9, true, between); }},
      {"sharded", [](const Between& between) { return Sharded(9, 12, between); }},
      {"tensor and pipeline",
       [](const Between& between) { return Megatron(9, 4, 3, between); }}};
  return *shapes;
}

// Reports and checkpoints, anywhere.
TEST(CollectiveRhythmTest, OtherCollectivesAtAnyPlaceChangeNoCount) {
  for (const Shape& shape : Shapes()) {
    for (unsigned seed = 0; seed < 50; ++seed) {
      std::mt19937 random(seed);
      const Job job = shape.make(Nothing);
      Job other = job;
      other.calls.clear();
      other.ends.clear();
      size_t next = 0;
      for (size_t at = 0; at <= job.calls.size(); ++at) {
        if (next < job.ends.size() && job.ends[next] == at) {
          other.EndIteration();
          ++next;
        }
        while (random() % 5 == 0) {
          const char* const kOperations[] = {"gather", "broadcast", "to all"};
          const bool is_small = random() % 2 == 0;
          if (is_small)
            other.Do("reduce", 4 + random() % 3 * 4, random() % 3 + 1);
          else
            other.Do(kOperations[random() % 3], 4 + random() % 3 * 5 * kMb);
        }
        if (at < job.calls.size())
          other.calls.push_back(job.calls[at]);
      }
      ExpectAll(other, std::string(shape.name) + ", seed " + std::to_string(seed));
    }
  }
}

TEST(CollectiveRhythmTest, WhatPrecedesTheFirstIterationChangesNoCount) {
  for (const Shape& shape : Shapes()) {
    for (size_t count = 0; count < 40; ++count) {
      std::mt19937 random(static_cast<unsigned>(count));
      const Job job = shape.make(Nothing);
      Job other = job;
      other.calls.clear();
      for (size_t i = 0; i < count; ++i)
        other.Do(random() % 2 == 0 ? "reduce" : "broadcast", random() % 64 * kMb + 12);
      for (size_t& end : other.ends)
        end += count;
      other.calls.insert(other.calls.end(), job.calls.begin(), job.calls.end());
      ExpectAll(other, std::string(shape.name) + ", " + std::to_string(count));
    }
  }
}

// Whatever is called: spans are in order and disjoint.
TEST(CollectiveRhythmTest, AnySequenceHasAnAnswer) {
  for (unsigned seed = 0; seed < 2000; ++seed) {
    std::mt19937 random(seed);
    Job job;
    const unsigned sizes = 1 + random() % 4, length = random() % 60;
    for (unsigned i = 0; i < length; ++i)
      job.Do(random() % 3 == 0 ? "gather" : "reduce", (1 + random() % sizes) * kMb,
             1 + random() % 2);
    const FoundIterations found = job.Find();
    size_t end = 0;
    for (const ActionSpan& span : found.spans) {
      EXPECT_GE(span.begin, end) << seed;
      EXPECT_LT(span.begin, span.end) << seed;
      end = span.end;
    }
    EXPECT_LE(end, job.calls.size()) << seed;
  }
}

// A run that is interrupted has the iterations that it has completed.
TEST(CollectiveRhythmTest, AnIterationThatIsCutOffIsNone) {
  Job job = Sharded(6, 12);
  const size_t whole = job.ends[4];
  job.ends.resize(5);
  for (const size_t more : {1, 10, 20}) {
    Job cut = job;
    cut.calls.resize(whole + more);
    ExpectAll(cut, std::to_string(more));
  }
}

}  // namespace
}  // namespace vrank::graph
