// Which of its parameters a kernel stores through, read off its machine code.
//
// A kernel whose launch is not computed may have written through any pointer that it
// got. What it only reads keeps its contents where this says so: masks, indices,
// lengths that a program decides by. The names of kernels tell it for some (const T*),
// for structures and for kernels of Triton they do not.
//
// Method: given which 8-byte words of the parameters are addresses of memory in a
// launch, these flow from the constant bank through registers, local and shared memory
// into the addresses of stores and atomics; a fixed point over the control flow of the
// whole kernel. All other words are numbers. What an operation computes has all that
// its operands have, so a word may count as stored through that is not, never the other
// way round, given one rule: pointer arithmetic stays in the object that the pointer
// points into, as C++ demands, and so has no products and no shifts by a pointer.
// Structures have unused parts, in which old addresses stand: such words are mostly
// strides or divisors, which are multiplied. A value that was loaded from memory is an
// index beside a word; on a way on which no word takes part it may be a pointer of its
// own, and then it is not known what is written.
//
// Not known either: tensor-memory copies, computed jumps, calls of code outside of the
// kernel but assertions, printf and the heap, and instructions that the decoder does
// not understand.
//
// Thread rule: pure functions.

#ifndef VRANK_VIRTUAL_GPU_CODE_STORED_PARAMETERS_H_
#define VRANK_VIRTUAL_GPU_CODE_STORED_PARAMETERS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "virtual_gpu/code/machine_code.h"

namespace vrank::gpu {

struct StoredParameters {
  bool known = false;
  std::vector<uint32_t> words;  // of those given, ascending
  std::string why;              // it is not known
};

// `pointers`: the bytes at which the words lie among the parameters, ascending. All
// others are taken for numbers.
StoredParameters FindStoredParameters(const MachineCode& code,
                                      const std::vector<uint32_t>& pointers);

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CODE_STORED_PARAMETERS_H_
