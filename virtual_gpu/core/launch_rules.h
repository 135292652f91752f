// Which launches a GPU takes, and how many blocks of a kernel fit on it.
//
// Sources: CUDA driver API, "Execution control" and "Occupancy"; CUDA C++ Programming
// Guide, "Compute capabilities"; for the granularity of registers, warps, barriers and
// shared memory cuda_occupancy.h of the CUDA toolkit, which
// tests/virtual_gpu/core/launch_rules_test.cc compares with.
//
// Thread rule: pure functions; a kernel's attributes are atomic.

#ifndef VRANK_VIRTUAL_GPU_CORE_LAUNCH_RULES_H_
#define VRANK_VIRTUAL_GPU_CORE_LAUNCH_RULES_H_

#include <cstdint>

#include "base/guest/protocol.h"
#include "virtual_gpu/core/error.h"
#include "virtual_gpu/core/gpu_types.h"
#include "virtual_gpu/core/kernel_code.h"

namespace vrank::gpu {

using protocol::GpuProperties;

// The result of a launch as far as its configuration decides it.
Error CheckLaunch(const GpuProperties& gpu, const KernelLaunch& launch);

// The grid in blocks, which some kernels are launched with in clusters.
void BlocksOf(const KernelLaunch& launch, uint32_t* grid);

// CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: "This number depends on both the function
// and the device on which the function is currently loaded."
uint32_t MostThreads(const GpuProperties& gpu, const KernelCode& kernel);
// CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES.
uint64_t MostDynamicShared(const GpuProperties& gpu, const KernelCode& kernel);

// Blocks that a multiprocessor runs at a time. REQUIRES: threads > 0.
uint32_t ActiveBlocks(const GpuProperties& gpu, const KernelCode& kernel,
                      uint64_t threads, uint64_t dynamic_shared);
// The most dynamic shared memory with which a multiprocessor runs so many blocks;
// kInvalidValue where it does not run as many without any. REQUIRES: both positive.
Error AvailableDynamicShared(const GpuProperties& gpu, const KernelCode& kernel,
                             uint64_t blocks, uint64_t threads, uint64_t* bytes);
// Blocks in the largest cluster that the kernel may be launched with.
uint32_t MostCluster(const GpuProperties& gpu, const KernelCode& kernel);
// ... that fits, for such launches, whose own cluster does not count. 0: no block fits.
uint32_t PotentialCluster(const GpuProperties& gpu, const KernelLaunch& launch);
// Clusters of such launches that the device runs at a time, if any multiprocessors can
// be joined: an upper bound, since a GPU joins those of one GPC only.
Error ActiveClusters(const GpuProperties& gpu, const KernelLaunch& launch,
                     int* clusters);

// Reads an attribute of a launch into it (cudaLaunchAttributeID and
// CUlaunchAttributeID number and lay them out alike). kNotSupported: not modelled.
Error ReadLaunchAttribute(int id, const void* value, KernelLaunch* launch);
// The reverse; false where a launch does not keep this one.
bool WriteLaunchAttribute(const KernelLaunch& launch, int id, void* value);

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_LAUNCH_RULES_H_
