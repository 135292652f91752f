// The sweep's code with AVX2: four ranks at a time. Compiled with -mavx2.

#include "graph/sweep/kernel_inl.h"

#if defined(__AVX2__)

#include <immintrin.h>

namespace vrank::graph {
namespace {

struct Avx2 {
  using V = __m256i;
  static constexpr uint32_t kWidth = 4;
  static constexpr uint32_t kVectors = 4;  // of a run
  static V Load(const int64_t* from) {
    return _mm256_loadu_si256(reinterpret_cast<const V*>(from));
  }
  static V LoadKeys(const uint64_t* from) {
    return _mm256_loadu_si256(reinterpret_cast<const V*>(from));
  }
  static V LoadCosts(const uint32_t* from) {
    return _mm256_cvtepu32_epi64(
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  }
  static void Store(int64_t* to, V v) {
    _mm256_storeu_si256(reinterpret_cast<V*>(to), v);
  }
  // Past the caches. REQUIRES: `to` is aligned to a vector.
  static void Stream(int64_t* to, V v) {
    _mm256_stream_si256(reinterpret_cast<V*>(to), v);
  }
  static V Set(int64_t v) { return _mm256_set1_epi64x(v); }
  static V Add(V a, V b) { return _mm256_add_epi64(a, b); }
  static V Subtract(V a, V b) { return _mm256_sub_epi64(a, b); }
  static V Xor(V a, V b) { return _mm256_xor_si256(a, b); }
  template <int n>
  static V Right(V a) {
    return _mm256_srli_epi64(a, n);
  }
  static V MultiplyLow(V a, V b) { return _mm256_mul_epu32(a, b); }
  // The low 64 bits; AVX2 multiplies 32 at a time.
  static V Multiply(V a, V b) {
    const V cross = Add(MultiplyLow(Right<32>(a), b), MultiplyLow(a, Right<32>(b)));
    return Add(MultiplyLow(a, b), _mm256_slli_epi64(cross, 32));
  }
  static V Greater(V a, V b) { return _mm256_cmpgt_epi64(a, b); }
  static V Or(V a, V b) { return _mm256_or_si256(a, b); }
  static bool None(V a) { return _mm256_testz_si256(a, a) != 0; }
  static V Select(V which, V yes, V no) { return _mm256_blendv_epi8(no, yes, which); }
  static V AddWhere(V which, V a, V b, V no) { return Select(which, Add(a, b), no); }
  static V Rotate16(V a) {
    return _mm256_or_si256(_mm256_slli_epi64(a, 16), _mm256_srli_epi64(a, 48));
  }
  // a + (low 52 bits of `draw`) * b / 2^52. REQUIRES: b < 2^32.
  static V AddHigh52(V a, V draw, V b) {
    const V high = MultiplyLow(Right<20>(draw), b);
    const V low = MultiplyLow(_mm256_and_si256(draw, Set(0xfffff)), b);
    return Add(a, Right<32>(Add(high, Right<20>(low))));
  }
};

}  // namespace

SweepKernel Avx2SweepKernel(const SweepKernelKey& key) {
  return SweepKernelFor<Avx2>(key);
}

}  // namespace vrank::graph

#else

namespace vrank::graph {

SweepKernel Avx2SweepKernel(const SweepKernelKey&) {
  return nullptr;
}

}  // namespace vrank::graph

#endif
