// Kernels whose results the test computes on the host: together they use the operations
// that integer kernels consist of.

#include <cassert>
#include <cstdint>

#define KERNEL extern "C" __global__ void
#define INDEX (blockIdx.x * blockDim.x + threadIdx.x)

KERNEL fill(int64_t* out, int n, int64_t value) {
  for (int i = INDEX; i < n; i += gridDim.x * blockDim.x)
    out[i] = value + i;
}

KERNEL equals(const int64_t* a, bool* out, int n, int64_t value) {
  if (int i = INDEX; i < n)
    out[i] = a[i] == value;
}

// Four results at once: the compiler packs them into a register.
KERNEL compares4(const int64_t* a, uchar4* out, int n, int64_t value) {
  if (int i = INDEX; i < n)
    out[i] = {
        a[4 * i]<value, a[4 * i + 1] <= value, a[4 * i + 2] != value, a[4 * i + 3]>
            value};
}

KERNEL divides(const int* a, const int* b, int* quotient, int* rest, int n) {
  if (int i = INDEX; i < n) {
    quotient[i] = a[i] / b[i];
    rest[i] = a[i] % b[i];
  }
}

KERNEL divides_unsigned(const uint32_t* a, const uint32_t* b, uint32_t* quotient,
                        int n) {
  if (int i = INDEX; i < n)
    quotient[i] = a[i] / b[i];
}

KERNEL divides_long(const int64_t* a, const int64_t* b, int64_t* quotient,
                    int64_t* rest, int n) {
  if (int i = INDEX; i < n) {
    quotient[i] = a[i] / b[i];
    rest[i] = a[i] % b[i];
  }
}

KERNEL multiplies_long(const int64_t* a, const int64_t* b, int64_t* low, int64_t* high,
                       int n) {
  if (int i = INDEX; i < n) {
    low[i] = a[i] * b[i] - a[i];
    high[i] = __mul64hi(a[i], b[i]);
  }
}

KERNEL adds_long(const int64_t* a, const int64_t* b, int64_t* sum, int n) {
  if (int i = INDEX; i < n)
    sum[i] = a[i] + b[i];
}

KERNEL shifts(const uint64_t* a, const int* by, uint64_t* left, uint64_t* right,
              int64_t* signed_right, int n) {
  if (int i = INDEX; i < n) {
    left[i] = a[i] << by[i];
    right[i] = a[i] >> by[i];
    signed_right[i] = static_cast<int64_t>(a[i]) >> by[i];
  }
}

KERNEL bits(const uint32_t* a, uint32_t* out, int n) {
  if (int i = INDEX; i < n) {
    const uint32_t x = a[i];
    out[i] = __popc(x) + 100 * __clz(x) + 10000 * __ffs(x) + (__brev(x) & 0xff000000) +
             (__byte_perm(x, ~x, 0x5410) & 0x00f00000);
  }
}

KERNEL least_and_most(const int* a, const int* b, int* least, uint32_t* most,
                      int64_t* most_long, int n) {
  if (int i = INDEX; i < n) {
    least[i] = min(a[i], b[i]);
    most[i] = max(static_cast<uint32_t>(a[i]), static_cast<uint32_t>(b[i]));
    const int64_t x = a[i] * int64_t{1} << 20, y = b[i] * int64_t{1} << 20;
    most_long[i] = max(x, y) + abs(a[i]);
  }
}

KERNEL sums(const int64_t* a, unsigned long long* out, int n) {
  __shared__ int64_t parts[32];
  int64_t sum = 0;
  for (int i = INDEX; i < n; i += gridDim.x * blockDim.x)
    sum += a[i];
  for (int step = 16; step > 0; step /= 2)
    sum += __shfl_down_sync(~0u, sum, step);
  if (threadIdx.x % 32 == 0)
    parts[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x < 32) {
    sum = threadIdx.x < blockDim.x / 32 ? parts[threadIdx.x] : 0;
    for (int step = 16; step > 0; step /= 2)
      sum += __shfl_down_sync(~0u, sum, step);
    if (threadIdx.x == 0)
      atomicAdd(out, static_cast<unsigned long long>(sum));
  }
}

KERNEL all_true(const bool* a, int* out, int n) {
  const bool mine = static_cast<int>(threadIdx.x) >= n || a[threadIdx.x];
  const int all = __syncthreads_and(mine);
  const int any = __syncthreads_or(!mine);
  const int count = __syncthreads_count(mine);
  if (threadIdx.x == 0) {
    out[0] = all != 0;
    out[1] = any != 0;
    out[2] = count;
  }
}

KERNEL scans(const int* a, int* out, int n) {
  __shared__ int totals[32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int value = static_cast<int>(threadIdx.x) < n ? a[threadIdx.x] : 0;
  for (int step = 1; step < 32; step *= 2) {
    const int other = __shfl_up_sync(~0u, value, step);
    value += lane >= step ? other : 0;
  }
  if (lane == 31)
    totals[warp] = value;
  __syncthreads();
  for (int i = 0; i < warp; ++i)
    value += totals[i];
  if (static_cast<int>(threadIdx.x) < n)
    out[threadIdx.x] = value;
}

KERNEL counts(const uint8_t* a, int* out, int n) {
  __shared__ int bins[256];
  bins[threadIdx.x] = 0;
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x)
    atomicAdd(&bins[a[i]], 1);
  __syncthreads();
  atomicAdd(&out[threadIdx.x], bins[threadIdx.x]);
}

KERNEL sorts(const int* a, int* out) {
  __shared__ int keys[256];
  const int me = threadIdx.x;
  keys[me] = a[me];
  for (int size = 2; size <= 256; size *= 2)
    for (int step = size / 2; step > 0; step /= 2) {
      __syncthreads();
      const int other = me ^ step;
      if (other > me && (keys[me] > keys[other]) == ((me & size) == 0)) {
        const int key = keys[me];
        keys[me] = keys[other];
        keys[other] = key;
      }
    }
  __syncthreads();
  out[me] = keys[me];
}

// Loops that end at different times, and branches by data.
KERNEL diverges(const uint32_t* a, int* out, int n) {
  int i = INDEX;
  if (i >= n)
    return;
  uint64_t x = a[i] % 1000 + 1;
  int steps = 0;
  while (x != 1) {
    x = x % 2 == 0 ? x / 2 : 3 * x + 1;
    if (++steps == 150)
      break;
  }
  switch (a[i] % 5) {
    case 0:
      steps += 1000;
      break;
    case 1:
      steps *= 3;
      break;
    case 2:
      steps -= 7;
      break;
    case 3:
      steps ^= 0x55;
      break;
    default:
      steps = -steps;
  }
  out[i] = steps;
}

KERNEL local_arrays(const uint8_t* a, int* out, int n) {
  int i = INDEX;
  if (i >= n)
    return;
  int table[16];
  for (int k = 0; k < 16; ++k)
    table[k] = k * k + i;
  for (int k = 0; k < 8; ++k)
    table[a[8 * i + k] % 16] += table[(a[8 * i + k] / 16) % 16];
  int sum = 0;
  for (int k = 0; k < 16; ++k)
    sum = sum * 3 + table[k];
  out[i] = sum;
}

KERNEL votes(const int* a, uint32_t* out, int n) {
  const int i = INDEX;
  const int value = i < n ? a[i] : 0;
  const uint32_t ballot = __ballot_sync(~0u, value > 10);
  const uint32_t same = __match_any_sync(~0u, value & 3);
  const uint32_t total = __reduce_add_sync(~0u, value);
  const int least = __reduce_min_sync(~0u, value);
  if (i < n)
    out[i] = ballot + 3 * same + 5 * total + 7 * least +
             (__all_sync(~0u, value > 0) ? 1 : 0) +
             (__any_sync(~0u, value > 50) ? 2 : 0) + __shfl_xor_sync(~0u, value, 5) +
             __shfl_sync(~0u, value, value & 31, 8);
}

KERNEL exchanges(int* locks, int* out, int n) {
  int i = INDEX;
  if (i >= n)
    return;
  out[i] = atomicCAS(&locks[i], i % 3, 77);
  atomicMax(&locks[n], i * 7 % 101);
  atomicXor(&locks[n + 1], i);
}

KERNEL packs(const uint8_t* a, const uint8_t* b, uint8_t* out, int n) {
  if (int i = INDEX; i < n) {
    const uchar4 x = reinterpret_cast<const uchar4*>(a)[i];
    const uchar4 y = reinterpret_cast<const uchar4*>(b)[i];
    const int8_t z = static_cast<int8_t>(x.w);
    reinterpret_cast<uchar4*>(out)[i] = {
        static_cast<uint8_t>(x.x + y.x), static_cast<uint8_t>(x.y & y.y),
        static_cast<uint8_t>(x.z > y.z ? x.z : y.z), static_cast<uint8_t>(z >> 1)};
  }
}

KERNEL floats(const float* a, const float* b, float* out, int n) {
  if (int i = INDEX; i < n) {
    float x = a[i] * b[i] + 1.5f;
    x = x > b[i] ? x - a[i] : fmaxf(x, a[i]);
    out[i] = x + static_cast<float>(static_cast<int>(a[i]));
  }
}

KERNEL widens(const int8_t* a, int* out, int n) {
  if (int i = INDEX; i < n)
    out[i] = a[i];
}

// The upper half of the warp does not take part: what comes from there is anything.
KERNEL asks_absent_lanes(const int* a, int* out) {
  if (threadIdx.x < 16)
    out[threadIdx.x] = __shfl_sync(0xffff, a[threadIdx.x], threadIdx.x * 2);
}

// As PyTorch reduces with less than a warp: all lanes take what the lane behind has,
// with branches on it, and the first one's result counts.
KERNEL finds_largest(const int* a, int* out) {
  int value = a[threadIdx.x], at = threadIdx.x;
  for (int step = blockDim.x / 2; step > 0; step /= 2) {
    const int other = __shfl_down_sync(~0u, value, step);
    const int other_at = __shfl_down_sync(~0u, at, step);
    if (other > value || (other == value && other_at < at)) {
      value = other;
      at = other_at;
      atomicAdd(out + 2, 1);
    }
  }
  if (threadIdx.x == 0) {
    out[0] = value;
    out[1] = at;
  }
}

KERNEL takes_tickets(int* next, unsigned long long* total, int* ticket, int* larger) {
  if (threadIdx.x == 0) {
    ticket[blockIdx.x] = atomicAdd(next, 5);
    larger[blockIdx.x] = atomicMax(next, 8);
    atomicExch(total, atomicAdd(total, 3) * 2);
  }
}

KERNEL unknown_branch(const int* a, int* out) {
  if (a[0] > 5)
    out[threadIdx.x] = 1;
  else
    for (int i = 0; i < a[0]; ++i)
      out[i] = i;
}

KERNEL endless(int* out) {
  for (int i = 0; *static_cast<volatile int*>(out) == 0; ++i)
    out[1] = i;
}

// A function whose stack the compiler does not know.
__device__ __noinline__ int fibonacci(int n) {
  return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}
KERNEL recursion(const int* a, int* out, int n) {
  if (int i = INDEX; i < n)
    out[i] = fibonacci(a[i]);
}

// A table of places to go to, entered by a difference that wraps.
KERNEL switches(const unsigned* a, const unsigned* b, unsigned* out, int n) {
  if (int i = INDEX; i < n) {
    const unsigned x = a[i], y = b[i];
    switch (x) {
      case 3:
        out[i] = y * 7;
        break;
      case 4:
        out[i] = y / 3;
        break;
      case 5:
        out[i] = y ^ 0x55;
        break;
      case 6:
        out[i] = __popc(y);
        break;
      case 7:
        out[i] = y - 1;
        break;
      case 8:
        out[i] = __brev(y);
        break;
      default:
        out[i] = 0;
        break;
    }
    out[n + i] = __viaddmin_u32(x, y, x);
    out[2 * n + i] = __viaddmax_u32(x - 6, y, 17);
  }
}

KERNEL clamps(const int* a, const int* b, int* out, int n) {
  if (int i = INDEX; i < n) {
    const int x = a[i], y = b[i];
    out[i] = max(min(x, y), 0);
    out[n + i] = max(min(x - 1, y), 0);
    out[2 * n + i] = __viaddmax_s32_relu(x, y, -7);
  }
}

// Where a generic address points to is known when it runs.
__device__ __noinline__ int sum_of(const int* values, int n) {
  int sum = 0;
  for (int i = 0; i < n; ++i)
    sum += values[i];
  return sum;
}
KERNEL anywhere(const int* a, int* out, int n) {
  __shared__ int shared[32];
  int local[4];
  const int i = threadIdx.x;
  for (int k = 0; k < 4; ++k)
    local[(k + i) % 4] = a[i] * k;
  shared[i] = a[i];
  __syncthreads();
  const int* from = i % 3 == 0 ? a : i % 3 == 1 ? shared : local;
  out[i] = sum_of(from, 4);
  int* to = i % 2 == 0 ? out + n + i : shared + i;
  *to = i * 3;
  out[2 * n + i] = shared[i];
}

// As sorts of padded rows do: what nothing wrote is compared, and does not count.
KERNEL pads(const int* a, int* out, int n) {
  __shared__ int keys[64];
  __shared__ bool valid[64];
  const int i = threadIdx.x;
  if (i < n)
    keys[i] = a[i];
  valid[i] = i < n;
  __syncthreads();
  int sum = 0;
  for (int k = 0; k < (keys[i] & 7); ++k)
    sum += a[k];
  out[i] = valid[i] ? sum : -1;
}

KERNEL looks_up(const int* at, const int* table, int* out, int n) {
  const int i = INDEX;
  assert(at[i] >= 0 && at[i] < n && "not in the table");
  out[i] = table[at[i]];
}
