// What torch._foreach_copy_'s kernels copy, by their names and parameters.

#include "virtual_gpu/core/list_copy_kernel.h"

#include <string>

#include <gtest/gtest.h>

namespace vrank::gpu {
namespace {

std::string Name(const std::string& functor, const std::string& operation) {
  return "_ZN2at6native55_GLOBAL__N__d25d856e_22_ForeachBinaryOpList_cu_a911ec43"
         "25multi_tensor_apply_kernelINS1_18TensorListMetadataILi2EEENS1_" +
         functor + "Li2ELi1ELi1EEEJNS0_" + operation + "EEEEvT_T0_DpT1_";
}

TEST(ListCopyKernelTest, KnowsTheKernelsByTheirNames) {
  EXPECT_EQ(ParseListCopyKernel(Name("14UnaryOpFunctorIl", "4CopyIllE")), 8u);
  EXPECT_EQ(ParseListCopyKernel(Name("14UnaryOpFunctorIb", "4CopyIbbE")), 1u);
  EXPECT_EQ(ParseListCopyKernel(Name("14UnaryOpFunctorIN3c108BFloat16E", "4CopyIffE")),
            2u);
  EXPECT_EQ(ParseListCopyKernel(Name("14UnaryOpFunctorIN3c107complexIdEE", "4CopyI")),
            16u);
  // Another operation, and a copy to another type.
  EXPECT_EQ(ParseListCopyKernel(Name("14UnaryOpFunctorIf", "4SqrtIfE")), 0u);
  EXPECT_EQ(ParseListCopyKernel(Name("11CopyFunctorIlN3c108BFloat16E", "4CopyI")), 0u);
  EXPECT_EQ(ParseListCopyKernel("_Z25multi_tensor_apply_kernelv"), 0u);
}

// TensorListMetadata<2> for parameters of 4 and of 32 KiB.
template <int kTensors, int kBlocks, typename Index>
struct Metadata {
  uint64_t sources[kTensors] = {0x1000, 0x2000};
  uint64_t targets[kTensors] = {0x8000, 0x900000};
  uint64_t counts[kTensors] = {3, 65536 + 7};
  Index tensors[kBlocks] = {0, 1, 1};
  int32_t chunks[kBlocks] = {0, 0, 1};
  int32_t start = 0;
};

template <typename Lists>
void ExpectParts(const Lists& lists) {
  const auto parts =
      ListCopyParts(8, reinterpret_cast<const unsigned char*>(&lists), sizeof lists, 3);
  ASSERT_TRUE(parts.has_value());
  const CopyPart expected[] = {{0x8000, 0x1000, 3 * 8},
                               {0x900000, 0x2000, 65536 * 8},
                               {0x980000, 0x82000, 7 * 8}};
  ASSERT_EQ(parts->size(), std::size(expected));
  for (size_t i = 0; i < parts->size(); ++i) {
    EXPECT_EQ((*parts)[i].to, expected[i].to) << i;
    EXPECT_EQ((*parts)[i].from, expected[i].from) << i;
    EXPECT_EQ((*parts)[i].bytes, expected[i].bytes) << i;
  }
}

TEST(ListCopyKernelTest, ReadsTheLists) {
  ExpectParts(Metadata<64, 320, uint8_t>());
  ExpectParts(Metadata<448, 2240, uint16_t>());
}

TEST(ListCopyKernelTest, DoesNotTrustWhatDoesNotFit) {
  Metadata<64, 320, uint8_t> lists;
  const auto parts = [&](uint64_t bytes, uint32_t blocks) {
    return ListCopyParts(8, reinterpret_cast<const unsigned char*>(&lists), bytes,
                         blocks);
  };
  EXPECT_FALSE(parts(sizeof lists - 8, 3).has_value());
  EXPECT_FALSE(parts(sizeof lists, 321).has_value());
  lists.tensors[1] = 64;
  EXPECT_FALSE(parts(sizeof lists, 3).has_value());
  lists.tensors[1] = 1;
  lists.chunks[2] = 2;
  EXPECT_FALSE(parts(sizeof lists, 3).has_value());
  lists.chunks[2] = -1;
  EXPECT_FALSE(parts(sizeof lists, 3).has_value());
}

}  // namespace
}  // namespace vrank::gpu
