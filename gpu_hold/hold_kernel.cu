// The hold kernels: names that profilers and log scripts take for NCCL's, one body.
//
// Compiled to a fat binary that hold_driver.cc loads through the driver API, so that
// whoever holds a stream needs no CUDA runtime. All kernels are loaded when a
// communicator is made: loading one at its first launch may wait for an idle device,
// which a hold prevents (CUDA programming guide, "Lazy Loading").

#include <cuda/atomic>

#include "gpu_hold/hold_loop.h"

namespace vrank::hold {
namespace {

struct Gpu {
  static __device__ uint64_t Now() {
    uint64_t now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
  }
  static __device__ uint32_t Load(const uint32_t* word) {
    return cuda::atomic_ref<uint32_t, cuda::thread_scope_system>(
               *const_cast<uint32_t*>(word))
        .load(cuda::std::memory_order_acquire);
  }
  static __device__ void Store(uint32_t* word, uint32_t value) {
    cuda::atomic_ref<uint32_t, cuda::thread_scope_system>(*word).store(
        value, cuda::std::memory_order_release);
  }
  static __device__ uint32_t Add(uint32_t* word, uint32_t value) {
    return cuda::atomic_ref<uint32_t, cuda::thread_scope_device>(*word).fetch_add(
        value, cuda::std::memory_order_acq_rel);
  }
  // Longer sleeps are not kept exactly (PTX ISA, nanosleep: up to twice the time, at
  // most 1 ms).
  static __device__ void Rest() { __nanosleep(500); }
};

// The other threads of the CTA wait at the barrier: they keep their registers and the
// CTA its shared memory, which is what NCCL's would keep others from.
__device__ void Hold(HoldRing* ring, const HoldParameters& parameters) {
  if (threadIdx.x == 0)
    HoldLoop<Gpu>(ring, parameters, blockIdx.x, gridDim.x);
  __syncthreads();
}

}  // namespace
}  // namespace vrank::hold

// 640: the most threads that NCCL launches (LL128).
#define VRANK_HOLD_KERNEL(operation)                                   \
  extern "C" __global__ void __launch_bounds__(640)                    \
      ncclDevKernel_##operation##_virtual(                             \
          vrank::hold::HoldRing* ring,                                 \
          __grid_constant__ const vrank::hold::HoldParameters given) { \
    vrank::hold::Hold(ring, given);                                    \
  }

VRANK_HOLD_KERNEL(AllReduce)
VRANK_HOLD_KERNEL(AllGather)
VRANK_HOLD_KERNEL(ReduceScatter)
VRANK_HOLD_KERNEL(Broadcast)
VRANK_HOLD_KERNEL(Reduce)
VRANK_HOLD_KERNEL(AlltoAll)
VRANK_HOLD_KERNEL(Gather)
VRANK_HOLD_KERNEL(Scatter)
VRANK_HOLD_KERNEL(SendRecv)
