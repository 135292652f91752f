// What torch.cat's kernels copy, by their names and parameters.

#include "virtual_gpu/core/concat_kernel.h"

#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace vrank::gpu {
namespace {

std::string Name(const std::string& kernel, const std::string& arguments) {
  return "_ZN2at6native40_GLOBAL__N__0f1a8107_8_Shape_cu_49f7391c" + kernel +
         "INS1_10OpaqueTypeILj" + arguments + "EEvPT_NS1_25CatArrInputTensorMetadata";
}

TEST(ConcatKernelTest, KnowsTheKernelsByTheirNames) {
  const ConcatKernel aligned = ParseConcatKernel(
      Name("35CatArrayBatchedCopy_alignedK_contig", "8EEEjLi2ELi128ELi1ELi16E"));
  EXPECT_EQ(aligned.element_bytes, 8u);
  EXPECT_EQ(aligned.index_bytes, 4u);
  EXPECT_EQ(aligned.dimensions, 2u);
  EXPECT_EQ(aligned.most_inputs, 128u);
  EXPECT_FALSE(aligned.may_have_strides);
  EXPECT_EQ(aligned.unit_bytes, 8u);
  EXPECT_EQ(ParseConcatKernel(Name("30CatArrayBatchedCopy_vectorized",
                                   "8EEEjLi1ELi128ELi1ELi16ELi2E"))
                .unit_bytes,
            16u);
  EXPECT_TRUE(ParseConcatKernel(Name("19CatArrayBatchedCopy", "2EEEjLi1ELi64ELi64E"))
                  .may_have_strides);
  EXPECT_EQ(
      ParseConcatKernel(Name("26CatArrayBatchedCopy_contig", "1EEEmLi1ELi64ELi1E"))
          .index_bytes,
      8u);
  for (const std::string& other :
       {std::string("_Z19CatArrayBatchedCopyPf"),
        Name("26CatArrayBatchedCopy_contig", "1EEEfLi1ELi64ELi1E"),
        Name("26CatArrayBatchedCopy_contig", "1EEEjLi5ELi64ELi1E"),
        Name("27CatArrayBatchedCopy_another", "1EEEjLi1ELi64ELi1E")})
    EXPECT_EQ(ParseConcatKernel(other).element_bytes, 0u) << other;
}

// The structure of a kernel for two inputs at most, as its parameters hold it.
struct Inputs {
  uint64_t pointers[2] = {0x1000, 0x2000};
  uint32_t offsets[2] = {0, 3};
  uint32_t sizes[2] = {3, 2};
  uint32_t counts[2] = {12, 8};
  bool contiguous[2] = {true, true};
};
struct Shape {
  uint32_t sizes[4] = {5, 4, 0, 0};
  uint32_t strides[4] = {4, 1, 0, 0};
};

class ConcatPartsTest : public testing::Test {
 protected:
  ConcatLaunch Launch() {
    return {.output = 0x9000,
            .inputs = reinterpret_cast<const unsigned char*>(&inputs_),
            .inputs_bytes = sizeof inputs_,
            .shape = reinterpret_cast<const unsigned char*>(&shape_),
            .shape_bytes = sizeof shape_,
            .dimension = dimension_,
            .stride = 4,
            .input_count = count_};
  }
  std::optional<std::vector<CopyPart>> Parts() {
    return ConcatParts(kernel_, Launch());
  }
  ConcatKernel kernel_{.element_bytes = 2,
                       .unit_bytes = 2,
                       .index_bytes = 4,
                       .dimensions = 2,
                       .most_inputs = 2,
                       .may_have_strides = true};
  Inputs inputs_;
  Shape shape_;
  int32_t dimension_ = 0;
  uint32_t count_ = 2;
};

TEST_F(ConcatPartsTest, RowsFollowEachOther) {
  const auto parts = Parts();
  ASSERT_TRUE(parts.has_value());
  ASSERT_EQ(parts->size(), 2u);
  EXPECT_EQ((*parts)[0].to, 0x9000u);
  EXPECT_EQ((*parts)[0].from, 0x1000u);
  EXPECT_EQ((*parts)[0].bytes, 24u);
  EXPECT_EQ((*parts)[1].to, 0x9000u + 3 * 4 * 2);
  EXPECT_EQ((*parts)[1].from, 0x2000u);
  EXPECT_EQ((*parts)[1].bytes, 16u);
}

TEST_F(ConcatPartsTest, OtherDimensionsAndStridesAreNoParts) {
  dimension_ = 1;
  EXPECT_FALSE(Parts().has_value());
  dimension_ = 0;
  inputs_.contiguous[1] = false;
  EXPECT_FALSE(Parts().has_value());
  kernel_.may_have_strides = false;
  EXPECT_TRUE(Parts().has_value());
  shape_.strides[0] = 8;
  EXPECT_FALSE(Parts().has_value());
}

TEST_F(ConcatPartsTest, ParametersOfAnotherSizeAreNone) {
  EXPECT_TRUE(IsConcat(kernel_, Launch()));
  count_ = 3;
  EXPECT_FALSE(IsConcat(kernel_, Launch()));
  count_ = 2;
  kernel_.most_inputs = 3;
  EXPECT_FALSE(IsConcat(kernel_, Launch()));
}

TEST_F(ConcatPartsTest, TheOutputEndsBehindItsLastElement) {
  EXPECT_EQ(ConcatExtent(kernel_, Launch()), 5u * 4 * 2);
  shape_.strides[0] = 6;
  EXPECT_EQ(ConcatExtent(kernel_, Launch()), (4u * 6 + 3 + 1) * 2);
  shape_.sizes[1] = 0;
  EXPECT_EQ(ConcatExtent(kernel_, Launch()), 0u);
}

}  // namespace
}  // namespace vrank::gpu
