// Which devices of the node a process sees, and how it numbers them.
//
// CUDA_VISIBLE_DEVICES is a list of indices, as NVML numbers the devices, or of UUIDs
// or their beginnings (GPU-8932f937). Devices come in the order of the list; an invalid
// entry ends it; an empty list leaves none (CUDA Programming Guide, "CUDA Environment
// Variables"). What the guide leaves open is done as PyTorch found the driver to do it
// (torch/cuda/__init__.py, _parse_visible_devices): a number ends where its digits end
// ("1gpu" is 1), the first entry says whether the list is one of UUIDs, and where a
// device comes twice, none is visible. MIG instances are invalid entries: there are
// none. NVML does not look at the variable.
//
// Thread rule: any thread.

#ifndef VRANK_VIRTUAL_GPU_CORE_VISIBLE_DEVICES_H_
#define VRANK_VIRTUAL_GPU_CORE_VISIBLE_DEVICES_H_

#include <vector>

#include "base/guest/protocol.h"

namespace vrank::gpu {

// The node's numbers of the visible devices, by the program's. `variable`: nullptr
// where it is not set: all.
std::vector<int> VisibleDevices(const protocol::Settings& settings,
                                const char* variable);

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_VISIBLE_DEVICES_H_
