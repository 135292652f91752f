// Kernels whose threads do what their first lines say. Compiled only.

#include <cuda_fp16.h>

extern "C" {

// Tells: bytes read and written by one thread.
__global__ void copy1(const char* in, char* out) {  // 2
  out[threadIdx.x] = in[threadIdx.x];
}
__global__ void copy2(const half* in, half* out) {  // 4
  out[threadIdx.x] = in[threadIdx.x];
}
__global__ void copy4(const float* in, float* out) {  // 8
  out[threadIdx.x] = in[threadIdx.x];
}
__global__ void copy8(const double* in, double* out) {  // 16
  out[threadIdx.x] = in[threadIdx.x];
}
__global__ void copy16(const float4* in, float4* out) {  // 32
  out[threadIdx.x] = in[threadIdx.x];
}
__global__ void fma_inside(int n, const float* __restrict__ a, const float* b,
                           const double* c,
                           float* out) {  // 4 + 4 + 8 + 4
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    out[i] = a[i] * b[i] + static_cast<float>(c[i]);
}
__global__ void unrolled(const int* in, int* out) {  // 4 * 4 + 4
  int sum = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i)
    sum += in[i * 1024 + threadIdx.x];
  out[threadIdx.x] = sum;
}
__global__ void branches(const int* in, int* out, int way) {  // 4 + 4, 4 + 4
  if (way > threadIdx.x) {
    out[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
  } else {
    out[threadIdx.x + 512] = in[7 * threadIdx.x] * 3;
    __syncthreads();
  }
}
__global__ void through_shared(const float* in, float* out) {  // 4 + 4
  __shared__ float tile[1024];
  tile[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = tile[1023 - threadIdx.x];
}
__global__ void async_copies(const char* in, int* out) {  // 4 + 8 + 16 + 4
  __shared__ alignas(16) char tile[3][1024];
  const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(&tile[0][0]));
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(in));
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(to + 1024), "l"(in));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to + 2048), "l"(in));
  asm volatile("cp.async.wait_all;");
  __syncthreads();
  out[threadIdx.x] = tile[threadIdx.x & 1][threadIdx.x];
}
__global__ void warp_sum(const float* in, __half* out) {  // 4 + 2
  float sum = in[threadIdx.x];
#pragma unroll
  for (int lane = 16; lane > 0; lane /= 2)
    sum += __shfl_xor_sync(~0u, sum, lane);
  out[threadIdx.x] = __float2half(sum);
}
__global__ void nothing() {}  // 0

// Does not tell.
__global__ void loops(int n, const float* in, float* out) {
  for (int i = threadIdx.x; i < n; i += blockDim.x)
    out[i] = in[i];
}
__global__ void adds_atomically(float* sum, int* last) {
  *last = static_cast<int>(atomicAdd(sum, 1.0f));
}
__global__ void reduces_atomically(float* sum) {
  atomicAdd(sum, 1.0f);
}
__global__ void generic(float** where, int n) {
  __shared__ float tile[32];
  float* const at = threadIdx.x < n ? tile : where[1];
  at[threadIdx.x] = 1;
  __syncthreads();
  *where[0] = at[n];
}
__device__ __noinline__ float Function(float x, float y) {
  return sinf(x) / y;
}
__global__ void calls(float* data) {
  data[threadIdx.x] = Function(data[threadIdx.x], data[0]);
}
__global__ void multiplies(const unsigned* a, float* c) {
  float d0, d1, d2, d3;
  const unsigned x = a[threadIdx.x];
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%4,%4,%4}, "
      "{%4,%4}, {%5,%5,%5,%5};"
      : "=f"(d0), "=f"(d1), "=f"(d2), "=f"(d3)
      : "r"(x), "f"(0.0f));
  c[threadIdx.x] = d0 + d1 + d2 + d3;
}
__global__ void samples(cudaTextureObject_t texture, float* out) {
  out[threadIdx.x] = tex1D<float>(texture, 0.5f);
}
}
