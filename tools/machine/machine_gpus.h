// The GPUs of this machine, for jobs that keep them (--real-gpu).
//
// Thread rule: none; it reads the environment and /dev.

#ifndef VRANK_TOOLS_MACHINE_MACHINE_GPUS_H_
#define VRANK_TOOLS_MACHINE_MACHINE_GPUS_H_

#include <cstdint>

namespace vrank::tools {

// How many CUDA shows to a program: those of CUDA_VISIBLE_DEVICES, else all that have a
// device file of NVIDIA's driver (/dev/nvidia0, ...). 0: none, or no such driver.
uint32_t CountMachineGpus();

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_MACHINE_MACHINE_GPUS_H_
