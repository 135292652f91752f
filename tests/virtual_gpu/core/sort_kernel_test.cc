// Names of sorts and top-ks, as PyTorch's wheels have them.

#include "virtual_gpu/core/sort_kernel.h"

#include <gtest/gtest.h>

#include "virtual_gpu/core/made_up_choices.h"

namespace vrank::gpu {
namespace {

using Kind = SortKernel::Kind;

TEST(SortKernelTest, KnowsSortsOfSlices) {
  const SortKernel bitonic = ParseSortKernel(
      "_ZN2at6native20bitonicSortKVInPlaceILi2ELin1ELi16ELi16EslNS0_"
      "4LTOpIsLb1EEEjEEvNS_"
      "4cuda6detail10TensorInfoIT3_T6_EES8_S8_S8_NS6_IT4_S8_EES8_T5_");
  EXPECT_EQ(bitonic.kind, Kind::kSlices);
  EXPECT_EQ(bitonic.key, 's');
  EXPECT_FALSE(bitonic.descending);
  const SortKernel merge = ParseSortKernel(
      "_ZN2at6native22warpMergeSortKVInPlaceILi2ELin1ELi128ELi16EN3c104HalfElNS0_"
      "4GTOpIS3_Lb1EEEjLi32EEEvNS_4cuda6detail10TensorInfoIT3_T6_EESA_SA_SA_NS8_IT4_SA_"
      "EESA_T5_S9_");
  EXPECT_EQ(merge.kind, Kind::kSlices);
  EXPECT_EQ(merge.key, 'H');
  EXPECT_TRUE(merge.descending);
  EXPECT_EQ(ParseSortKernel("_ZN2at6native20bitonicSortKVInPlaceILi2ELin1ELi16").kind,
            Kind::kNone);
}

TEST(SortKernelTest, KnowsPartsOfRadixSorts) {
  const std::string begin =
      "_ZN14at_cuda_detail3cub6detail10radix_sort29DeviceRadixSortOnesweepKernelINS1_"
      "5radix10policy_hubIl";
  const SortKernel pairs = ParseSortKernel(
      begin +
      "N2at4cuda3cub6detail10OpaqueTypeILi8EEEyE10Policy1000ELNS0_9SortOrderE1ElSB_"
      "yiiNS1_21identity_decomposer_tEEEv");
  EXPECT_EQ(pairs.kind, Kind::kOnesweep);
  EXPECT_EQ(pairs.key, 'l');
  EXPECT_TRUE(pairs.descending);
  EXPECT_EQ(pairs.value_bytes, 8u);
  const SortKernel keys = ParseSortKernel(
      begin +
      "NS0_8NullTypeEyE10Policy1000ELNS0_9SortOrderE0ElS9_yiiNS1_21identity_"
      "decomposer_tEEEv");
  EXPECT_EQ(keys.kind, Kind::kOnesweep);
  EXPECT_EQ(keys.value_bytes, 0u);
  const SortKernel counts = ParseSortKernel(
      "_ZN14at_cuda_detail3cub6detail10radix_sort30DeviceRadixSortHistogramKernelINS1_"
      "5radix10policy_hubIhNS0_8NullTypeEyE10Policy1000ELNS0_9SortOrderE1EhyNS1_"
      "21identity_"
      "decomposer_tEEEvPT2_PKT1_SB_iiT3_");
  EXPECT_EQ(counts.kind, Kind::kHistogram);
  EXPECT_EQ(counts.key, 'h');
}

TEST(SortKernelTest, KnowsTheTypeOfATopK) {
  EXPECT_EQ(ParseTopK("_ZN2at6native6sbtopk10gatherTopKIN3c104HalfEjLi1ELb0EEEv"), 'H');
  EXPECT_EQ(ParseTopK("_ZN2at6native6sbtopk10gatherTopKIfjLi2ELb0EEEv"), 'f');
  EXPECT_EQ(ParseTopK("_ZN2at6native6sbtopk10gatherTopKIfmLi2ELb0EEEv"), 0);
  EXPECT_EQ(ParseTopK("_ZN2at6native6sbtopk10gatherTopKIljLi2ELb0EEEv"), 0);
}

}  // namespace
}  // namespace vrank::gpu
