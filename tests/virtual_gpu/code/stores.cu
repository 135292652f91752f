// Kernels whose stores are known by their source, for stored_parameters_test.cc.

#include <cassert>
#include <cstdint>

struct Tensors {
  int64_t rows;
  const float* in;
  float* out;
  const int64_t* index;
};

extern "C" __global__ void axpy(const float* x, float* y, int n, float a) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n;
       i += gridDim.x * blockDim.x)
    y[i] += a * x[i];
}

extern "C" __global__ void gather_rows(Tensors t) {
  const int64_t row = blockIdx.x;
  assert(t.index[row] < t.rows);
  t.out[row * blockDim.x + threadIdx.x] = t.in[t.index[row] * blockDim.x + threadIdx.x];
}

extern "C" __global__ void scatter_add(const float* in, const int* index, float* out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  atomicAdd(out + index[i], in[i]);
}

// Either of two, by a value.
extern "C" __global__ void either(float* a, float* b, const float* in, int n) {
  float* const to = n > 7 ? a : b;
  to[threadIdx.x] = in[threadIdx.x];
}

// Pointers that change places in a loop.
extern "C" __global__ void ping_pong(float* a, float* b, const float* in, int n) {
  for (int i = 0; i < n; ++i) {
    a[threadIdx.x] = b[threadIdx.x] + in[i];
    float* const other = a;
    a = b;
    b = other;
    __syncthreads();
  }
}

// Pointers that wait in shared memory.
extern "C" __global__ void staged(float* out, const float* in) {
  __shared__ float* kept[2];
  if (threadIdx.x == 0)
    kept[blockIdx.x & 1] = out;
  __syncthreads();
  kept[blockIdx.x & 1][threadIdx.x] = in[threadIdx.x];
}

// A list in memory; one at a computed place among the parameters.
extern "C" __global__ void listed(float* const* list, const float* in) {
  list[blockIdx.x][threadIdx.x] = in[threadIdx.x];
}
struct List {
  float* of[4];
};
extern "C" __global__ void listed_by_value(List list, const float* in) {
  list.of[blockIdx.x & 3][threadIdx.x] = in[threadIdx.x];
}

__device__ __noinline__ void Put(float* to, float value) {
  to[threadIdx.x] = value / (threadIdx.x + 3.5f);
}
extern "C" __global__ void calls(float* out, const float* in, float* other) {
  Put(out, in[threadIdx.x] / in[threadIdx.x + 1]);
  if (other[threadIdx.x] > 1)
    Put(out + 32, other[threadIdx.x]);
}

extern "C" __global__ void next_in_list(float** head) {
  for (float** at = head; at != nullptr; at = reinterpret_cast<float**>(*at))
    reinterpret_cast<float*>(at)[2] = 1;
}

__device__ float variable[32];
extern "C" __global__ void to_a_variable(const float* in) {
  variable[threadIdx.x] = in[threadIdx.x];
}

// Divisors and strides, in whose place an old address may stand.
struct Divided {
  unsigned divisor[2], magic[2], shift[2], stride[2][2];
};
extern "C" __global__ void strided(float* out, const float* in, Divided by,
                                   unsigned n) {
  unsigned left = blockIdx.x * blockDim.x + threadIdx.x;
  if (left >= n)
    return;
  unsigned to = 0, from = 0;
  for (int i = 0; i < 2; ++i) {
    const unsigned quotient = (__umulhi(left, by.magic[i]) + left) >> by.shift[i];
    const unsigned rest = left - quotient * by.divisor[i];
    to += rest * by.stride[i][0];
    from += rest * by.stride[i][1];
    left = quotient;
  }
  out[to] = in[from];
}
