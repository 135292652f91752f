// The hold kernels: names that profilers and log scripts take for NCCL's, one body.
//
// Compiled to a fat binary that hold_driver.cc loads through the driver API, so that
// whoever holds a stream needs no CUDA runtime. All kernels are loaded when a
// communicator is made: loading one at its first launch may wait for an idle device,
// which a hold prevents (CUDA programming guide, "Lazy Loading").

#include <cuda/atomic>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "gpu_hold/hold_loop.h"

namespace vrank::hold {
namespace {

struct Gpu {
  static __device__ uint64_t Now() {
    uint64_t now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
  }
  static __device__ HostWords Look(const HostWords* words) {
    HostWords host;
    asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(host.released), "=r"(host.looked), "=r"(host.aborted),
                   "=r"(host.heartbeat)
                 : "l"(words)
                 : "memory");
    return host;
  }
  static __device__ void Tell(uint32_t* word, uint32_t value) {
    cuda::atomic_ref<uint32_t, cuda::thread_scope_system>(*word).store(
        value, cuda::std::memory_order_release);
  }
  static __device__ uint32_t Load(const uint32_t* word) {
    return cuda::atomic_ref<uint32_t, cuda::thread_scope_device>(
               *const_cast<uint32_t*>(word))
        .load(cuda::std::memory_order_acquire);
  }
  static __device__ void Store(uint32_t* word, uint32_t value) {
    cuda::atomic_ref<uint32_t, cuda::thread_scope_device>(*word).store(
        value, cuda::std::memory_order_release);
  }
  static __device__ uint32_t Add(uint32_t* word, uint32_t value) {
    return cuda::atomic_ref<uint32_t, cuda::thread_scope_device>(*word).fetch_add(
        value, cuda::std::memory_order_acq_rel);
  }
  // Much less than a look over the bus takes. (Up to twice the time: PTX ISA,
  // nanosleep.)
  static __device__ void Rest() { __nanosleep(100); }
};

struct Narrow {
  static __device__ float Decode(protocol::ElementType type, uint32_t bits) {
    switch (type) {
      case protocol::ElementType::kFloat16:
        return __half2float(__ushort_as_half(static_cast<unsigned short>(bits)));
      case protocol::ElementType::kBfloat16:
        return __uint_as_float(bits << 16);
      default:
        return __half2float(__half(
            __nv_cvt_fp8_to_halfraw(static_cast<__nv_fp8_storage_t>(bits), Fp8(type))));
    }
  }
  static __device__ uint32_t Encode(protocol::ElementType type, float value) {
    switch (type) {
      case protocol::ElementType::kFloat16:
        return __half_as_ushort(__float2half_rn(value));
      case protocol::ElementType::kBfloat16:
        return __bfloat16_as_ushort(__float2bfloat16_rn(value));
      default:
        return __nv_cvt_float_to_fp8(value, __NV_SATFINITE, Fp8(type));
    }
  }
  static __device__ __nv_fp8_interpretation_t Fp8(protocol::ElementType type) {
    return type == protocol::ElementType::kFloat8E4M3 ? __NV_E4M3 : __NV_E5M2;
  }
};

// As many registers as NCCL's kernels have, 96 a thread (2.28.9 on sm_90, as a profiler
// shows them): with 640 threads they are a multiprocessor's. The values are all alive
// at once, in a branch that no launch takes.
__device__ __forceinline__ void TakeRegisters(uint32_t* words) {
  constexpr int kValues = 84;
  uint32_t values[kValues];
#pragma unroll
  for (int i = 0; i < kValues; ++i)
    asm volatile("ld.volatile.global.u32 %0, [%1];" : "=r"(values[i]) : "l"(words + i));
#pragma unroll
  for (int i = 0; i < kValues; ++i)
    asm volatile("st.volatile.global.u32 [%0], %1;" ::"l"(words + kValues - i),
                 "r"(values[i]));
}

// The other threads of the CTA wait at the barrier: they keep their registers and the
// CTA its shared memory, which is what NCCL's would keep others from.
__device__ void Hold(HoldRing* ring, HoldCounters* counters,
                     const HoldParameters& parameters) {
  if (parameters.mode == HoldMode::kFootprint)
    TakeRegisters(static_cast<uint32_t*>(parameters.result.to));
  HoldLoop<Gpu> loop(ring, counters, parameters, blockIdx.x, gridDim.x);
  __shared__ bool goes_on;
  if (threadIdx.x == 0)
    goes_on = loop.Begin();
  __syncthreads();
  if (goes_on && parameters.result.times != 0)
    FillResult<Narrow>(parameters.result,
                       {uint64_t{blockIdx.x} * blockDim.x + threadIdx.x,
                        uint64_t{gridDim.x} * blockDim.x});
  if (threadIdx.x == 0)
    loop.Wait();
  __syncthreads();
}

}  // namespace
}  // namespace vrank::hold

// 640: the most threads that NCCL launches (LL128).
#define VRANK_HOLD_KERNEL(operation)                                        \
  extern "C" __global__ void __launch_bounds__(640, 1)                      \
      ncclDevKernel_##operation##_virtual(                                  \
          vrank::hold::HoldRing* ring, vrank::hold::HoldCounters* counters, \
          __grid_constant__ const vrank::hold::HoldParameters given) {      \
    vrank::hold::Hold(ring, counters, given);                               \
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
