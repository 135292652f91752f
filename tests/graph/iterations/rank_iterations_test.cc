#include "graph/iterations/rank_iterations.h"

#include <gtest/gtest.h>

#include "graph/program/program.h"

namespace vrank::graph {
namespace {

class RankIterationsTest : public ::testing::Test {
 protected:
  void Kernel(const std::string& name, WorkClass work = WorkClass::kKernel) {
    program_.Append(Op{.kind = OpKind::kWork,
                       .work = work,
                       .lane = 1,
                       .value = 10,
                       .a = program_.AddName(name)});
  }
  void Range(const std::string& name) {
    program_.Append(Op{.kind = OpKind::kRangeBegin, .a = program_.AddName(name)});
  }
  void EndRange(const std::string& name = "") {
    program_.Append(Op{.kind = OpKind::kRangeEnd, .a = program_.AddName(name)});
  }
  void Query() { program_.Append(Op{.kind = OpKind::kQueryLane, .lane = 1}); }
  void Iteration(int products) {
    Kernel("embedding");
    for (int i = 0; i < products; ++i) {
      Kernel("gemm_" + std::to_string(program_.size()), WorkClass::kGemm);
      Kernel("softmax");
    }
    Kernel("_ZN2at6native25multi_tensor_apply_kernelI20FusedAdamMathFunctorE");
  }
  RankIterations Find(IterationSearch search = IterationSearch::kActions) {
    IterationScan scan([](const std::string& name) { return name == "step"; });
    for (uint64_t i = 0; i < program_.size(); ++i)
      scan.Add(i, program_.op(i), program_.details());
    return scan.Find(search);
  }

  Program program_{true};
};

TEST_F(RankIterationsTest, AnnotationsDecide) {
  Range("train");
  for (int i = 0; i < 2; ++i) {
    Range("step");
    Iteration(3);
    Iteration(3);
    EndRange("step");
  }
  EndRange();
  const RankIterations found = Find();
  EXPECT_EQ(found.evidence, IterationEvidence::kAnnotation);
  ASSERT_EQ(found.bounds.size(), 2u);
  EXPECT_EQ(found.bounds[0].first_op, 2u);
  EXPECT_EQ(program_.op(found.bounds[1].last_op).kind, OpKind::kRangeEnd);
}

TEST_F(RankIterationsTest, ARangeThatIsOpenIsNone) {
  Range("step");
  for (int i = 0; i < 4; ++i)
    Iteration(3);
  EXPECT_TRUE(Find().bounds.empty());
}

// Matrix products of other shapes have other kernels; questions come as often as they
// do.
TEST_F(RankIterationsTest, WithoutAnnotationsUpdatesAreFound) {
  for (int i = 0; i < 4; ++i) {
    Iteration(6);
    for (int q = 0; q < i; ++q)
      Query();
  }
  const RankIterations found = Find();
  EXPECT_EQ(found.evidence, IterationEvidence::kOptimizer);
  EXPECT_EQ(found.regularity, 1);
  ASSERT_EQ(found.bounds.size(), 4u);
  EXPECT_EQ(found.bounds[0], (IterationBounds{0, 13}));
  EXPECT_EQ(found.bounds[1], (IterationBounds{14, 27}));
  // From the question on.
  EXPECT_EQ(found.bounds[2], (IterationBounds{28, 42}));
  EXPECT_TRUE(Find(IterationSearch::kAnnotations).bounds.empty());
}

// PyTorch says when an optimizer has stepped, whatever its kernels are called.
TEST_F(RankIterationsTest, StepsEndIterations) {
  for (int i = 0; i < 4; ++i) {
    for (int k = 0; k < 5 + i % 2; ++k)
      Kernel("layer");
    Kernel("gemm", WorkClass::kGemm);
    Range("vrank::optimizer_step 1");
    EndRange("vrank::optimizer_step 1");
  }
  const RankIterations found = Find();
  EXPECT_EQ(found.evidence, IterationEvidence::kOptimizer);
  ASSERT_EQ(found.bounds.size(), 4u);
  for (const IterationBounds& bounds : found.bounds)
    EXPECT_EQ(program_.op(bounds.last_op).kind, OpKind::kRangeBegin);
}

TEST_F(RankIterationsTest, StepsEndIterationsWhereKernelsAreNotSeen) {
  for (int i = 0; i < 3; ++i) {
    program_.Append(Op{.kind = OpKind::kHost, .host_ns = 5'000});
    program_.Append(Op{.kind = OpKind::kHostWaitLane, .lane = 1});
    Range("vrank::optimizer_step 1");
    EndRange("vrank::optimizer_step 1");
  }
  const RankIterations found = Find(IterationSearch::kCommunication);
  EXPECT_EQ(found.evidence, IterationEvidence::kOptimizer);
  EXPECT_EQ(found.bounds.size(), 3u);
}

// The host may be far ahead of what it issues: the time between its steps is no
// iteration's.
TEST_F(RankIterationsTest, StepsAloneSayNothingOfADeviceThatIsNotSeen) {
  for (int i = 0; i < 3; ++i) {
    program_.Append(Op{.kind = OpKind::kHost, .host_ns = 5'000});
    Range("vrank::optimizer_step 1");
    EndRange("vrank::optimizer_step 1");
  }
  EXPECT_TRUE(Find(IterationSearch::kCommunication).bounds.empty());
  EXPECT_EQ(Find().bounds.size(), 3u);
}

TEST(SteppedOptimizerTest, IsInTheName) {
  EXPECT_EQ(SteppedOptimizer("vrank::optimizer_step 1"), 1u);
  EXPECT_EQ(SteppedOptimizer("vrank::optimizer_step 12"), 12u);
  EXPECT_EQ(SteppedOptimizer("vrank::optimizer_step 12x"), 0u);
  EXPECT_EQ(SteppedOptimizer("vrank::optimizer_step "), 0u);
  EXPECT_EQ(SteppedOptimizer("optimizer_step 1"), 0u);
}

// A batch is read on the host between two iterations; what stands ahead of the first
// iteration, and behind an evaluation, is not known to belong to one.
TEST_F(RankIterationsTest, HostTimeBetweenIterationsIsTheLaterOnes) {
  const auto compute = [&] {
    program_.Append(Op{.kind = OpKind::kHost, .host_ns = 5'000});
  };
  for (int i = 0; i < 4; ++i) {
    if (i == 3)
      for (int e = 0; e < 5; ++e)
        Kernel("evaluate");
    compute();
    Iteration(6);
  }
  const RankIterations found = Find();
  ASSERT_EQ(found.bounds.size(), 4u);
  EXPECT_EQ(found.bounds[0], (IterationBounds{1, 14}));
  EXPECT_EQ(found.bounds[1], (IterationBounds{15, 29}));
  EXPECT_EQ(found.bounds[2], (IterationBounds{30, 44}));
  EXPECT_EQ(found.bounds[3], (IterationBounds{51, 64}));
}

// As on a real GPU: the host's time and collectives.
TEST_F(RankIterationsTest, WithoutKernelsWhatIsCommunicatedIsLookedAt) {
  const auto reduce = [&](uint64_t count) {
    program_.Append(Op{.kind = OpKind::kHost, .host_ns = 5'000});
    CollectiveCall call{.operation = CollectiveKind::kAllReduce,
                        .type = ElementType::kFloat32};
    call.count = count;
    program_.Append(Op{.kind = OpKind::kCollective,
                       .lane = 1,
                       .a = 1,
                       .b = program_.AddCollective(call)});
  };
  for (int i = 0; i < 4; ++i) {
    reduce(1'000'000);
    reduce(500'000);
    if (i == 1)
      reduce(1);  // a line of a log
  }
  EXPECT_TRUE(Find(IterationSearch::kAnnotations).bounds.empty());
  const RankIterations found = Find(IterationSearch::kCommunication);
  EXPECT_EQ(found.evidence, IterationEvidence::kCommunication);
  ASSERT_EQ(found.bounds.size(), 4u);
  EXPECT_EQ(found.bounds[0], (IterationBounds{1, 3}));
  EXPECT_EQ(found.bounds[1], (IterationBounds{4, 7}));
  EXPECT_EQ(found.bounds[2], (IterationBounds{8, 13}));
  EXPECT_EQ(found.bounds[3], (IterationBounds{14, 17}));
}

TEST(UpdatesParametersTest, KnowsOptimizersByTheirKernels) {
  for (const char* update :
       {"void at::native::(anonymous namespace)::multi_tensor_apply_kernel<"
        "TensorListMetadata<4>, FusedAdamMathFunctor<float, 4>, float>",
        "multi_tensor_apply_kernel<TensorListMetadata<3>, BinaryOpListAlphaFunctor<f>>",
        "void kOptimizer32bit2State<float, 0>", "adam_update", "LAMBStage1Functor",
        "at::native::amp_update_scale_cuda_kernel", "triton_for_fused_1"})
    EXPECT_TRUE(UpdatesParameters(update)) << update;
  for (const char* other :
       {"multi_tensor_apply_kernel<TensorListMetadata<2>, CopyFunctor<float>>",
        "multi_tensor_apply_kernel<TensorListMetadata<1>, ZeroFunctor<float>>",
        "multi_tensor_apply_kernel<TensorListMetadata<2>, UnaryOpFunctor<f>, Copy<f, "
        "f> >",
        "vectorized_elementwise_kernel", "flash_fwd_kernel", "triton_poi_fused_add_0",
        ""})
    EXPECT_FALSE(UpdatesParameters(other)) << other;
}

}  // namespace
}  // namespace vrank::graph
