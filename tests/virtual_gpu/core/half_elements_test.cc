// What is computed in half precision: the class is spelled out in a name, and referred
// to.

#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/virtual_gpu/core/element_names.h"
#include "virtual_gpu/core/element_kernel.h"

namespace vrank::gpu {
namespace {

using Function = ElementKernel::Function;

// Names as libtorch_cuda 2.11 registers them.
constexpr char kCast[] =
    "_ZN2at6native27unrolled_elementwise_kernelIZZZNS0_23direct_copy_kernel_cudaERNS_"
    "18TensorIteratorBaseEENKUlvE1_clEvENKUlvE2_clEvEUlN3c108BFloat16EE_"
    "St5arrayIPcLm2EELi4E23TrivialOffsetCalculatorILi1EjESB_NS0_6memory12LoadWithCastI"
    "Li1EEENSC_13StoreWithCastILi1EEEEEviT_T0_T2_T3_T4_T5_";

TEST(HalfElementsTest, ComparesAndTakesSignsOff) {
  const std::string equal =
      "NS0_13BinaryFunctorIN3c108BFloat16ES4_bNS0_51_GLOBAL__N__28ce311f_18_"
      "CompareEQKernel_cu_d8008c9616CompareEqFunctorIS4_EEEE";
  const ElementKernel bfloat = ParseElementKernel(Vectorized(equal, 3));
  EXPECT_EQ(bfloat.function, Function::kEqual);
  EXPECT_EQ(bfloat.type, 'B');
  EXPECT_EQ(bfloat.result, 'b');
  EXPECT_EQ(
      ParseElementKernel(Vectorized("NS0_15CUDAFunctor_addIN3c104HalfEEE", 3)).function,
      Function::kUnknown);
  EXPECT_EQ(ParseElementKernel(kCast).function, Function::kUnknown);
  const ElementKernel absolute =
      ParseElementKernel(Vectorized("NS0_10AbsFunctorIN3c104HalfEEE", 2));
  EXPECT_EQ(absolute.function, Function::kAbsolute);

  // 1, infinity, no number, -0, the smallest number: of bfloat16.
  const uint16_t a[] = {0x3f80, 0x7f80, 0x7fc0, 0x8000, 0x0001};
  const uint16_t b[] = {0x3f80, 0x7f80, 0x7fc0, 0x0000, 0x0002};
  const auto* left = reinterpret_cast<const unsigned char*>(a);
  const auto* right = reinterpret_cast<const unsigned char*>(b);
  const int32_t is_equal = 0;
  unsigned char out[5];
  ASSERT_TRUE(ComputeElements(bfloat, reinterpret_cast<const unsigned char*>(&is_equal),
                              left, right, 5, out));
  EXPECT_EQ(std::vector<int>(out, out + 5), (std::vector<int>{1, 1, 0, 1, 0}));
  uint16_t halves[5];
  ASSERT_TRUE(ComputeElements(absolute, nullptr, left, nullptr, 5,
                              reinterpret_cast<unsigned char*>(halves)));
  EXPECT_EQ(halves[3], 0);
  EXPECT_EQ(halves[0], 0x3f80);
}

TEST(HalfElementsTest, ReadsBinary16) {
  ElementKernel less;
  less.function = Function::kCompareScalar;
  less.type = 'H';
  less.result = 'b';
  // 1, 65504 (the largest), 2^-24 (the smallest), infinity, -2.
  const uint16_t values[] = {0x3c00, 0x7bff, 0x0001, 0x7c00, 0xc000};
  struct {
    int32_t operation = 3;  // <
    uint16_t scalar = 0x3c01;
  } functor;
  unsigned char out[5];
  ASSERT_TRUE(ComputeElements(less, reinterpret_cast<const unsigned char*>(&functor),
                              reinterpret_cast<const unsigned char*>(values), nullptr,
                              5, out));
  EXPECT_EQ(std::vector<int>(out, out + 5), (std::vector<int>{1, 0, 1, 0, 1}));
}

}  // namespace
}  // namespace vrank::gpu
