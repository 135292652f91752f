// Which kernels have an effect by their name.

#include "virtual_gpu/core/named_effect.h"

#include <array>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/guest/tensor_list.h"

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

// Of a launch of so many blocks, in parameter `number`; nullopt: any word may be one.
std::optional<std::vector<uint32_t>> ListedWords(std::string_view kernel,
                                                 uint32_t number, uint32_t blocks,
                                                 const std::vector<unsigned char>& at) {
  KernelLaunch launch;
  launch.grid[0] = blocks;
  std::vector<uint32_t> words;
  const bool listed = NewNamedEffect(kernel)->ForListedWords(
      launch, number, at.data(), static_cast<uint32_t>(at.size()),
      [&](uint32_t word) { words.push_back(word); });
  return listed ? std::optional(words) : std::nullopt;
}

TEST(NamedEffectTest, KernelsOfTensorListsUseTheEntriesOfTheirTensors) {
  const TensorList list{TensorList::Kind::kPlain, 3, 0};
  const TensorListLayout layout = LayOut(list, kShortTensorLists);
  std::vector<unsigned char> bytes(layout.size);
  bytes[layout.tensors + 1] = 1;  // of the second block
  const auto row = static_cast<uint32_t>(layout.counts / list.depth);
  EXPECT_EQ(ListedWords(kList, 0, 2, bytes),
            (std::vector<uint32_t>{0, 8, row, row + 8, 2 * row, 2 * row + 8}));
  EXPECT_FALSE(ListedWords(kList, 1, 2, bytes).has_value());
  bytes.pop_back();
  EXPECT_FALSE(ListedWords(kList, 0, 2, bytes).has_value());
  EXPECT_FALSE(ListedWords(kNames[0], 0, 2, bytes).has_value());
}

TEST(NamedEffectTest, TheLastStepOfANormUsesOneEntryPerBlock) {
  const std::vector<unsigned char> table(400 * 8);
  for (const std::string_view name :
       {"_ZN2at6native14lpnorm_cleanupIfLNS0_8NormTypeE1EfLb1EfEEvPKT3_NS0_"
        "19TensorListAddressesEPKli",
        "_ZN2at6native13lpmax_cleanupIfEEvPKT_NS0_19TensorListAddressesEi"}) {
    EXPECT_EQ(ListedWords(name, 1, 3, table), (std::vector<uint32_t>{0, 8, 16}));
    EXPECT_FALSE(ListedWords(name, 0, 3, table).has_value());
    EXPECT_FALSE(ListedWords(name, 1, 401, table).has_value());
  }
}

}  // namespace
}  // namespace vrank::gpu
