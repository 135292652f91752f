// The sweep's code with AVX-512: eight ranks at a time. Compiled with -mavx512f,
// -mavx512dq and -mavx512ifma.

#include "graph/sweep/kernel_inl.h"

#if defined(__AVX512F__) && defined(__AVX512DQ__) && defined(__AVX512IFMA__)

#include <immintrin.h>

namespace vrank::graph {
namespace {

struct Avx512 {
  using V = __m512i;
  static constexpr uint32_t kWidth = 8;
  static constexpr uint32_t kVectors = 8;  // of a run: a block of 64 ranks
  static V Load(const int64_t* from) { return _mm512_loadu_si512(from); }
  static V LoadKeys(const uint64_t* from) { return _mm512_loadu_si512(from); }
  static V LoadCosts(const uint32_t* from) {
    return _mm512_cvtepu32_epi64(
        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
  }
  static void Store(int64_t* to, V v) { _mm512_storeu_si512(to, v); }
  // Past the caches. REQUIRES: `to` is aligned to a vector.
  static void Stream(int64_t* to, V v) {
    _mm512_stream_si512(reinterpret_cast<V*>(to), v);
  }
  static V Set(int64_t v) { return _mm512_set1_epi64(v); }
  static V Add(V a, V b) { return _mm512_add_epi64(a, b); }
  static V Subtract(V a, V b) { return _mm512_sub_epi64(a, b); }
  static V Xor(V a, V b) { return _mm512_xor_si512(a, b); }
  template <int n>
  static V Right(V a) {
    return _mm512_srli_epi64(a, n);
  }
  static V Multiply(V a, V b) { return _mm512_mullo_epi64(a, b); }
  static __mmask8 Greater(V a, V b) { return _mm512_cmpgt_epi64_mask(a, b); }
  static __mmask8 Or(__mmask8 a, __mmask8 b) { return _kor_mask8(a, b); }
  static bool None(__mmask8 a) { return a == 0; }
  static V Select(__mmask8 which, V yes, V no) {
    return _mm512_mask_blend_epi64(which, no, yes);
  }
  static V AddWhere(__mmask8 which, V a, V b, V no) {
    return _mm512_mask_add_epi64(no, which, a, b);
  }
  static V Rotate16(V a) { return _mm512_rol_epi64(a, 16); }
  // Rotate16, as often as `times` says.
  static V Rotate16(V a, V times) {
    return _mm512_rolv_epi64(a, _mm512_slli_epi64(times, 4));
  }
  struct Rounding {
    Rounding() {}
  };
  using Factor = V;
  static Factor FactorOf(V v) { return v; }
  // a + (low 52 bits of `draw`) * b / 2^52.
  static V AddHigh52(V a, V draw, Factor b) {
    return _mm512_madd52hi_epu64(a, draw, b);
  }
};

}  // namespace

SweepKernel Avx512SweepKernel(const SweepKernelKey& key) {
  return SweepKernelFor<Avx512>(key);
}

}  // namespace vrank::graph

#else

namespace vrank::graph {

SweepKernel Avx512SweepKernel(const SweepKernelKey&) {
  return nullptr;
}

}  // namespace vrank::graph

#endif
