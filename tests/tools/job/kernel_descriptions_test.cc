// vrank's own descriptions of kernels come behind those that are given.

#include "tools/job/kernel_descriptions.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tools/job/job_flags.h"
#include "tools/job/program_fingerprint.h"

namespace vrank::tools {
namespace {

// torch.full of floats.
constexpr char kFill[] =
    "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEESt5arrayIPcL"
    "m1EEEEviT0_T1_";

// What a kernel moves, by what its launch holds where its description looks: arguments
// by position, then fields.
struct DescribedLaunch {
  const char* mangled;
  std::vector<double> values;
  double bytes;
};

class KernelDescriptionsTest : public testing::Test {
 protected:
  KernelDescriptionsTest()
      : folder_(fmt::format("{}/descriptions_{}", testing::TempDir(), getpid())),
        installation_(*FindInstallation()),
        own_(installation_.data_dir + "/kernels/pytorch.textproto") {
    std::filesystem::create_directories(folder_);
  }
  ~KernelDescriptionsTest() override { std::filesystem::remove_all(folder_); }

  std::string Write(const std::string& text) {
    const std::string path = folder_ + "/costs.textproto";
    std::ofstream(path) << text;
    return path;
  }

  const std::string folder_;
  const Installation installation_;
  const std::string own_;
};

TEST_F(KernelDescriptionsTest, KnowsPyTorchsKernelsUnasked) {
  const auto costs = ReadKernelCosts({}, installation_);
  ASSERT_TRUE(costs.ok()) << costs.status();
  EXPECT_NE(costs->Find(kFill), nullptr);
  EXPECT_EQ(costs->Find("_Z5scalePfif"), nullptr);
}

TEST_F(KernelDescriptionsTest, SaysWhatPyTorchsKernelsMove) {
  const DescribedLaunch launches[] = {
      // F.interpolate of 5 x 37 images of 131 x 117 to 223 x 259, nearest: images
      // and both sizes.
      {"_ZN2at6native53_GLOBAL__N__222ba01c_20_UpSampleNearest2d_cu_198c5ce228upsample"
       "_nearest2d_out_frameIfXadL_ZNS0_43nearest_neighbor_exact_compute_source_indexE"
       "fiiEEEEvPKT_PS3_mmmmmff",
       {185, 131, 117, 223, 259},
       4 * 185 * (131 * 117 + 223 * 259)},
      // The same, bilinear: sizes behind the pointers of both tensors.
      {"_ZN2at6native54_GLOBAL__N__483be8b1_21_UpSampleBilinear2d_cu_607db5e3L29upsamp"
       "le_bilinear2d_out_frameIffEEviT0_S3_bN5torch10headeronly6detail27GenericPacked"
       "TensorAccessorINS6_14TensorAccessorIN3c108ArrayRefIlEEKT_Lm3ENS5_16DefaultPtrT"
       "raitsElEENS_6detail16IndexBoundsCheckILm4ElEESD_Lm4ESE_lEENS7_INS8_ISB_SC_Lm3E"
       "SE_lEESI_SC_Lm4ESE_lEE",
       {5, 37, 131, 117, 223, 259},
       4 * 185 * (131 * 117 + 223 * 259)},
      // Batch normalisation of 1,000 rows of 64 channels in bf16, the sums on the
      // way back.
      {"_ZN2at6native47batch_norm_backward_reduce_channels_last_kernelILi4EN3c108BFloa"
       "t16EfS3_EEvPKT0_S6_PKT1_S9_PS7_SA_PT2_SC_PVS7_Piii",
       {1000, 64},
       2 * 2 * 64000 + 24 * 64},
      // Its moments where pixels come last.
      {"_ZN2at6native36batch_norm_collect_statistics_kernelINS0_3VarEfffiEEvN5torch10h"
       "eaderonly6detail27GenericPackedTensorAccessorINS5_14TensorAccessorIN3c108Array"
       "RefIlEEKT0_Lm2ENS4_17RestrictPtrTraitsET3_EENS_6detail16IndexBoundsCheckILm3ES"
       "E_EESC_Lm3ESD_SE_EET2_SK_NS6_INS7_ISA_SK_Lm0ESD_SE_EENSH_ILm1ESE_EESK_Lm1ESD_S"
       "E_EESN_",
       {2, 64, 1000},
       4 * 128000 + 8 * 64},
      // torch.topk of three long rows, two blocks each: one pass that counts digits.
      {"_ZN2at6native6mbtopk23computeBlockDigitCountsIfjjLi2EEEvNS_4cuda6detail10Tenso"
       "rInfoIKT_T0_EEjPjjS8_iijT1_PSB_Ps",
       {1000000, 3, 2},
       3 * (4000000 + 2 * 512)},
      // torch.cumsum of one row in bf16.
      {"_ZN14at_cuda_detail3cub6detail4scan16DeviceScanKernelINS2_10policy_hubIN3c108B"
       "Float16ES6_S6_jSt4plusIS6_EE10Policy1000EPKS6_PS6_NS0_13ScanTileStateIS6_Lb0EE"
       "ES8_NS0_8NullTypeEjS6_Lb0ESG_EEvT0_T1_T2_iT3_T4_T5_",
       {1000},
       4000},
      // torch.cummin of three rows.
      {"_ZN2at6native45tensor_kernel_scan_innermost_dim_with_indicesIfSt10less_equalIf"
       "EEEvPKT_PS4_PliijjS4_T0_",
       {3, 1000},
       3000 * (4 + 4 + 8)},
      // torch.aminmax of three rows, a row to a block of 32 threads.
      {"_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIfNS0_9MinMaxOpsIffiEEjfLi"
       "4ELi4EEEEEvT1_",
       {1000, 3, 1, 32, 0, 1, 4},
       3 * (4000 + 8)},
      // F.max_pool2d of one image of 20 x 20 to 10 x 10.
      {"_ZN2at6native52_GLOBAL__N__e57809e0_19_DilatedMaxPool2d_cu_6258b574L21max_pool"
       "_forward_nchwIfiEEvT0_PKT_llliiiiiiiiiiPS4_Pl",
       {100, 20, 20, 10, 10, 3, 3},
       4 * 400 + (4 + 8) * 100},
      // torch.prod of three rows in bf16, which float accumulates, and in double.
      {"reduction_prod_kernel", {4, 1000, 3, 1, 2, 1, 2000}, 3 * (2000 + 2)},
      {"reduction_prod_kernel", {0, 8, 1000, 3, 8, 1, 8000}, 3 * (8000 + 8)},
  };
  auto costs = ReadKernelCosts({}, installation_);
  ASSERT_TRUE(costs.ok()) << costs.status();
  for (const DescribedLaunch& launch : launches) {
    std::vector<double> captures;
    const auto* entry = costs->Find(launch.mangled, &captures);
    ASSERT_NE(entry, nullptr) << launch.mangled;
    ASSERT_EQ(entry->arguments.size() + entry->fields.size(), launch.values.size())
        << launch.mangled;
    const auto work =
        costs->Evaluate(*entry, {{8, 1, 1}, {256, 1, 1}, 0}, launch.values, captures);
    ASSERT_TRUE(work.ok()) << work.status();
    EXPECT_DOUBLE_EQ(work->bytes, launch.bytes) << launch.mangled;
  }
}

// What is read off machine code goes by the template's numbers: dimensions of a
// concatenation by strides (two tensors, one of them contiguous), the elements that a
// reduction loads at once, and whether blocks are whole where RMS normalisation sums up
// its weight's gradient.
TEST_F(KernelDescriptionsTest, CountsTheInstructionsOfLoopsByTheirTemplates) {
  struct Case {
    std::string mangled;
    std::vector<double> values;
    double instructions, flight;
  };
  const auto concatenation = [](int element, int dimensions) {
    return fmt::format(
        "_ZN2at6native40_GLOBAL__N__0f1a8107_8_Shape_cu_49f7391c19CatArrayBatchedCopyIN"
        "S1_10OpaqueTypeILj{}EEEjLi{}ELi64ELi64EEEvPT_NS1_25CatArrInputTensorMetadataIS"
        "5_T0_XT2_EXT3_EEENS1_16TensorSizeStrideIS8_Lj4EEEiS8_",
        element, dimensions);
  };
  const auto weights = [](const char* type, const char* parameters, bool whole,
                          bool rms) {
    return fmt::format(
        "_ZN2at6native53_GLOBAL__N__21739cd4_20_layer_norm_kernel_cu_"
        "9c5ada8a35GammaBeta"
        "BackwardCUDAKernelTemplateI{}fLj32ELj32ELj256ELb0ELb{}ELb{}EEEvllPKT_{}",
        type, whole ? 1 : 0, rms ? 1 : 0, parameters);
  };
  const auto rms = [&](const char* type, const char* parameters, bool whole) {
    return weights(type, parameters, whole, true);
  };
  const auto layer = [&](const char* type, const char* parameters, bool whole) {
    return weights(type, parameters, whole, false);
  };
  constexpr char kLayerNorm[] =
      "_ZN2at6native53_GLOBAL__N__21739cd4_20_layer_norm_kernel_cu_9c5ada8a28vectorized"
      "_layer_norm_kernelIffLb0EEEviT0_PKT_S6_S6_PS3_S7_PS4_";
  constexpr char kMoments[] =
      "_ZN2at6native50batch_norm_collect_statistics_channels_last_kernelINS0_3VarEN3c1"
      "08BFloat16EfLi4EEEvPKT0_PT1_S9_PVS8_PiiiS8_";
  const char* const bf16 = "N3c108BFloat16E";
  const char* const of_bf16 = "S7_PKT0_SA_PS5_SB_";
  const std::string sum =
      "_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIN3c108BFloat16ENS0_14func_"
      "wrapper_tIfZNS0_11sum_functorIS4_ffEclERNS_14TensorIteratorEEUlffE_"
      "EEjfLi4ELi8EEE"
      "EEvT1_";
  const Case cases[] = {
      // Half of the threads, a row of blocks, work on each of two equal tensors, and
      // less than that work in the end where one is larger.
      {concatenation(2, 4), {2000, 2000, 1}, 1000 * (46 + 96), 2 * 2 / 1.5 / 2},
      {concatenation(4, 3), {2000, 1000, 0}, 2000 * 60, 2 * 4 / 1.5},
      {concatenation(8, 2), {2000, 1600, 2}, 2000 * 22, 2 * 8 / 1.5 / 1.6},
      {rms(bf16, of_bf16, true), {1024, 64}, 14.5 * 65536 * 132 / 2, 32},
      {rms(bf16, of_bf16, false), {1000, 64}, 40 * 64000 * 132 / 2, 32},
      {rms("f", "S5_PKT0_S8_PS3_S9_", true), {1024, 64}, 12.5 * 65536 * 132 / 2, 64},
      // Layer normalisation likewise. Forward all threads join the moments, whatever
      // the row.
      {layer("f", "S5_PKT0_S8_PS3_S9_", true), {1024, 64}, 16.5 * 65536 * 132 / 2, 64},
      {layer("f", "S5_PKT0_S8_PS3_S9_", false), {1000, 64}, 21 * 64000 * 132 / 2, 64},
      {kLayerNorm, {128}, 1024 * 350 + 26 * 128, 0},
      {kLayerNorm, {1024}, 1024 * 350 + 26 * 1024, 0},
      // Moments of channels last: each element is waited for, in bf16.
      {kMoments, {1000, 64}, 37 * 64000 * 132 / 2, 2},
      // Rows of an index of 8 bytes: a block for each at most.
      {"_ZN2at6native24vectorized_gather_kernelILi16ElEEvPcS2_PT0_illllb",
       {2, 48},
       158 * 128 * 2,
       0},
      // A row of 4,096 a warp: from L2 where all are few, from memory where they are
      // not.
      {sum, {4096, 16, 1, 32, 0, 1, 1}, 0, 2 * 8 * 2.4},
      {sum, {4096, 2048, 1, 32, 0, 1, 1}, 0, 2 * 8},
  };
  auto costs = ReadKernelCosts({}, installation_);
  ASSERT_TRUE(costs.ok()) << costs.status();
  graph::Launch launch = {{1, 2, 1}, {512, 1, 1}, 0};
  launch.multiprocessors = 132;
  for (const Case& c : cases) {
    std::vector<double> captures;
    const auto* entry = costs->Find(c.mangled, &captures);
    ASSERT_NE(entry, nullptr) << c.mangled;
    ASSERT_EQ(entry->arguments.size() + entry->fields.size(), c.values.size());
    const auto work = costs->Evaluate(*entry, launch, c.values, captures);
    ASSERT_TRUE(work.ok()) << work.status();
    EXPECT_DOUBLE_EQ(work->instructions, c.instructions) << c.mangled;
    EXPECT_DOUBLE_EQ(work->flight, c.flight) << c.mangled;
  }
}

// A loss has one block, which goes over its rows round by round; both ways count rows,
// not classes.
TEST_F(KernelDescriptionsTest, GoesOverTheRowsOfALossByOneBlock) {
  auto costs = ReadKernelCosts({}, installation_);
  ASSERT_TRUE(costs.ok()) << costs.status();
  const auto* entry = costs->Find(
      "_ZN2at6native39_GLOBAL__N__5cd812b1_7_Loss_cu_5b0651e139nll_loss_backward_reduce"
      "_cuda_kernel_2dIflEEvPT_PKS3_PKT0_S6_S6_biill");
  ASSERT_NE(entry, nullptr);
  ASSERT_EQ(entry->arguments, std::vector<uint32_t>{6});
  const std::vector<double> captures = {4};
  double before = 0;
  for (const double rows : {64, 1024, 8192, 100'000}) {
    const std::vector<double> values = {rows};
    const auto work =
        costs->Evaluate(*entry, {{1, 1, 1}, {1024, 1, 1}, 0}, values, captures);
    ASSERT_TRUE(work.ok()) << work.status();
    EXPECT_GT(work->exchanges, before);
    EXPECT_EQ(work->flight, 12);
    before = work->exchanges;
  }
}

TEST_F(KernelDescriptionsTest, TakesWhatIsGivenFirst) {
  const auto own = ReadKernelCosts({own_}, installation_);
  ASSERT_TRUE(own.ok()) << own.status();
  EXPECT_GT(own->Find(kFill)->index, 0u);  // not the file's first
  const auto given = ReadKernelCosts(
      {Write(R"(kernel { regex: ".*FillFunctor<float>.*" bytes: "1" flops: "0" })")},
      installation_);
  ASSERT_TRUE(given.ok()) << given.status();
  EXPECT_EQ(given->Find(kFill)->index, 0u);
}

TEST_F(KernelDescriptionsTest, DoNotCountAsStatedCosts) {
  JobFlags flags;
  flags.kernels = {own_};
  EXPECT_EQ(*CostOptions(flags), "");
  flags.kernels.push_back(Write("# none\n"));
  EXPECT_EQ(CostOptions(flags)->rfind("costs.textproto:", 0), 0u);
}

}  // namespace
}  // namespace vrank::tools
