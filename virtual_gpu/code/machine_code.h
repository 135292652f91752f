// A kernel's machine code and what the driver would put into its constant banks.
//
// Constant bank 0 begins with what describes the launch; parameters follow at a place
// that the cubin states (attribute 0x0a of .nv.info.KERNEL). Bank 2 holds constants of
// the compiler. Banks 3 (__constant__ variables, which programs write) and 4 (addresses
// that a loader would choose) count as unknown.
//
// Instructions are decoded when they are first run.
//
// Thread rule: an object belongs to one thread at a time.

#ifndef VRANK_VIRTUAL_GPU_CODE_MACHINE_CODE_H_
#define VRANK_VIRTUAL_GPU_CODE_MACHINE_CODE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "virtual_gpu/code/instruction.h"

namespace vrank::gpu {

// Where bank 0 has what every launch has; all in bytes.
struct ConstantLayout {
  uint32_t block = 0x0;   // three words
  uint32_t grid = 0xc;    // three words
  uint32_t stack = 0x28;  // what R1 begins as: the end of local memory
  uint32_t descriptor = 0x118;
};

class MachineCode {
 public:
  MachineCode() = default;
  MachineCode(std::string text, uint32_t architecture)
      : text_(std::move(text)), architecture_(architecture) {}

  uint32_t architecture() const { return architecture_; }
  uint64_t bytes() const {
    return text_.size() / kInstructionBytes * kInstructionBytes;
  }
  // REQUIRES: pc is a multiple of 16, below bytes().
  const Instruction& At(uint64_t pc);
  // The same before a loader changes anything, and not kept.
  Instruction Unloaded(uint64_t pc) const;
  // A loader changes the instruction.
  bool IsRelocated(uint64_t pc) const;

  uint32_t parameter_base = 0;
  uint32_t parameter_bytes = 0;
  uint32_t shared_bytes = 0;  // static, with what the system reserves
  uint32_t local_bytes = 0;
  std::string bank2;
  std::vector<uint64_t> relocated;  // numbers of instructions, in order
  // A function that it calls outside of its own code, beside assertions, printf and the
  // heap; empty: none.
  std::string calls;

  ConstantLayout layout() const {
    return {.descriptor = architecture_ >= 90 ? 0x208u : 0x118u};
  }

 private:
  std::string text_;
  uint32_t architecture_ = 0;
  std::vector<Instruction> decoded_;
  std::vector<bool> is_decoded_;
};

// Finds a kernel in a cubin. Returns nullptr, or why it can't be run.
const char* ReadMachineCode(const unsigned char* elf, size_t bytes,
                            std::string_view kernel, MachineCode* code);

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CODE_MACHINE_CODE_H_
