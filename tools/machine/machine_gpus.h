// The GPUs of this machine, for jobs that keep them (--real-gpu).
//
// Thread rule: none; it reads the environment, /dev and /proc.

#ifndef VRANK_TOOLS_MACHINE_MACHINE_GPUS_H_
#define VRANK_TOOLS_MACHINE_MACHINE_GPUS_H_

#include <cstdint>
#include <string>

namespace vrank::tools {

// How many CUDA shows to a program: those of CUDA_VISIBLE_DEVICES, else all that have a
// device file of NVIDIA's driver (/dev/nvidia0, ...). 0: none, or no such driver.
uint32_t CountMachineGpus();

// What NVIDIA's driver calls them: "NVIDIA H200", several kinds by commas. `folder`: as
// the driver fills it. Empty: unknown.
std::string NameMachineGpus(const std::string& folder = "/proc/driver/nvidia/gpus");

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_MACHINE_MACHINE_GPUS_H_
