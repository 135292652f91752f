// What one thread of a kernel does, read off its machine code.
//
// Counts the instructions, and the bytes that the loads and stores of global memory
// move, of code that a thread passes at most once. Both branches of a condition count,
// and so does what a predicate switches off: what a kernel does for elements inside of
// its arrays. Not told: code with loops, calls or computed jumps, atomics, loads and
// stores whose memory is not known, copies by the tensor memory accelerator, textures,
// and tensor cores.
//
// From sm_80 to sm_103 an instruction has 16 bytes. Bits 0 to 8 say what it is, 9 to 11
// the form of its operands; loads and stores have their width in bits 73 to 75
// (asynchronous copies from sm_100 on in 74 to 76): signed and unsigned bytes, the same
// of two bytes, then 4, 8, 16 bytes. NVIDIA does not document it:
// tests/virtual_gpu/code compares with what nvcc makes of known kernels.
//
// Thread rule: pure functions.

#ifndef VRANK_VIRTUAL_GPU_CODE_THREAD_WORK_H_
#define VRANK_VIRTUAL_GPU_CODE_THREAD_WORK_H_

#include <cstdint>
#include <string_view>

#include "base/guest/thread_work.h"

namespace vrank::gpu {

// `code`: a kernel's instructions. `architecture`: 90 is sm_90.
ThreadWork ReadThreadWork(std::string_view code, uint32_t architecture);

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CODE_THREAD_WORK_H_
