// Decodes 128-bit instructions of sm_80 and sm_90.
//
// A table has a row for each operation: its number, how its operands lie, and which
// modifiers the interpreter understands. An instruction with any other modifier decodes
// as kOther, like an operation without a row: what is not understood is not run.
//
// Thread rule: pure functions.

#ifndef VRANK_VIRTUAL_GPU_CODE_DECODER_H_
#define VRANK_VIRTUAL_GPU_CODE_DECODER_H_

#include <cstdint>

#include "virtual_gpu/code/instruction.h"

namespace vrank::gpu {

// Whether instructions of the architecture (90 is sm_90) are decoded.
bool Decodes(uint32_t architecture);

// REQUIRES: Decodes(architecture). Instructions that are not understood are kOther,
// with a name that says which they are.
Instruction Decode(uint64_t low, uint64_t high, uint32_t architecture);

// Of a branch, call, return or BRX: the target in bytes behind the next instruction.
int64_t BranchDistance(const Instruction& branch, uint32_t architecture);

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CODE_DECODER_H_
