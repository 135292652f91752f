// Floats of every size, whose results the test computes on the host.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstdint>

#define KERNEL extern "C" __global__ void
#define INDEX (blockIdx.x * blockDim.x + threadIdx.x)

// Each output has `n` elements.
KERNEL single_arithmetic(const float* a, const float* b, float* out, int n) {
  if (int i = INDEX; i < n) {
    const float x = a[i], y = b[i];
    out[i] = __fadd_rd(x, y);
    out[n + i] = __fadd_ru(x, y);
    out[2 * n + i] = __fadd_rz(x, y);
    out[3 * n + i] = __fmul_rd(x, y);
    out[4 * n + i] = __fmul_ru(x, y);
    out[5 * n + i] = __fmul_rz(x, y);
    out[6 * n + i] = __fmaf_rd(x, y, x);
    out[7 * n + i] = __fmaf_ru(x, y, x);
    out[8 * n + i] = __fmaf_rz(x, y, x);
    out[9 * n + i] = __saturatef(x * y);
    out[10 * n + i] = fminf(x, y);
    out[11 * n + i] = fmaxf(x, y);
    out[12 * n + i] = x / y;
    out[13 * n + i] = sqrtf(fabsf(x));
    out[14 * n + i] = rintf(x);
    out[15 * n + i] = floorf(x);
    out[16 * n + i] = ceilf(y);
    out[17 * n + i] = truncf(y);
    out[18 * n + i] = __fmaf_rn(x, y, -y);
    out[19 * n + i] = x > y ? 1.0f : 0.0f;
  }
}

KERNEL single_functions(const float* a, float* out, int n) {
  if (int i = INDEX; i < n) {
    const float x = a[i];
    out[i] = expf(x);
    out[n + i] = logf(fabsf(x));
    out[2 * n + i] = sinf(x);
    out[3 * n + i] = cosf(x);
    out[4 * n + i] = tanhf(x);
    out[5 * n + i] = rsqrtf(fabsf(x));
    out[6 * n + i] = powf(fabsf(x), 1.25f);
    out[7 * n + i] = erff(x);
    out[8 * n + i] = __sinf(x);
    out[9 * n + i] = __cosf(x);
    out[10 * n + i] = exp2f(x);
  }
}

KERNEL double_arithmetic(const double* a, const double* b, double* out, int n) {
  if (int i = INDEX; i < n) {
    const double x = a[i], y = b[i];
    out[i] = x + y;
    out[n + i] = x * y;
    out[2 * n + i] = fma(x, y, x);
    out[3 * n + i] = x / y;
    out[4 * n + i] = sqrt(fabs(x));
    out[5 * n + i] = fmin(x, y);
    out[6 * n + i] = fmax(x, y);
    out[7 * n + i] = x < y ? x : -y;
    out[8 * n + i] = floor(x);
    out[9 * n + i] = __dmul_ru(x, y);
    out[10 * n + i] = __fma_rd(x, y, y);
    out[11 * n + i] = exp(x);
    out[12 * n + i] = log(fabs(x));
    out[13 * n + i] = x != y;
  }
}

KERNEL conversions(const double* a, const float* b, const int64_t* c, int64_t* whole,
                   double* real, int n) {
  if (int i = INDEX; i < n) {
    whole[i] = static_cast<int64_t>(a[i]);
    whole[n + i] = static_cast<int>(a[i]);
    whole[2 * n + i] = static_cast<int64_t>(static_cast<uint64_t>(fabs(a[i])));
    whole[3 * n + i] = static_cast<int64_t>(b[i]);
    whole[4 * n + i] = __float2int_rn(b[i]);
    whole[5 * n + i] = __float2int_rd(b[i]);
    whole[6 * n + i] = static_cast<uint32_t>(fabsf(b[i]));
    real[i] = static_cast<float>(a[i]);
    real[n + i] = b[i];
    real[2 * n + i] = static_cast<double>(c[i]);
    real[3 * n + i] = static_cast<float>(c[i]);
    real[4 * n + i] = static_cast<double>(static_cast<int>(c[i]));
    real[5 * n + i] = static_cast<double>(static_cast<uint64_t>(c[i]));
    real[6 * n + i] = static_cast<float>(static_cast<int8_t>(c[i]));
    real[7 * n + i] = static_cast<float>(static_cast<uint16_t>(c[i]));
  }
}

template <typename Number, typename Pair>
__device__ void Halves(const Pair* a, const Pair* b, Pair* out, int n) {
  if (int i = INDEX; i < n) {
    const Pair x = a[i], y = b[i];
    out[i] = __hadd2(x, y);
    out[n + i] = __hmul2(x, y);
    out[2 * n + i] = __hfma2(x, y, x);
    out[3 * n + i] = __hmin2(x, y);
    out[4 * n + i] = __hmax2(x, y);
    out[5 * n + i] = __hgt2(x, y);
    out[6 * n + i] = __hne2(x, y);
    out[7 * n + i] = __hsub2(x, y);
    const float product = static_cast<float>(x.x) * static_cast<float>(y.y);
    Pair packed;
    packed.x = Number(product);
    packed.y = x.x < y.x ? x.y : __habs(y.y);
    out[8 * n + i] = packed;
  }
}

KERNEL halves(const __half2* a, const __half2* b, __half2* out, int n) {
  Halves<__half>(a, b, out, n);
}

KERNEL bfloats(const __nv_bfloat162* a, const __nv_bfloat162* b, __nv_bfloat162* out,
               int n) {
  Halves<__nv_bfloat16>(a, b, out, n);
}

KERNEL float_sums(const float* a, const double* b, float* sum, double* double_sum,
                  int n) {
  if (int i = INDEX; i < n) {
    atomicAdd(sum, a[i]);
    atomicAdd(double_sum, b[i]);
  }
}

// Arguments of any size: the tables of the math library.
KERNEL double_functions(const double* a, double* out, int n) {
  if (int i = INDEX; i < n) {
    const double x = a[i];
    double sine, cosine;
    sincos(x, &sine, &cosine);
    out[i] = sine;
    out[n + i] = cosine;
    out[2 * n + i] = tan(x);
    out[3 * n + i] = sinf(static_cast<float>(x));
    out[4 * n + i] = cosf(static_cast<float>(x));
    out[5 * n + i] = lgamma(fabs(x));
  }
}

// Integers of every size to 16 bits, with one rounding. The last one: in pairs.
KERNEL small_from_integers(const int64_t* a, __half* halves, __nv_bfloat16* bfloats,
                           int n) {
  if (int i = INDEX; i < n) {
    halves[i] = __ll2half_rn(a[i]);
    halves[n + i] = __int2half_rn(static_cast<int>(a[i]));
    halves[2 * n + i] = __ushort2half_rn(static_cast<unsigned short>(a[i]));
    bfloats[i] = __ll2bfloat16_rn(a[i]);
    bfloats[n + i] = __int2bfloat16_rn(static_cast<int>(a[i]));
    bfloats[2 * n + i] = __ushort2bfloat16_rn(static_cast<unsigned short>(a[i]));
  }
}

// Sums of half of a pair: the other half adds 0.
KERNEL half_sums(const __half* a, __half* out, __nv_bfloat16* out_bfloats, int n) {
  if (int i = INDEX; i < n) {
    atomicAdd(out + i % 3, a[i]);
    atomicAdd(out_bfloats + i % 3, __float2bfloat16(__half2float(a[i])));
  }
}

// A product in memory, of one half of a word.
KERNEL half_products(const __half* a, unsigned* out, int n) {
  if (int i = INDEX; i < n) {
    const float factor = __half2float(a[i]);
    unsigned before = out[0], seen;
    const bool upper = i % 2 != 0;
    do {
      seen = before;
      const __half half =
          __ushort_as_half(static_cast<unsigned short>(upper ? seen >> 16 : seen));
      const unsigned product =
          __half_as_ushort(__float2half(__half2float(half) * factor));
      before = atomicCAS(
          out, seen,
          upper ? (seen & 0xffff) | product << 16 : (seen & 0xffff0000) | product);
    } while (before != seen);
  }
}

// A function that calls itself on some lanes, while others wait for them in it.
__device__ __noinline__ float odd(float x, int n) {
  if (x < 0)
    return -odd(-x, n);
  float y = x * x;
  if (x > 2)
    for (int i = 0; i < n; ++i)
      y = y / (x + i);
  return x < 5 ? y + sqrtf(x) : y / 3;
}
KERNEL recursive_floats(const float* a, float* out, int n) {
  if (int i = INDEX; i < n) {
    out[i] = odd(a[i], i % 5);
    if (a[i] > -3)
      out[i] += odd(a[i] - 1, 3);
  }
}

// Pairs to pairs of bytes, two of them in a word of two forms; code of sm_90 has
// instructions for it, others compute.
KERNEL bytes_from_floats(const float2* a, const __half2* halves, uint32_t* out, int n) {
  if (int i = INDEX; i < n) {
    const auto pair = [&](float2 from, __nv_fp8_interpretation_t kind) {
      return uint32_t{__nv_cvt_float2_to_fp8x2(from, __NV_SATFINITE, kind)};
    };
    const auto of_halves = [&](__nv_fp8_interpretation_t kind) {
      return uint32_t{__nv_cvt_halfraw2_to_fp8x2(halves[i], __NV_SATFINITE, kind)};
    };
    out[i] = pair(a[i], __NV_E4M3) | pair(a[(i + 1) % n], __NV_E4M3) << 16;
    out[n + i] = pair(a[i], __NV_E5M2) | pair(a[(i + 1) % n], __NV_E5M2) << 16;
    out[2 * n + i] = of_halves(__NV_E4M3) | of_halves(__NV_E5M2) << 16;
  }
}

KERNEL halves_from_bytes(const uint32_t* bytes, __half2* out, int n) {
  if (int i = INDEX; i < n) {
    const auto halves = [](uint32_t pair, __nv_fp8_interpretation_t kind) {
      return __half2(
          __nv_cvt_fp8x2_to_halfraw2(static_cast<__nv_fp8x2_storage_t>(pair), kind));
    };
    const uint32_t word = bytes[i];
    out[i] = halves(word, __NV_E4M3);
    out[n + i] = halves(word >> 16, __NV_E4M3);
    out[2 * n + i] = halves(word, __NV_E5M2);
    out[3 * n + i] = halves(word >> 16, __NV_E5M2);
  }
}
