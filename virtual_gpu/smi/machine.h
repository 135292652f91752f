// What nvidia-smi reports, as NVML states it: the GPUs of the emulated node and what
// uses them. The library is the stand-in that the rank's environment preloads.
//
// Thread rule: one thread.

#ifndef VRANK_VIRTUAL_GPU_SMI_MACHINE_H_
#define VRANK_VIRTUAL_GPU_SMI_MACHINE_H_

#include <cstdint>
#include <string>
#include <vector>

namespace vrank::smi {

struct Gpu {
  unsigned index = 0;
  std::string name, uuid, bus_id;  // bus_id: "00000000:04:00.0"
  uint64_t total_bytes = 0, used_bytes = 0, free_bytes = 0;
  int compute_major = 0, compute_minor = 0;
  unsigned max_sm_mhz = 0, max_memory_mhz = 0;
};

struct ProcessUse {
  unsigned gpu = 0;  // index
  unsigned pid = 0;
  std::string name;
  uint64_t used_bytes = 0;
};

struct Machine {
  std::string driver_version;
  int cuda_version = 0;  // 13000 is 13.0
  std::vector<Gpu> gpus;
  std::vector<ProcessUse> processes;
};

// False where NVML cannot be loaded or started; `why` then says so.
bool ReadMachine(Machine* machine, std::string* why);

}  // namespace vrank::smi

#endif  // VRANK_VIRTUAL_GPU_SMI_MACHINE_H_
