// Reductions of PyTorch: what they read and write, and what a few of them compute.
//
// A virtual GPU runs no kernel, but programs decide by small numbers: the receiver of
// objects adds their sizes up on its GPU (recv_object_list, broadcast_object_list). Of
// aten/src/ATen/native/cuda/Reduce.cuh in PyTorch 2.11: reduce_kernel takes one
// ReduceOp by value, which ends in configuration, offsets of inputs and outputs by
// dimension (OffsetCalculator, 25 dimensions at most, strides in bytes), pointers and
// flags. The name says what is combined; computed are those whose result is the same in
// any order, of integers and bool:
//   sum_functor                       a + b modulo 2^n, a || b of bool
//                                                          (ReduceSumProdKernel.cu)
//   MaxNanFunctor, MinNanFunctor      max(a, b), min     (ReduceMax/MinValuesKernel.cu)
//   or_kernel_cuda, and_kernel_cuda   a || b, a && b     (ReduceLogicKernel.cu)
// Of ArgMaxOps, ArgMinOps (one output, a place) and MaxOps, MinOps (a value and a
// place) the name tells the choice, which is made up where the inputs are unknown
// (made_up_choices.h).
//
// Thread rule: pure functions.

#ifndef VRANK_VIRTUAL_GPU_CORE_REDUCE_KERNEL_H_
#define VRANK_VIRTUAL_GPU_CORE_REDUCE_KERNEL_H_

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace vrank::gpu {

struct ReduceKernel {
  enum class Function : uint8_t {
    kNone,  // no reduction
    kUnknown,
    kSum,
    kMax,
    kMin,
    kAny,
    kAll,
  };
  Function function = Function::kNone;
  // Where the function is known: the type of inputs and outputs by its mangled name,
  // and its size.
  char type = 0;
  uint32_t value_bytes = 0;
  // What goes with, or in place of, the largest or smallest value: its place. The type
  // is that of the value.
  enum class Choice : uint8_t { kNone, kPlace, kValueAndPlace };
  Choice choice = Choice::kNone;
};

ReduceKernel ParseReduceKernel(std::string_view mangled);

// One dimension: `size` steps of so many bytes.
struct ReduceDimension {
  uint32_t size = 0, in_stride = 0, out_stride = 0;
};

// What a launch says. Elements begin at `from` and `to`, plus an offset.
struct ReduceLaunch {
  uint64_t from = 0;
  uint64_t to[2] = {};                // the second only where outputs_each is 2
  uint64_t scratch[2] = {};           // partial results and semaphores; 0: none
  uint64_t partial_result_bytes = 0;  // of scratch[0]
  uint64_t semaphore_bytes = 0;       // of scratch[1]
  uint64_t outputs = 0, inputs_each = 0;
  uint32_t outputs_each = 0;  // results of one reduction: 1 or 2
  // Of what a thread accumulates in; a result is not larger.
  uint32_t accumulated_bytes = 0;
  bool whole = false;  // not a part that is added to another one's
  std::vector<ReduceDimension> reduced = {};  // out_stride is 0
  std::vector<ReduceDimension> kept = {};

  // Bytes from the first to the last element's begin.
  uint64_t InputSpan() const;
  uint64_t OutputSpan() const;
  // What one result of the first output has at most: results do not overlap.
  uint64_t MostResultBytes() const;
};

// Reads ReduceOp. Nothing where the structure is not what this launch shape goes with.
std::optional<ReduceLaunch> ReadReduction(const unsigned char* structure,
                                          uint64_t bytes, const uint32_t (&grid)[3],
                                          const uint32_t (&block)[3]);

// Whether every output is one of `value_bytes` bytes side by side, and the function is
// known.
bool IsComputable(const ReduceKernel& kernel, const ReduceLaunch& launch);

// `in`: the InputSpan and one element; `out`: outputs * value_bytes.
// REQUIRES: IsComputable.
void ComputeReduction(const ReduceKernel& kernel, const ReduceLaunch& launch,
                      const unsigned char* in, unsigned char* out);

// Of so many equal elements; `in`, `out`: one of value_bytes.
// REQUIRES: the function is known.
void ReduceEqual(const ReduceKernel& kernel, uint64_t elements, const unsigned char* in,
                 unsigned char* out);

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_REDUCE_KERNEL_H_
