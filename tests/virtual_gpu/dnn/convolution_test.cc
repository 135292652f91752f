// Convolutions by libcudnn, called as PyTorch calls it, over the virtual GPU on a fake
// channel.

#include <numeric>
#include <string>

#include "tests/virtual_gpu/dnn/dnn_fixture.h"
#include "virtual_gpu/api/dnn/convolution_kernels.h"

namespace vrank::gpu::dnn {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

constexpr int kAdd = 0, kRelu = 100;
constexpr auto kForward = DescriptorType::kOperationConvolutionForward;
constexpr auto kBackData = DescriptorType::kOperationConvolutionBackwardData;
constexpr auto kBackFilter = DescriptorType::kOperationConvolutionBackwardFilter;

class ConvolutionTest : public DnnTest {
 protected:
  static constexpr int64_t kX = 0, kW = 1, kY = 2, kZ = 3, kBias = 4;

  struct Case {
    std::vector<int64_t> x = {2, 64, 32, 32};
    std::vector<int64_t> w = {128, 64, 3, 3};
    std::vector<int64_t> y = {2, 128, 32, 32};
    DataType type = DataType::kBfloat16;
    bool channels_last = true;
    int64_t stride = 1, dilation = 1;
  };

  static std::vector<int64_t> Strides(const std::vector<int64_t>& dimensions,
                                      bool channels_last) {
    std::vector<int64_t> strides(dimensions.size(), 1);
    int64_t stride = channels_last ? dimensions[1] : 1;
    for (size_t i = dimensions.size(); i-- > 0;) {
      if (i == 1 && channels_last)
        continue;
      strides[i] = stride;
      stride *= dimensions[i];
    }
    return strides;
  }
  void* Tensor(int64_t id, const std::vector<int64_t>& dimensions, const Case& c) {
    return graph.Tensor(id, dimensions, Strides(dimensions, c.channels_last), c.type);
  }
  // The operation; `result` in place of the tensor that a forward pass makes.
  void Add(DescriptorType pass, const Case& c, void* result = nullptr) {
    const size_t in_space = c.x.size() - 2;
    void* const how = graph.New(DescriptorType::kConvolution);
    graph.Set(how, Name::kConvolutionStrides, AttributeType::kInt64,
              std::vector<int64_t>(in_space, c.stride));
    graph.Set(how, Name::kConvolutionDilations, AttributeType::kInt64,
              std::vector<int64_t>(in_space, c.dilation));
    graph.Finalize(how);
    void *const x = Tensor(kX, c.x, c), *const w = Tensor(kW, c.w, c);
    void* const y = result != nullptr ? result : Tensor(kY, c.y, c);
    if (pass == kForward)
      graph.Add(pass, {{Name::kForwardX, x},
                       {Name::kForwardW, w},
                       {Name::kForwardY, y},
                       {Name::kForwardConvolution, how}});
    else if (pass == kBackData)
      graph.Add(pass, {{Name::kBackwardDataDx, x},
                       {Name::kBackwardDataW, w},
                       {Name::kBackwardDataDy, y},
                       {Name::kBackwardDataConvolution, how}});
    else
      graph.Add(pass, {{Name::kBackwardFilterX, x},
                       {Name::kBackwardFilterDw, w},
                       {Name::kBackwardFilterDy, y},
                       {Name::kBackwardFilterConvolution, how}});
  }
  // Notes of an engine configuration's engine.
  std::vector<NumericalNote> NotesOf(void* config) {
    void* engine = graph.New(DescriptorType::kEngine);
    EXPECT_EQ(cudnnBackendGetAttribute(config, Name::kEngineConfigEngine,
                                       AttributeType::kDescriptor, 1, nullptr, &engine),
              kSuccess);
    std::array<NumericalNote, 10> notes{};
    int64_t given = -1;
    EXPECT_EQ(cudnnBackendGetAttribute(engine, Name::kEngineNumericalNotes,
                                       AttributeType::kNumericalNote, 10, &given,
                                       notes.data()),
              kSuccess);
    return {notes.begin(), notes.begin() + given};
  }
  static ConvolutionArguments NumbersOf(const FakeChannel::Written& kernel) {
    return ArgumentsOf<ConvolutionArguments>(kernel);
  }
};

TEST_F(ConvolutionTest, ChannelsLastIsOneKernelWithoutAWorkspace) {
  Add(kForward, {});
  void* const plan = graph.Plan();
  ASSERT_NE(plan, nullptr);
  EXPECT_EQ(graph.Workspace(plan), 0);
  ASSERT_EQ(Execute(plan, {kX, kY, kW}, nullptr), kSuccess) << LastError();
  ASSERT_EQ(Kernels().size(), 1u);
  EXPECT_THAT(Names()[0], StartsWith("sm90_xmma_fprop_implicit_gemm_bf16bf16_bf16f32"));
  const ConvolutionArguments numbers = NumbersOf(Kernels()[0]);
  EXPECT_EQ(numbers.pixels, 2u * 32 * 32);
  EXPECT_EQ(numbers.filters, 128u);
  EXPECT_EQ(numbers.products, 64u * 9);
  EXPECT_EQ(numbers.depth, 64u * 9);
  EXPECT_EQ(numbers.read_bytes, 2u * (2 * 64 * 1024 + 128 * 64 * 9));
  EXPECT_EQ(numbers.written_bytes, 2u * 2 * 128 * 1024);
  EXPECT_TRUE(IsComputed(memory[kY]));
  EXPECT_FALSE(IsComputed(memory[kX]));
  EXPECT_FALSE(IsComputed(memory[kW]));
}

TEST_F(ConvolutionTest, TilesCoverTheResult) {
  Add(kForward,
      {.x = {32, 256, 14, 14}, .w = {256, 256, 3, 3}, .y = {32, 256, 14, 14}});
  ASSERT_EQ(Execute(graph.Plan(), {kX, kY, kW}, nullptr), kSuccess);
  // 6,272 pixels and 256 filters in tiles of 128 x 128.
  EXPECT_THAT(Names()[0], HasSubstr("_tilesize128x128x64_"));
  EXPECT_THAT(Kernels()[0].as<protocol::Kernel>().grid, ElementsAre(2, 49, 1));
  EXPECT_EQ(NumbersOf(Kernels()[0]).tiles, 98u);
}

TEST_F(ConvolutionTest, ContiguousImagesAreConvertedInTheWorkspace) {
  Add(kForward, {.channels_last = false});
  void* const plan = graph.Plan();
  const int64_t x = 2 * 2 * 64 * 1024, w = 2 * 128 * 64 * 9, y = 2 * 2 * 128 * 1024;
  EXPECT_EQ(graph.Workspace(plan), x + w + y);
  EXPECT_EQ(Execute(plan, {kX, kY, kW}, nullptr), kBadParamSizeInsufficient);
  ASSERT_EQ(Execute(plan, {kX, kY, kW}), kSuccess);
  const std::vector<std::string> names = Names();
  ASSERT_EQ(names.size(), 4u);
  EXPECT_THAT(names[0], HasSubstr("nchwToNhwcKernelI13__nv_bfloat16"));
  EXPECT_THAT(names[1], HasSubstr("nchwToNhwcKernel"));
  EXPECT_THAT(names[2], HasSubstr("xmma_fprop"));
  EXPECT_THAT(names[3], HasSubstr("nhwcToNchwKernel"));
  // Blocks of 32 pixels and 32 channels of an image.
  EXPECT_THAT(Kernels()[0].as<protocol::Kernel>().grid, ElementsAre(32, 2, 2));
  EXPECT_TRUE(IsComputed(memory[kY]));
}

// As in squeeze and excitation.
TEST_F(ConvolutionTest, AnImageOfOnePixelLiesInBothLayouts) {
  Add(kForward, {.x = {2, 64, 1, 1},
                 .w = {128, 64, 1, 1},
                 .y = {2, 128, 1, 1},
                 .channels_last = false});
  ASSERT_EQ(Execute(graph.Plan(), {kX, kY, kW}, nullptr), kSuccess);
  EXPECT_EQ(Kernels().size(), 1u);
}

TEST_F(ConvolutionTest, ChannelsAreFilledUp) {
  Add(kForward, {.x = {2, 3, 32, 32}, .w = {64, 3, 7, 7}, .y = {2, 64, 32, 32}});
  void* const plan = graph.Plan();
  EXPECT_EQ(graph.Workspace(plan), 2 * (2 * 8 * 1024 + 64 * 8 * 49));
  ASSERT_EQ(Execute(plan, {kX, kY, kW}), kSuccess);
  ASSERT_EQ(Names().size(), 3u);
  EXPECT_THAT(Names()[0], HasSubstr("nhwcAddPaddingKernel"));
  // What counts is what the program asked for.
  EXPECT_EQ(NumbersOf(Kernels()[2]).products, 3u * 49);
}

TEST_F(ConvolutionTest, TheWayBackWritesDataOrFilters) {
  Add(kBackData, {.y = {2, 128, 16, 16}, .stride = 2});
  ASSERT_EQ(Execute(graph.Plan(), {kX, kY, kW}, nullptr), kSuccess);
  EXPECT_THAT(Names()[0], HasSubstr("xmma_dgrad"));
  // A quarter of the taps meets each pixel; the FLOPs are those of the way forward.
  EXPECT_EQ(NumbersOf(Kernels()[0]).depth, 128u * 9 / 4);
  EXPECT_EQ(NumbersOf(Kernels()[0]).pixels, 2u * 16 * 16);
  EXPECT_TRUE(IsComputed(memory[kX]));
  EXPECT_FALSE(IsComputed(memory[kY]));
}

TEST_F(ConvolutionTest, SumsBackToTheFilterAreCutIntoParts) {
  Add(kBackFilter,
      {.x = {32, 128, 28, 28}, .w = {128, 128, 3, 3}, .y = {32, 128, 28, 28}});
  void* const plan = graph.Plan();
  // 9 tiles: 14 parts on 132 multiprocessors, each with sums of its own.
  EXPECT_EQ(graph.Workspace(plan), 14 * 4 * 128 * 128 * 9);
  ASSERT_EQ(Execute(plan, {kX, kY, kW}), kSuccess);
  ASSERT_EQ(Names().size(), 2u);
  EXPECT_THAT(Kernels()[0].as<protocol::Kernel>().grid, ElementsAre(9, 1, 14));
  EXPECT_EQ(NumbersOf(Kernels()[0]).depth, 32u * 784 / 14);
  EXPECT_THAT(Names()[1], HasSubstr("execute_split_k_kernel"));
  EXPECT_TRUE(IsComputed(memory[kW]));
}

TEST_F(ConvolutionTest, Float32HasAnEngineWithoutTensorCores) {
  Add(kForward, {.type = DataType::kFloat, .channels_last = false});
  const std::vector<void*> configs = graph.Configurations();
  ASSERT_EQ(configs.size(), 2u);
  EXPECT_THAT(NotesOf(configs[0]), ElementsAre(kTensorCore));
  EXPECT_THAT(NotesOf(configs[1]), Not(Contains(kTensorCore)));
  ASSERT_EQ(Execute(graph.Plan(configs[0]), {kX, kY, kW}), kSuccess);
  EXPECT_THAT(Names(), Contains(HasSubstr("xmma_fprop_implicit_gemm_f32f32_tf32f32")));
  TheChannel().Clear();
  void* const exact = graph.Plan(configs[1]);
  EXPECT_EQ(graph.Workspace(exact), 0);
  ASSERT_EQ(Execute(exact, {kX, kY, kW}, nullptr), kSuccess);
  EXPECT_THAT(Names(), ElementsAre(HasSubstr("scudnn_winograd")));
}

TEST_F(ConvolutionTest, HalfHasOneEngine) {
  Add(kForward, {.type = DataType::kHalf});
  const std::vector<void*> configs = graph.Configurations();
  ASSERT_EQ(configs.size(), 1u);
  EXPECT_THAT(NotesOf(configs[0]), ElementsAre(kTensorCore));
}

TEST_F(ConvolutionTest, AFilterOfOneTapIsAProductPerImage) {
  const Case c = {
      .w = {128, 64, 1, 1}, .type = DataType::kFloat, .channels_last = false};
  Add(kForward, c);
  ASSERT_EQ(Execute(graph.Plan(), {kX, kY, kW}, nullptr), kSuccess);
  EXPECT_THAT(Names(),
              ElementsAre(HasSubstr("cutlass_80_tensorop_s1688gemm_256x64_16x4_nn")));
  // 1,024 pixels in tiles of 256, 128 filters in tiles of 64, two images.
  EXPECT_THAT(Kernels()[0].as<protocol::Kernel>().grid, ElementsAre(8, 1, 2));
}

TEST_F(ConvolutionTest, DepthwiseInChannelsLastHasKernelsOfItsOwn) {
  const Case c = {.w = {64, 1, 7, 7}, .y = {2, 64, 32, 32}};
  Add(kBackFilter, c);
  ASSERT_EQ(Execute(graph.Plan(), {kX, kY, kW}), kSuccess);
  EXPECT_THAT(Names(), ElementsAre(HasSubstr("25wgrad2d_c1_k1_nhwc_kernel"),
                                   HasSubstr("wgrad2d_c1_k1_nhwc_reduction_kernel")));
  EXPECT_EQ(NumbersOf(Kernels()[0]).products, 49u);
  EXPECT_TRUE(IsComputed(memory[kW]));
}

TEST_F(ConvolutionTest, NarrowGroupsShareATile) {
  const Case c = {.x = {2, 256, 32, 32}, .w = {256, 8, 3, 3}, .y = {2, 256, 32, 32}};
  Add(kForward, c);
  ASSERT_EQ(Execute(graph.Plan(), {kX, kY, kW}, nullptr), kSuccess);
  EXPECT_THAT(Names()[0], HasSubstr("_g8_"));
  // 32 groups of 8 filters, eight of them side by side.
  EXPECT_EQ(Kernels()[0].as<protocol::Kernel>().grid[2], 4u);
  EXPECT_EQ(NumbersOf(Kernels()[0]).products, 8u * 9);
  EXPECT_EQ(NumbersOf(Kernels()[0]).depth, 64u * 9);
}

TEST_F(ConvolutionTest, GroupsOfOddWidthTakeVectorUnits) {
  const Case c = {.x = {2, 6, 32, 32},
                  .w = {6, 3, 3, 3},
                  .y = {2, 6, 32, 32},
                  .type = DataType::kFloat};
  Add(kForward, c);
  ASSERT_EQ(graph.Configurations().size(), 1u);
  ASSERT_EQ(Execute(graph.Plan(), {kX, kY, kW}, nullptr), kSuccess);
  EXPECT_THAT(Names(), ElementsAre(HasSubstr("conv2d_grouped_direct_kernel")));
}

TEST_F(ConvolutionTest, ThreeDimensionsAndDouble) {
  const Case c = {.x = {2, 8, 4, 16, 16},
                  .w = {16, 8, 3, 3, 3},
                  .y = {2, 16, 4, 16, 16},
                  .type = DataType::kDouble,
                  .channels_last = false};
  Add(kForward, c);
  ASSERT_EQ(Execute(graph.Plan(), {kX, kY, kW}), kSuccess);
  const FakeChannel::Written main = Kernels().back();
  EXPECT_THAT(NameOf(main), HasSubstr("dcudnn"));
  EXPECT_EQ(NumbersOf(main).products, 8u * 27);
  EXPECT_EQ(NumbersOf(main).pixels, 2u * 4 * 16 * 16);
}

TEST_F(ConvolutionTest, ABiasAndAnActivationAreFused) {
  const Case c;
  void *const sum = graph.Virtual(10, c.y), *const added = graph.Virtual(11, c.y),
              *const biased = graph.Virtual(12, c.y);
  Add(kForward, c, sum);
  graph.Pointwise(kAdd, sum, Tensor(kZ, c.y, c), added);
  graph.Pointwise(kAdd, added, Tensor(kBias, {1, 128, 1, 1}, c), biased);
  graph.Pointwise(kRelu, biased, nullptr, Tensor(kY, c.y, c));
  ASSERT_EQ(Execute(graph.Plan(), {kX, kY, kW, kZ, kBias}, nullptr), kSuccess);
  ASSERT_EQ(Kernels().size(), 1u);
  EXPECT_EQ(NumbersOf(Kernels()[0]).read_bytes,
            2u * (2 * 64 * 1024 + 128 * 64 * 9 + 2 * 128 * 1024 + 128));
  EXPECT_TRUE(IsComputed(memory[kY]));
  EXPECT_FALSE(IsComputed(memory[kZ]));
}

TEST_F(ConvolutionTest, OtherFusionsHaveNoEngine) {
  const uint64_t refused = TheChannel().Lost(LossId::kRefusedCall);
  const Case c;
  void* const sum = graph.Virtual(10, c.y);
  Add(kForward, c, sum);
  graph.Add(DescriptorType::kOperationReduction,
            {{Name::kReductionY, Tensor(kY, c.y, c)}});
  EXPECT_EQ(graph.Plan(), nullptr);
  EXPECT_GT(TheChannel().Lost(LossId::kRefusedCall), refused);
}

TEST_F(ConvolutionTest, ShapesThatDoNotFitHaveNoEngine) {
  Add(kForward, {.w = {128, 48, 3, 3}});
  EXPECT_EQ(graph.Plan(), nullptr);
}

TEST_F(ConvolutionTest, TypesWithoutAModelHaveNoEngine) {
  Add(kForward, {.type = DataType{3}});  // CUDNN_DATA_INT8
  EXPECT_EQ(graph.Plan(), nullptr);
}

// As cuDNN's frontend does for plans by their tag.
TEST_F(ConvolutionTest, AnEngineIsFoundByItsIndex) {
  Add(kForward, {.type = DataType::kFloat});
  void* const made = graph.Graph();
  for (int64_t index : {0, 1, 2}) {
    void* const engine = graph.New(DescriptorType::kEngine);
    graph.Link(engine, Name::kEngineGraph, {made});
    graph.Set<int64_t>(engine, Name::kEngineIndex, AttributeType::kInt64, {index});
    graph.Finalize(engine);
    void* const config = graph.New(DescriptorType::kEngineConfig);
    graph.Link(config, Name::kEngineConfigEngine, {engine});
    graph.Finalize(config);
    void* const plan = graph.New(DescriptorType::kExecutionPlan);
    graph.Link(plan, Name::kPlanEngineConfig, {config});
    EXPECT_EQ(cudnnBackendFinalize(plan),
              index < 2 ? kSuccess : kNotSupportedGraphPattern)
        << index;
  }
}

TEST_F(ConvolutionTest, ACapturedConvolutionRunsWithItsGraph) {
  Add(kForward, {});
  void* const plan = graph.Plan();
  void* stream = nullptr;
  ASSERT_EQ(TheGpu().CreateStream(0, 0, &stream), Error::kSuccess);
  ASSERT_EQ(cudnnSetStream(handle, stream), kSuccess);
  Graphs& graphs = TheGpu().graphs();
  ASSERT_EQ(graphs.BeginCapture(stream, CaptureMode::kGlobal, nullptr, {}),
            Error::kSuccess);
  ASSERT_EQ(Execute(plan, {kX, kY, kW}, nullptr), kSuccess);
  EXPECT_THAT(Names(), IsEmpty());
  EXPECT_FALSE(IsComputed(memory[kY]));
  void* captured = nullptr;
  ASSERT_EQ(graphs.EndCapture(stream, &captured), Error::kSuccess);
  std::vector<void*> nodes;
  ASSERT_EQ(graphs.GetNodes(captured, &nodes), Error::kSuccess);
  EXPECT_EQ(nodes.size(), 1u);
  EXPECT_EQ(graphs.Destroy(captured), Error::kSuccess);
}

}  // namespace
}  // namespace vrank::gpu::dnn
