// Names of kernels as profilers of PyTorch 2.11 show them.

#include "tools/terminal/kernel_label.h"

#include <string>

#include <gtest/gtest.h>

namespace vrank::tools {
namespace {

std::string Vectorized(const std::string& functor, const char* width = "4") {
  return std::string("void at::native::vectorized_elementwise_kernel<") + width + ", " +
         functor + ", std::array<char*, 2ul> >(int, " + functor +
         ", std::array<char*, 2ul>)";
}

TEST(KernelLabelTest, ShowsWhatAnElementWiseKernelComputes) {
  EXPECT_EQ(KernelLabel(Vectorized("at::native::FillFunctor<float>")),
            "vectorized_elementwise_kernel<FillFunctor<float>>");
  EXPECT_EQ(KernelLabel(Vectorized("at::native::FillFunctor<float>", "2")),
            "vectorized_elementwise_kernel<FillFunctor<float>>");
  EXPECT_EQ(KernelLabel(Vectorized("at::native::BinaryFunctor<float, float, bool, "
                                   "at::native::(anonymous namespace)::"
                                   "CompareEqFunctor<float> >")),
            "vectorized_elementwise_kernel<CompareEqFunctor<float>>");
  EXPECT_EQ(KernelLabel("void at::native::unrolled_elementwise_kernel<at::native::"
                        "direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}"
                        "::operator()() const::{lambda()#7}::operator()() const::"
                        "{lambda(float)#1}, std::array<char*, 2ul>, 4, "
                        "TrivialOffsetCalculator<1, unsigned int>, at::native::memory::"
                        "LoadWithCast<1>, at::native::memory::StoreWithCast<1> >(int)"),
            "unrolled_elementwise_kernel<direct_copy_kernel_cuda::lambda(float)>");
}

TEST(KernelLabelTest, CutsInnerArgumentsFirst) {
  EXPECT_EQ(
      KernelLabel("void at::native::reduce_kernel<512, 1, at::native::ReduceOp<"
                  "float, at::native::NormTwoOps<float, float, float>, unsigned "
                  "int, float, 4, 4> >(at::native::ReduceOp<float>)"),
      "reduce_kernel<ReduceOp<float, NormTwoOps<...>, unsigned int, float, 4, 4>>");
  const std::string long_argument(90, 'x');
  const std::string label = KernelLabel("void k<" + long_argument + ">(int)");
  EXPECT_EQ(label.size(), kKernelLabelSize);
  EXPECT_TRUE(label.starts_with("k<xxx"));
  EXPECT_TRUE(label.ends_with("xxx>"));
}

TEST(KernelLabelTest, LeavesOtherNames) {
  EXPECT_EQ(KernelLabel("cublasGemmEx"), "cublasGemmEx");
  EXPECT_EQ(KernelLabel("nccl"), "nccl");
  EXPECT_EQ(KernelLabel("void broken<"), "void broken<");
  EXPECT_EQ(KernelLabel("void scale<4>(float*)"), "scale<4>");
}

}  // namespace
}  // namespace vrank::tools
