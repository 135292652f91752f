// How a kernel's body meets the GPU's threads.
//
// A body is written against Block (a row, or whatever a block owns), Columns (a block
// owns 32 columns and walks down the rows) or Grid (one loop over elements); the host
// backend has a header of the same name in which a block is a loop. Included by .cu
// files.

#ifndef EXAMPLES_GPT_TRAINER_DEVICE_CUDA_KERNEL_TOOLS_H_
#define EXAMPLES_GPT_TRAINER_DEVICE_CUDA_KERNEL_TOOLS_H_

#include <algorithm>

#include "examples/gpt_trainer/device/cuda/backend.h"
#include "examples/gpt_trainer/device/cuda/cuda_checks.h"

#define GPT_KERNEL __global__

namespace gpt {

inline constexpr int kBlockThreads = 256;
inline constexpr int kWarpThreads = 32;
inline constexpr int kBlockWarps = kBlockThreads / kWarpThreads;

__host__ __device__ inline float ToFloat(__nv_bfloat16 x) {
  return __bfloat162float(x);
}
__device__ inline __nv_bfloat16 ToElement(float x) {
  return __float2bfloat16(x);
}
__device__ inline float Exp(float x) {
  return __expf(x);
}
__device__ inline float InverseRoot(float x) {
  return rsqrtf(x);
}
__device__ inline void AddTo(float* sum, float x) {
  atomicAdd(sum, x);
}

struct Add {
  __device__ float operator()(float a, float b) const { return a + b; }
};
struct Max {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

// Reduces one value per thread over the block; every thread gets the result.
// REQUIRES: blockDim.x == kBlockThreads, all threads call.
template <typename Operation>
__device__ inline float BlockReduce(float value, Operation operation) {
  __shared__ float warp_values[kBlockWarps];
  for (int offset = kWarpThreads / 2; offset > 0; offset /= 2) {
    value = operation(value, __shfl_xor_sync(0xffffffff, value, offset));
  }
  __syncthreads();  // warp_values may still be read from the previous call
  if (threadIdx.x % kWarpThreads == 0) {
    warp_values[threadIdx.x / kWarpThreads] = value;
  }
  __syncthreads();
  value = warp_values[0];
  for (int warp = 1; warp < kBlockWarps; ++warp) {
    value = operation(value, warp_values[warp]);
  }
  return value;
}

// The threads of one block. All of them call each function.
class Block {
 public:
  __device__ long long index() const { return blockIdx.x; }

  // body(i) for i in [0, count), each by one thread: the same one in every loop.
  template <typename Body>
  __device__ void ForEach(int count, Body body) const {
    for (int i = threadIdx.x; i < count; i += kBlockThreads) {
      body(i);
    }
  }
  template <typename Term>
  __device__ float Sum(int count, Term term) const {
    float sum = 0.0f;
    ForEach(count, [&](int i) { sum += term(i); });
    return BlockReduce(sum, Add());
  }
  template <typename Term>
  __device__ float Largest(int count, Term term) const {
    float largest = -INFINITY;
    ForEach(count, [&](int i) { largest = fmaxf(largest, term(i)); });
    return BlockReduce(largest, Max());
  }
  template <typename Body>
  __device__ void Once(Body body) const {
    if (threadIdx.x == 0) {
      body();
    }
  }
  // What the block's threads wrote before, all of them see after.
  __device__ void Barrier() const { __syncthreads(); }
  // The dynamic shared memory of the launch.
  __device__ float* shared() const {
    extern __shared__ float memory[];
    return memory;
  }
};

class Columns {
 public:
  // done(column, sum) with the sum over rows of term(row, column), for the block's
  // columns. Value: default-constructed as zero, with operator+=.
  template <typename Value, typename Term, typename Done>
  __device__ void Sum(int rows, int columns, Term term, Done done) const {
    __shared__ Value sums[kBlockWarps][kWarpThreads];
    const int column = blockIdx.x * kWarpThreads + threadIdx.x;
    Value sum{};
    if (column < columns) {
      for (int row = threadIdx.y; row < rows; row += kBlockWarps) {
        sum += term(row, column);
      }
    }
    sums[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y == 0 && column < columns) {
      for (int lane = 1; lane < kBlockWarps; ++lane) {
        sum += sums[lane][threadIdx.x];
      }
      done(column, sum);
    }
  }
};

class Grid {
 public:
  template <typename Body>
  __device__ void ForEach(long long elements, Body body) const {
    const long long stride = 1LL * gridDim.x * blockDim.x;
    for (long long i = 1LL * blockIdx.x * blockDim.x + threadIdx.x; i < elements;
         i += stride) {
      body(i);
    }
  }
  // The block's part of a sum over all elements; done(block, sum) once per block.
  template <typename Term, typename Done>
  __device__ void SumOfBlock(long long elements, Term term, Done done) const {
    float sum = 0.0f;
    ForEach(elements, [&](long long i) { sum += term(i); });
    sum = BlockReduce(sum, Add());
    if (threadIdx.x == 0) {
      done(blockIdx.x, sum);
    }
  }
};

template <typename... Parameters, typename... Values>
void Launch(StreamHandle stream, dim3 blocks, dim3 threads, size_t shared_bytes,
            void (*kernel)(Parameters...), Values... values) {
  kernel<<<blocks, threads, shared_bytes, stream>>>(values...);
  GPT_CHECK_CUDA(cudaGetLastError());
}

// For bodies that use Block.
template <typename... Parameters, typename... Values>
void LaunchBlocks(StreamHandle stream, long long blocks, void (*kernel)(Parameters...),
                  Values... values) {
  Launch(stream, static_cast<unsigned>(blocks), kBlockThreads, 0, kernel, values...);
}
template <typename... Parameters, typename... Values>
void LaunchBlocksWithShared(StreamHandle stream, long long blocks, long long floats,
                            void (*kernel)(Parameters...), Values... values) {
  Launch(stream, static_cast<unsigned>(blocks), kBlockThreads, floats * sizeof(float),
         kernel, values...);
}

// For bodies that use Columns.
template <typename... Parameters, typename... Values>
void LaunchColumns(StreamHandle stream, int columns, void (*kernel)(Parameters...),
                   Values... values) {
  const unsigned blocks = (columns + kWarpThreads - 1) / kWarpThreads;
  Launch(stream, blocks, dim3(kWarpThreads, kBlockWarps), 0, kernel, values...);
}

// For bodies that use Grid: a thread per element; loops take the rest where there are
// more.
template <typename... Parameters, typename... Values>
void LaunchElements(StreamHandle stream, long long elements,
                    void (*kernel)(Parameters...), Values... values) {
  constexpr long long kMostBlocks = 1 << 20;
  const long long blocks = (elements + kBlockThreads - 1) / kBlockThreads;
  LaunchBlocks(stream, std::clamp<long long>(blocks, 1, kMostBlocks), kernel,
               values...);
}

}  // namespace gpt

#endif  // EXAMPLES_GPT_TRAINER_DEVICE_CUDA_KERNEL_TOOLS_H_
