// How much memory this process may still take.
//
// Thread rule: pure function; it reads /proc and /sys.

#ifndef VRANK_BASE_MACHINE_MEMORY_H_
#define VRANK_BASE_MACHINE_MEMORY_H_

#include <cstdint>
#include <optional>

namespace vrank {

struct MachineMemory {
  uint64_t total = 0;      // bytes of the machine
  uint64_t available = 0;  // ... that nobody uses
  // What the container (cgroup v2) and the process's limit (RLIMIT_AS) leave, where
  // there are such.
  std::optional<uint64_t> of_container, of_process;

  uint64_t least() const;
};

// Zeros where the machine does not tell.
MachineMemory ReadMachineMemory();

}  // namespace vrank

#endif  // VRANK_BASE_MACHINE_MEMORY_H_
