// Element-wise kernels of PyTorch: which operand they write, and what a few of them
// compute.
//
// A virtual GPU runs no kernel, but programs decide by small numbers: the ranks'
// largest message (all_gather_object), a counter that is compared with a limit. Of
// kernels over contiguous elements (aten/src/ATen/native/cuda/CUDALoops.cuh in PyTorch
// 2.11: vectorized_elementwise_kernel, unrolled_elementwise_kernel; number of elements,
// functor, one pointer per operand with the output first) the mangled name says the
// functor, and these are computed on the host:
//   FillFunctor       element = value       (FillKernel.cu)
//   CompareFunctor    a >= b, >, <=, <      (CompareKernels.cu: OpType, in that order)
//   CompareEqFunctor  a == b, a != b        (CompareEQKernel.cu: EqOpType)
//   CUDAFunctor_add, CUDAFunctorOnSelf_add, CUDAFunctorOnOther_add
//                     a + alpha * b of integers, modulo 2^n; of the last two b or a is
//                     in the functor, before alpha (torchgen's UfuncCUDA_add.cu)
//
// Thread rule: pure functions.

#ifndef VRANK_VIRTUAL_GPU_CORE_ELEMENT_KERNEL_H_
#define VRANK_VIRTUAL_GPU_CORE_ELEMENT_KERNEL_H_

#include <cstdint>
#include <string_view>

namespace vrank::gpu {

struct ElementKernel {
  enum class Shape : uint8_t {
    kNotAsked,
    kOther,        // no element-wise kernel
    kElementwise,  // parameters: elements (int), functor, operands; maybe more
  };
  enum class Function : uint8_t {
    kUnknown,
    kFill,
    kCompare,
    kEqual,
    kAdd,
    kAddScalar,  // a tensor and a scalar
    kScalarAdd,  // a scalar and a tensor
  };

  Shape shape = Shape::kNotAsked;
  Function function = Function::kUnknown;
  char type = 0;             // of an input, or of what is filled: its mangled name
  uint32_t value_bytes = 0;  // of that type
};

// Largest element of any tensor: complex numbers of two doubles.
inline constexpr uint64_t kMaxElementBytes = 16;

ElementKernel ParseElementKernel(std::string_view mangled);

// Inputs that the function reads.
inline uint32_t InputsOf(const ElementKernel& kernel) {
  using Function = ElementKernel::Function;
  if (kernel.function == Function::kFill)
    return 0;
  const bool scalar = kernel.function == Function::kAddScalar ||
                      kernel.function == Function::kScalarAdd;
  return scalar ? 1 : 2;
}
inline bool IsComparison(const ElementKernel& kernel) {
  return kernel.function == ElementKernel::Function::kCompare ||
         kernel.function == ElementKernel::Function::kEqual;
}
inline uint32_t OutputBytesOf(const ElementKernel& kernel) {
  return IsComparison(kernel) ? 1 : kernel.value_bytes;
}
// Bytes of the functor that are read.
inline constexpr uint32_t kMaxFunctorBytes = 16;
inline uint32_t FunctorBytesOf(const ElementKernel& kernel) {
  if (IsComparison(kernel))
    return sizeof(int32_t);
  return InputsOf(kernel) == 1 ? 2 * kernel.value_bytes : kernel.value_bytes;
}

// Computes `elements` elements. `functor`: FunctorBytesOf it, as the launch passes it;
// `a`, `b`: as many inputs as there are; `out`: OutputBytesOf each.
// False where the functor asks for something else. REQUIRES: the function is known.
bool ComputeElements(const ElementKernel& kernel, const unsigned char* functor,
                     const unsigned char* a, const unsigned char* b, uint64_t elements,
                     unsigned char* out);

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_ELEMENT_KERNEL_H_
