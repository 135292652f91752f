// Holds on a real GPU, through the driver API of the process's libcuda.
//
// What was seen on a GPU, and what was not: docs/decisions/0015.
//
// Thread rule: as HoldDriver. Make it on a thread whose context is the device's.

#ifndef VRANK_GPU_HOLD_HOLD_DRIVER_H_
#define VRANK_GPU_HOLD_HOLD_DRIVER_H_

#include <memory>
#include <string>
#include <string_view>

#include "gpu_hold/hold_service.h"

namespace vrank::hold {

// Loads the kernels into the current context, all of them: none is loaded at its first
// launch. nullptr: *error says which call of the driver failed, or that the build had
// no nvcc.
std::unique_ptr<HoldDriver> MakeGpuHoldDriver(std::string* error);

// The kernels as a fat binary; empty where the build had no nvcc.
std::string_view HoldKernelImage();

}  // namespace vrank::hold

#endif  // VRANK_GPU_HOLD_HOLD_DRIVER_H_
