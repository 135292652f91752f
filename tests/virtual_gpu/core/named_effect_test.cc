// Which kernels have an effect by their name.

#include "virtual_gpu/core/named_effect.h"

#include <array>
#include <string>

#include <gtest/gtest.h>

namespace vrank::gpu {
namespace {

constexpr std::string_view kList =
    "_ZN2at6native55_GLOBAL__N__c3f04d35_22_MultiTensorApply_cu_25multi_tensor_apply_"
    "kernelINS1_18TensorListMetadataILi3EEE";

// One kernel per rule, in the order of named_effects.def.
constexpr std::array kNames = {
    std::string_view(
        "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEE"
        "St5arrayIPcLm1EEEEviT0_T1_"),
    std::string_view(
        "_ZN2at6native40_GLOBAL__N__0f1a8107_8_Shape_cu_49f7391c35CatArrayBatchedCopy_"
        "alignedK_contigINS1_10OpaqueTypeILj8EEEjLi2ELi128ELi1ELi16EEEvPT_NS1_25CatArr"
        "InputTensorMetadata"),
    kList,
    std::string_view(
        "_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIlNS0_14func_wrapper_tIlZ"
        "NS0_11sum_functorIlllEclERNS_14TensorIteratorEEUlllE_EEjlLi4ELi4EEEEEvT1_"),
    std::string_view("_ZN2at6native28amp_update_scale_cuda_kernelEPfPiPKfddi"),
    std::string_view(
        "_ZN2at6native20bitonicSortKVInPlaceILi2ELin1ELi16ELi16EslNS0_4LTOpIsLb1EEEjEEv"
        "NS_4cuda6detail10TensorInfoIT3_T6_EES8_S8_S8_NS6_IT4_S8_EES8_T5_"),
    std::string_view("_ZN2at6native6sbtopk10gatherTopKIfjLi2ELb0EEEv"),
    std::string_view(
        "_ZN2at4cuda6detail25prepare_grouped_gemm_dataIN7cutlass10bfloat16_tES4_S4_"),
};

TEST(NamedEffectTest, EachNameHasTheEffectOfOneRule) {
  using Rule = std::unique_ptr<const NamedEffect> (*)(std::string_view);
  constexpr Rule kRules[] = {
#define VRANK_NAMED_EFFECT(rule) rule,
#include "virtual_gpu/core/named_effects.def"
#undef VRANK_NAMED_EFFECT
  };
  static_assert(std::size(kRules) == kNames.size());
  for (size_t name = 0; name < kNames.size(); ++name) {
    EXPECT_NE(NewNamedEffect(kNames[name]), nullptr) << kNames[name];
    for (size_t rule = 0; rule < kNames.size(); ++rule)
      EXPECT_EQ(kRules[rule](kNames[name]) != nullptr, rule == name)
          << "rule " << rule << ": " << kNames[name];
  }
}

TEST(NamedEffectTest, OtherKernelsHaveNone) {
  for (const char* name : {"", "_Z6kernelPKfPf", "cublasGemmEx", "_ZN2at6native"})
    EXPECT_EQ(NewNamedEffect(name), nullptr) << name;
}

TEST(NamedEffectTest, KernelsOfTensorListsStateTheList) {
  const auto effect = NewNamedEffect(kList);
  ASSERT_NE(effect, nullptr);
  ASSERT_NE(effect->List(), nullptr);
  EXPECT_EQ(effect->List()->kind, TensorList::Kind::kPlain);
  EXPECT_EQ(effect->List()->depth, 3u);
  EXPECT_EQ(NewNamedEffect(kNames[0])->List(), nullptr);
}

}  // namespace
}  // namespace vrank::gpu
