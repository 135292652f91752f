// The sweep's code with AVX2: four ranks at a time. Compiled with -mavx2 and
// -mfma.

#include "graph/sweep/kernel_inl.h"

#if defined(__AVX2__) && defined(__FMA__)

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
    constexpr int64_t kLow = 0x0504030201000706, kHigh = 0x0d0c0b0a09080f0e;
    return _mm256_shuffle_epi8(a, _mm256_setr_epi64x(kLow, kHigh, kLow, kHigh));
  }
  // Rotate16, as often as `times` says.
  static V Rotate16(V a, V times) {
    const V by = _mm256_and_si256(_mm256_slli_epi64(times, 4), Set(48));
    return _mm256_or_si256(_mm256_sllv_epi64(a, by),
                           _mm256_srlv_epi64(a, Subtract(Set(64), by)));
  }

  // Doubles from 2^52 to 2^53 are the whole numbers, which their last 52 bits count.
  static constexpr int64_t kOne = int64_t{0x3ff} << 52;           // 1.0
  static constexpr int64_t kTwoTo52 = int64_t{0x3ff + 52} << 52;  // 2^52
  // Products are rounded down while one of these lives.
  class Rounding {
   public:
    Rounding() : before_(_mm_getcsr()) { _mm_setcsr(before_ | _MM_ROUND_TOWARD_ZERO); }
    Rounding(const Rounding&) = delete;
    Rounding& operator=(const Rounding&) = delete;
    ~Rounding() { _mm_setcsr(before_); }

   private:
    const uint32_t before_;
  };
  // A number below 2^32, and 2^52 less it.
  struct Factor {
    __m256d number, rest;
  };
  static __m256d AsDouble(V bits) { return _mm256_castsi256_pd(bits); }
  static Factor FactorOf(V v) {
    const __m256d two_to_52 = AsDouble(Set(kTwoTo52));
    const __m256d number =
        _mm256_sub_pd(AsDouble(_mm256_or_si256(v, Set(kTwoTo52))), two_to_52);
    return {number, _mm256_sub_pd(two_to_52, number)};
  }
  // a + (low 52 bits of `draw`) * b / 2^52. These bits behind the point of 1, times b,
  // are b more than what is added; fused, only the sum with 2^52 - b is rounded, and
  // that to a whole number.
  static V AddHigh52(V a, V draw, const Factor& b) {
    const V one =
        _mm256_or_si256(_mm256_and_si256(draw, Set((int64_t{1} << 52) - 1)), Set(kOne));
    const __m256d sum = _mm256_fmadd_pd(AsDouble(one), b.number, b.rest);
    return Add(a, Subtract(_mm256_castpd_si256(sum), Set(kTwoTo52)));
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
