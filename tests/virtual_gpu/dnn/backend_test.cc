// libcudnn, called as its frontend calls it, over the virtual GPU on a fake channel.

#include <array>
#include <string>

#include "tests/virtual_gpu/dnn/dnn_fixture.h"

namespace vrank::gpu::dnn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kAdd = 0, kExp = 13, kCompareGreaterOrEqual = 303, kGenerateIndex = 501;
constexpr const char* kForward =
    "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x";

class CudnnTest : public DnnTest {
 protected:
  struct Shape {
    int64_t b = 2, h = 8, g = 8, n = 512, s = 512, d = 64;
  };

  // S = Q K^T, what `mask` adds, O = P V: Q, K, V, O are 0 to 3.
  template <typename Mask>
  void* Forward(const Shape& c, Mask mask) {
    void* const scores = graph.Virtual(10, {c.b, c.h, c.n, c.s});
    void* const weights = graph.Virtual(11, {c.b, c.h, c.n, c.s});
    graph.Product(graph.Tensor(0, {c.b, c.h, c.n, c.d}),
                  graph.Tensor(1, {c.b, c.g, c.d, c.s}), scores);
    mask(scores);
    graph.Pointwise(kExp, scores, nullptr, weights);
    graph.Product(weights, graph.Tensor(2, {c.b, c.g, c.s, c.d}),
                  graph.Tensor(3, {c.b, c.h, c.n, c.d}));
    return graph.Plan();
  }
  static void NoMask(void*) {}
  void Causal(void* scores) {
    void *const row = graph.Virtual(20, {1}), *const column = graph.Virtual(21, {1});
    graph.Pointwise(kGenerateIndex, scores, nullptr, row);
    graph.Pointwise(kGenerateIndex, scores, nullptr, column);
    graph.Pointwise(kCompareGreaterOrEqual, row, column, graph.Virtual(22, {1}));
  }
  // Q, K, V, dO are 0 to 3; dQ, dK, dV 4 to 6.
  void* Backward(const Shape& c) {
    const std::vector<int64_t> wide = {c.b, c.h, c.n, c.s};
    void* const q = graph.Tensor(0, {c.b, c.h, c.n, c.d});
    void* const d_o = graph.Tensor(3, {c.b, c.h, c.n, c.d});
    void *const weights = graph.Virtual(10, wide), *const d_s = graph.Virtual(11, wide);
    graph.Product(q, graph.Tensor(1, {c.b, c.g, c.d, c.s}), graph.Virtual(12, wide));
    graph.Pointwise(kExp, graph.Virtual(14, wide), nullptr, weights);
    graph.Product(weights, d_o, graph.Tensor(6, {c.b, c.g, c.s, c.d}));
    graph.Product(d_o, graph.Tensor(2, {c.b, c.g, c.d, c.s}), d_s);
    graph.Product(d_s, q, graph.Tensor(5, {c.b, c.g, c.s, c.d}));
    graph.Product(d_s, graph.Virtual(13, {c.b, c.g, c.s, c.d}),
                  graph.Tensor(4, {c.b, c.h, c.n, c.d}));
    return graph.Plan();
  }
  // heads, key heads, queries, keys, width, causal, bias, dropout
  static std::array<uint32_t, 8> NumbersOf(const FakeChannel::Written& kernel) {
    return ArgumentsOf<std::array<uint32_t, 8>>(kernel);
  }
};

TEST_F(CudnnTest, AttentionIsOneKernelAfterAClearedCounter) {
  void* const plan = Forward({}, [&](void* scores) { Causal(scores); });
  ASSERT_NE(plan, nullptr);
  EXPECT_EQ(graph.Workspace(plan), 256);
  ASSERT_EQ(Execute(plan, {0, 1, 2, 3}), kSuccess);
  const auto cleared = TheChannel().records(protocol::RecordKind::kMemset);
  ASSERT_EQ(cleared.size(), 1u);
  EXPECT_EQ(cleared[0].as<protocol::Memset>().bytes, 4u);
  ASSERT_EQ(Kernels().size(), 1u);
  EXPECT_EQ(NameOf(Kernels()[0]),
            kForward + std::string("64_4x1x1_cga1x1x1_kernel0_0"));
  EXPECT_THAT(Kernels()[0].as<protocol::Kernel>().grid, ElementsAre(64, 1, 1));
  EXPECT_THAT(NumbersOf(Kernels()[0]), ElementsAre(16, 16, 512, 512, 64, 1, 0, 0));
  EXPECT_TRUE(IsComputed(memory[3]));
  EXPECT_FALSE(IsComputed(memory[0]));
}

TEST_F(CudnnTest, BlocksStayOnePerMultiprocessor) {
  void* const plan = Forward({.b = 4, .n = 4096, .d = 128}, NoMask);
  ASSERT_EQ(Execute(plan, {0, 1, 2, 3}), kSuccess);
  EXPECT_THAT(Kernels()[0].as<protocol::Kernel>().grid, ElementsAre(132, 1, 1));
  EXPECT_THAT(NumbersOf(Kernels()[0]), ElementsAre(32, 32, 4096, 512, 128, 0, 0, 0));
}

TEST_F(CudnnTest, ABiasAndDropoutAreSeen) {
  const Shape c;
  void* const plan = Forward(c, [&](void* scores) {
    graph.Pointwise(kAdd, scores, graph.Tensor(7, {c.b, c.h, c.n, c.s}),
                    graph.Virtual(30, {c.b, c.h, c.n, c.s}));
    graph.Add(DescriptorType::kOperationRng, {});
  });
  ASSERT_EQ(Execute(plan, {0, 1, 2, 3, 7}), kSuccess);
  EXPECT_THAT(NumbersOf(Kernels()[0]), ElementsAre(16, 16, 512, 512, 64, 0, 1, 1));
}

TEST_F(CudnnTest, WithoutAMaskItIsOneOperation) {
  graph.Add(DescriptorType::kOperationSdpaForward,
            {{Name::kSdpaQ, graph.Tensor(0, {1, 4, 640, 32})},
             {Name::kSdpaV, graph.Tensor(2, {1, 2, 320, 32})},
             {Name::kSdpaO, graph.Tensor(3, {1, 4, 640, 32})},
             {Name::kSdpaStatistics, graph.Tensor(5, {1, 4, 640, 1})}});
  ASSERT_EQ(Execute(graph.Plan(), {0, 2, 3, 5}), kSuccess);
  EXPECT_THAT(NumbersOf(Kernels()[0]), ElementsAre(4, 2, 640, 320, 32, 0, 0, 0));
  EXPECT_TRUE(IsComputed(memory[3]));
  EXPECT_TRUE(IsComputed(memory[5]));
}

TEST_F(CudnnTest, OneQuerySharesItsKeysOut) {
  void* const plan = Forward({.h = 16, .g = 16, .n = 1, .s = 1024}, NoMask);
  // As PyTorch allocated it on an H200.
  EXPECT_EQ(graph.Workspace(plan), 67712);
  ASSERT_EQ(Execute(plan, {0, 1, 2, 3}), kSuccess);
  ASSERT_EQ(Kernels().size(), 2u);
  EXPECT_THAT(Kernels()[0].as<protocol::Kernel>().grid, ElementsAre(8, 16, 2));
  EXPECT_THAT(NameOf(Kernels()[1]), HasSubstr("lean_reduction_kernel"));
}

TEST_F(CudnnTest, TheWayBackIsThreeKernels) {
  void* const plan = Backward({});
  EXPECT_EQ(graph.Workspace(plan), 256);
  ASSERT_EQ(Execute(plan, {0, 1, 2, 3, 4, 5, 6}), kSuccess);
  ASSERT_EQ(Kernels().size(), 3u);
  EXPECT_THAT(NameOf(Kernels()[0]),
              HasSubstr("compute_dot_do_o_specializedILb1ELi64E"));
  EXPECT_THAT(NameOf(Kernels()[1]), HasSubstr("flash_bprop"));
  EXPECT_THAT(NameOf(Kernels()[2]), HasSubstr("convert_dq_to_16bitsILb1E"));
  for (size_t id : {4, 5, 6})
    EXPECT_TRUE(IsComputed(memory[id])) << id;
}

TEST_F(CudnnTest, HeadsThatShareKeysAreAddedUp) {
  void* const plan = Backward({.h = 16, .g = 4, .n = 1024, .s = 1024});
  // 16,908,544 bytes on an H200, of which the frontend adds 8,519,680.
  EXPECT_EQ(graph.Workspace(plan), 16908544 - 8519680);
  ASSERT_EQ(Execute(plan, {0, 1, 2, 3, 4, 5, 6}), kSuccess);
  ASSERT_EQ(Kernels().size(), 5u);
  EXPECT_THAT(NameOf(Kernels()[4]), HasSubstr("fmha_reduce_head"));
  EXPECT_THAT(Kernels()[4].as<protocol::Kernel>().grid, ElementsAre(64, 2, 4));
}

TEST_F(CudnnTest, OtherGraphsHaveNoEngine) {
  const uint64_t refused = TheChannel().Lost(LossId::kRefusedCall);
  graph.Product(graph.Tensor(0, {1, 1, 16, 16}), graph.Tensor(1, {1, 1, 16, 16}),
                graph.Tensor(2, {1, 1, 16, 16}));
  EXPECT_EQ(graph.Plan(), nullptr);
  EXPECT_GT(TheChannel().Lost(LossId::kRefusedCall), refused);
}

TEST_F(CudnnTest, TwoProductsWithoutASoftmaxHaveNoEngine) {
  void* const between = graph.Virtual(10, {1, 1, 16, 16});
  graph.Product(graph.Tensor(0, {1, 1, 16, 16}), graph.Tensor(1, {1, 1, 16, 16}),
                between);
  graph.Product(between, graph.Tensor(2, {1, 1, 16, 16}),
                graph.Tensor(3, {1, 1, 16, 16}));
  EXPECT_EQ(graph.Plan(), nullptr);
}

TEST_F(CudnnTest, AttentionInFloat32HasNoEngine) {
  const Shape c;
  const auto single = [&](int64_t id, std::vector<int64_t> dimensions) {
    return graph.Tensor(id, std::move(dimensions), DataType{}, false);
  };
  void* const scores = graph.Virtual(10, {c.b, c.h, c.n, c.s});
  graph.Product(single(0, {c.b, c.h, c.n, c.d}), single(1, {c.b, c.g, c.d, c.s}),
                scores);
  graph.Pointwise(kExp, scores, nullptr, scores);
  graph.Product(scores, single(2, {c.b, c.g, c.s, c.d}),
                single(3, {c.b, c.h, c.n, c.d}));
  EXPECT_EQ(graph.Plan(), nullptr);
}

TEST_F(CudnnTest, OtherPartsAreRefusedByName) {
  void* descriptor = this;
  EXPECT_EQ(cudnnCreateCTCLossDescriptor(&descriptor), kNotSupported);
  EXPECT_EQ(descriptor, nullptr);
  EXPECT_THAT(LastError(), HasSubstr("cudnnCreateCTCLossDescriptor"));
  EXPECT_EQ(LastError(), "") << "it is said once";
}

TEST_F(CudnnTest, DescriptorsAreChecked) {
  void* const tensor = graph.Tensor(0, {1, 1, 1, 1});
  const std::vector<int64_t> dimensions = {2, 2};
  EXPECT_EQ(
      graph.Set(tensor, Name::kTensorDimensions, AttributeType::kInt64, dimensions),
      kBadParam)
      << "finalized";
  void* const open = graph.New(DescriptorType::kTensor);
  EXPECT_EQ(graph.Set(graph.New(DescriptorType::kOperationMatmul), Name::kMatmulA,
                      AttributeType::kDescriptor, std::vector<void*>{open}),
            kBadParamNotFinalized);
  EXPECT_EQ(graph.Set(open, Name::kTensorDimensions, AttributeType{99}, dimensions),
            kBadParamAttributeType);
  EXPECT_EQ(cudnnBackendSetAttribute(open, Name::kTensorDimensions,
                                     AttributeType::kInt64, 2, nullptr),
            kBadParamNullPointer);
  EXPECT_EQ(cudnnBackendFinalize(graph.New(DescriptorType::kOperationGraph)),
            kBadParam);
  EXPECT_EQ(cudnnBackendFinalize(handle), kBadParam);
  EXPECT_EQ(cudnnBackendCreateDescriptor(DescriptorType{99}, &workspace), kBadParam);
}

TEST_F(CudnnTest, WhatWasSetCanBeAsked) {
  void* const tensor = graph.Tensor(7, {4, 3, 2, 1});
  std::array<int64_t, 3> dimensions{};
  int64_t count = 0;
  ASSERT_EQ(
      cudnnBackendGetAttribute(tensor, Name::kTensorDimensions, AttributeType::kInt64,
                               3, &count, dimensions.data()),
      kSuccess);
  EXPECT_EQ(count, 4);
  EXPECT_THAT(dimensions, ElementsAre(4, 3, 2));
  EXPECT_EQ(
      cudnnBackendGetAttribute(tensor, Name::kTensorDimensions, AttributeType::kBoolean,
                               3, &count, dimensions.data()),
      kBadParamAttributeType);
}

TEST_F(CudnnTest, ExecutionNeedsEveryOutput) {
  void* const plan = Forward({}, NoMask);
  EXPECT_EQ(Execute(plan, {0, 1, 2}), kBadParam);
  EXPECT_THAT(LastError(), HasSubstr("without an address"));
  EXPECT_EQ(cudnnBackendExecute(handle, plan, graph.Pack({3}, {memory[3]}, nullptr)),
            kBadParamSizeInsufficient);
  EXPECT_EQ(cudnnBackendExecute(nullptr, plan, plan), kBadParam);
  EXPECT_TRUE(Kernels().empty());
}

TEST_F(CudnnTest, HandlesHaveAStream) {
  void* stream = nullptr;
  ASSERT_EQ(TheGpu().CreateStream(0, 0, &stream), Error::kSuccess);
  ASSERT_EQ(cudnnSetStream(handle, stream), kSuccess);
  void* found = nullptr;
  ASSERT_EQ(cudnnGetStream(handle, &found), kSuccess);
  EXPECT_EQ(found, stream);
  EXPECT_EQ(cudnnSetStream(nullptr, stream), kBadParam);
  EXPECT_EQ(cudnnGetVersion(), 92600u);
  int minor = 0;
  EXPECT_EQ(cudnnGetProperty(1, &minor), kSuccess);
  EXPECT_EQ(minor, 26);
  EXPECT_EQ(cudnnGetProperty(3, &minor), kBadParam);
  EXPECT_STREQ(cudnnGetErrorString(kNotSupported), "CUDNN_STATUS_NOT_SUPPORTED");
}

}  // namespace
}  // namespace vrank::gpu::dnn
