// Runs one launch of a kernel by its machine code, as far as that is possible.
//
// Blocks run one after another in the order of their numbers, the warps of a block in
// turns. A warp runs its lanes in groups of equal program counters, the lowest first.
// The launch ends early, and has then written nothing, where the code has an
// instruction that is not interpreted, where what it does depends on unknown bits (a
// branch, the address or the condition of a store), and where it takes more than its
// budget.
//
// Thread rule: pure, but for the DeviceBytes that it reads.

#ifndef VRANK_VIRTUAL_GPU_CODE_INTERPRETER_H_
#define VRANK_VIRTUAL_GPU_CODE_INTERPRETER_H_

#include <cstdint>
#include <string>

#include "virtual_gpu/code/machine_code.h"
#include "virtual_gpu/code/overlay_memory.h"

namespace vrank::gpu {

struct InterpretedLaunch {
  uint32_t grid[3] = {1, 1, 1};
  uint32_t block[3] = {1, 1, 1};
  uint32_t dynamic_shared = 0;
  const unsigned char* parameters = nullptr;  // as the kernel's constant bank has them
  uint32_t parameter_bytes = 0;
  uint64_t most_thread_instructions = 0;
  // Ends the launch at the first byte of device memory that it reads and that is
  // unknown.
  bool needs_known_input = false;
};

struct Outcome {
  enum class Kind : uint8_t {
    kDone,
    kNotInterpreted,  // an instruction, named by `what`
    kUnknown,         // what depends on unknown bits, said by `what`
    kBudget,
    kAssertion,  // one has failed; `what` is what CUDA prints, a line for each thread
    kFault,      // an access outside of memory, a deadlock: the program's or ours
  };
  Kind kind = Kind::kDone;
  std::string what;
  uint64_t thread_instructions = 0;
};

Outcome Interpret(MachineCode& code, const InterpretedLaunch& launch,
                  OverlayMemory* memory);

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CODE_INTERPRETER_H_
