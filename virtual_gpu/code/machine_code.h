// A kernel's machine code and what the driver would put into its constant banks.
//
// Constant bank 0 begins with what describes the launch; parameters follow at a place
// that the cubin states (attribute 0x0a of .nv.info.KERNEL). Bank 2 holds constants of
// the compiler. Bank 4 holds addresses that a loader chooses: those of the math
// library's tables (of sines, of digits of 2 / pi), of an assertion's texts and of what
// it calls are known, others are not, since programs may write what is there. Bank 3
// (__constant__ variables) is unknown.
//
// Instructions are decoded when they are first run.
//
// Thread rule: an object belongs to one thread at a time.

#ifndef VRANK_VIRTUAL_GPU_CODE_MACHINE_CODE_H_
#define VRANK_VIRTUAL_GPU_CODE_MACHINE_CODE_H_

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "virtual_gpu/code/instruction.h"

namespace vrank::gpu {

// Bytes with a known flag each (0xff or 0).
struct KnownBytes {
  std::vector<unsigned char> bytes, known;
  void Reset(size_t size) {
    bytes.assign(size, 0);
    known.assign(size, 0);
  }
  // Makes them known.
  void Put(size_t at, const void* from, size_t count) {
    if (at + count > bytes.size()) {
      bytes.resize(at + count);
      known.resize(at + count);
    }
    std::memcpy(bytes.data() + at, from, count);
    std::memset(known.data() + at, 0xff, count);
  }
};

// Where bank 0 has what every launch has; all in bytes.
struct ConstantLayout {
  uint32_t block = 0x0;   // three words
  uint32_t grid = 0xc;    // three words
  uint32_t stack = 0x28;  // what R1 begins as: the end of local memory
  // Where generic addresses of shared and local memory begin. From sm_90 on, a special
  // register has the first one.
  uint32_t shared_window = 0x18, local_window = 0x20;
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
  // Bank 4 as far as it is known, and what its addresses point to.
  KnownBytes bank4;
  std::string tables;
  // Where no device has memory: where `tables` lies, the function that assertions call
  // when they fail, and the upper words of the generic
  // addresses of shared and local memory.
  static constexpr uint64_t kTablesAddress = uint64_t{1} << 62;
  static constexpr uint64_t kAssertFail = uint64_t{1} << 63;
  static constexpr uint32_t kSharedWindow = 0x50000000, kLocalWindow = 0x50000001;
  bool asserts = false;             // it calls a function by its address
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
