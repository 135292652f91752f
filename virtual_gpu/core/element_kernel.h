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
//   AUnaryFunctor, BUnaryFunctor (Loops.cuh) of CompareEqFunctor, and the lambda of
//   compare_scalar_kernel: the same with a scalar, which lies behind the operation
//   CUDAFunctor_add, CUDAFunctorOnSelf_add, CUDAFunctorOnOther_add
//                     a + alpha * b, of integers modulo 2^n, else as one fused
//                     operation; of the last two b or a is in the functor, before alpha
//                     (torchgen's UfuncCUDA_add.cu)
//   MulFunctor        a * b, of bool a && b; with a scalar it lies behind the functor,
//                     which is empty (BinaryInternal.h)
//   BitwiseAndFunctor, BitwiseOrFunctor of bool  (BinaryBitwiseOpsKernels.cu)
//   AbsFunctor        (AbsKernel.cu)
// In half precision: fills, comparisons and AbsFunctor, of which isfinite is made.
//   direct_copy_kernel_cuda
//                     the other type of an integer or a bool (Copy.cu); LoadWithCast
//                     and StoreWithCast (MemoryAccess.cuh: c10::ScalarType, bytes of an
//                     element) come behind the operands and two empty calculators
// Of other functions an element of the result has 16 bytes at most, divided by how many
// of them vectorized_elementwise_kernel takes at once (launch_vectorized_kernel).
//
// Thread rule: pure functions.

#ifndef VRANK_VIRTUAL_GPU_CORE_ELEMENT_KERNEL_H_
#define VRANK_VIRTUAL_GPU_CORE_ELEMENT_KERNEL_H_

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "virtual_gpu/core/element_type.h"

namespace vrank::gpu {

// Largest element of any tensor: complex numbers of two doubles.
inline constexpr uint64_t kMaxElementBytes = 16;

struct ElementKernel {
  enum class Shape : uint8_t {
    kNotAsked,
    kOther,        // no element-wise kernel
    kElementwise,  // parameters: elements (int), functor, operands; maybe more
    // elementwise_kernel over strided operands: elements (int), and one structure that
    // ends with the operands and the functor. Comparisons alone are told.
    kStrided,
  };
  enum class Function : uint8_t {
    kUnknown,
    kFill,
    kCompare,
    kEqual,
    kCompareScalar,
    kEqualScalar,
    kMultiply,
    kMultiplyScalar,
    kAnd,  // of bool
    kOr,
    kAbsolute,
    kAdd,
    kAddScalar,  // a tensor and a scalar
    kScalarAdd,  // a scalar and a tensor
    kCast,
  };

  Shape shape = Shape::kNotAsked;
  Function function = Function::kUnknown;
  // By their mangled names, of an input (a cast's is known by the launch) and of a
  // result.
  char type = 0;
  char result = 0;
  bool converts = false;  // by LoadWithCast and StoreWithCast
  // Of an element of the result, at most.
  uint64_t result_bytes = kMaxElementBytes;
};

ElementKernel ParseElementKernel(std::string_view mangled);

// Inputs that the function reads.
inline uint32_t InputsOf(const ElementKernel& kernel) {
  using Function = ElementKernel::Function;
  if (kernel.function == Function::kFill)
    return 0;
  switch (kernel.function) {
    case Function::kAddScalar:
    case Function::kScalarAdd:
    case Function::kCompareScalar:
    case Function::kEqualScalar:
    case Function::kMultiplyScalar:
    case Function::kAbsolute:
    case Function::kCast:
      return 1;
    default:
      return 2;
  }
}
inline bool ComparesWithScalar(const ElementKernel& kernel) {
  return kernel.function == ElementKernel::Function::kCompareScalar ||
         kernel.function == ElementKernel::Function::kEqualScalar;
}
inline bool IsComparison(const ElementKernel& kernel) {
  return kernel.function == ElementKernel::Function::kCompare ||
         kernel.function == ElementKernel::Function::kEqual ||
         ComparesWithScalar(kernel);
}
// Bytes of the functor that are read.
inline constexpr uint32_t kMaxFunctorBytes = 16;
inline uint32_t FunctorBytesOf(const ElementKernel& kernel) {
  using Function = ElementKernel::Function;
  // A scalar lies at the first place of its alignment behind what comes first.
  if (ComparesWithScalar(kernel))
    return std::max(BytesOf(kernel.type), uint32_t{sizeof(int32_t)}) +
           BytesOf(kernel.type);
  if (IsComparison(kernel))
    return sizeof(int32_t);
  switch (kernel.function) {
    case Function::kMultiplyScalar:
      return 2 * BytesOf(kernel.type);
    case Function::kCast:
    case Function::kMultiply:
    case Function::kAnd:
    case Function::kOr:
    case Function::kAbsolute:
      return 0;
    default:
      break;
  }
  return InputsOf(kernel) == 1 ? 2 * BytesOf(kernel.type) : BytesOf(kernel.type);
}

// What a cast's launch says: LoadWithCast<1> and StoreWithCast<1>. False where that is
// no cast from integers or bool to what the name says. REQUIRES: the function is kCast.
inline constexpr uint32_t kCasterBytes = 8;
// Their places among the parameters, behind the operands and two offset calculators.
inline constexpr uint32_t kLoadParameter = 5, kStoreParameter = 6;
bool ReadCast(const unsigned char* load, const unsigned char* store,
              ElementKernel* kernel);
// Bytes of an element that StoreWithCast<1> writes, whatever the function.
uint64_t StoredBytes(const unsigned char* store);

// Computes `elements` elements. `functor`: FunctorBytesOf it, as the launch passes it;
// `a`, `b`: as many inputs as there are, of `type`; `out`: of `result`.
// False where the functor asks for something else. REQUIRES: the function is known.
bool ComputeElements(const ElementKernel& kernel, const unsigned char* functor,
                     const unsigned char* a, const unsigned char* b, uint64_t elements,
                     unsigned char* out);

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_ELEMENT_KERNEL_H_
