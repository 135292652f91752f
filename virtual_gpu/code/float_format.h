// Numbers of 16 and 32 bits, and rounding to them.
//
// Thread rule: pure functions.

#ifndef VRANK_VIRTUAL_GPU_CODE_FLOAT_FORMAT_H_
#define VRANK_VIRTUAL_GPU_CODE_FLOAT_FORMAT_H_

#include <bit>
#include <cmath>
#include <cstdint>

namespace vrank::gpu {

// As two bits of an instruction say it.
enum class Rounding : uint8_t { kNearest = 0, kDown = 1, kUp = 2, kToZero = 3 };

// A binary format: a sign, then an exponent, then `fraction` bits.
struct FloatFormat {
  int fraction;
  int least_exponent;  // of a normal number
  uint32_t infinity;   // its bits
  uint32_t sign;       // the sign's bit
  uint32_t nan;        // what operations return that have no number
};

// Single precision: CUDA C++ Programming Guide, "Floating-Point Standard". Half and
// bfloat16: __CUDART_NAN_FP16 and __CUDART_NAN_BF16 of CUDA's headers.
inline constexpr FloatFormat kSingle{23, -126, 0x7f800000, 0x80000000, 0x7fffffff};
inline constexpr FloatFormat kHalf{10, -14, 0x7c00, 0x8000, 0x7fff};
inline constexpr FloatFormat kBfloat{7, -126, 0x7f80, 0x8000, 0x7fff};

// The bits of `value` in the format. One rounding: right for what is exact in double
// precision, and for what SumToOdd returns.
inline uint32_t RoundTo(double value, const FloatFormat& format, Rounding mode) {
  constexpr int kFraction = 52, kBias = 1023;
  constexpr uint64_t kHidden = uint64_t{1} << kFraction;
  const auto bits = std::bit_cast<uint64_t>(value);
  const bool negative = bits >> 63 != 0;
  const uint32_t sign = negative ? format.sign : 0;
  const auto exponent = static_cast<int>(bits >> kFraction & 0x7ff);
  const uint64_t fraction = bits & (kHidden - 1);
  if (exponent == 0x7ff)
    return fraction != 0 ? format.nan : sign | format.infinity;
  const uint64_t significand = fraction | (exponent != 0 ? kHidden : 0);
  const int scale = (exponent != 0 ? exponent : 1) - kBias;
  int shift = kFraction - format.fraction;
  if (scale < format.least_exponent)
    shift += format.least_exponent - scale;
  // So far below: no bit stays, and what is lost is less than half of the last one.
  shift = shift > kFraction + 2 ? kFraction + 2 : shift;
  uint64_t kept = significand >> shift;
  const uint64_t lost = significand & ((uint64_t{1} << shift) - 1);
  const uint64_t half = uint64_t{1} << (shift - 1);
  switch (mode) {
    case Rounding::kNearest:
      kept += lost > half || (lost == half && (kept & 1) != 0) ? 1 : 0;
      break;
    case Rounding::kDown:
      kept += negative && lost != 0 ? 1 : 0;
      break;
    case Rounding::kUp:
      kept += !negative && lost != 0 ? 1 : 0;
      break;
    case Rounding::kToZero:
      break;
  }
  if (scale >= format.least_exponent)
    kept += static_cast<uint64_t>(scale - format.least_exponent) << format.fraction;
  if (kept >= format.infinity) {
    const bool to_infinity = mode == Rounding::kNearest ||
                             mode == (negative ? Rounding::kDown : Rounding::kUp);
    return sign | (to_infinity ? format.infinity : format.infinity - 1);
  }
  return sign | static_cast<uint32_t>(kept);
}

// The sum, rounded to odd: a second rounding, to a format of 50 bits or fewer, comes
// out as one rounding of the exact sum would (Boldo and Melquiond, "Emulation of FMA
// and correctly rounded sums: proved algorithms using rounding to odd").
inline double SumToOdd(double a, double b) {
  const double sum = a + b;
  if (!std::isfinite(sum))
    return sum;
  const double of_b = sum - a;
  const double error = (a - (sum - of_b)) + (b - of_b);
  auto bits = std::bit_cast<uint64_t>(sum);
  if (error == 0 || (bits & 1) != 0)
    return sum;
  // Towards the error, from an even number: either neighbour is odd.
  bits += (error > 0) == (sum > 0) ? 1 : uint64_t(0) - 1;
  return std::bit_cast<double>(bits);
}

// Exact.
inline double FromHalf(uint32_t bits) {
  const uint32_t exponent = bits >> 10 & 0x1f, fraction = bits & 0x3ff;
  double value = 0;
  if (exponent == 0x1f)
    value = fraction != 0 ? std::nan("") : HUGE_VAL;
  else if (exponent == 0)
    value = fraction * 0x1p-24;
  else
    value = std::bit_cast<double>(uint64_t{exponent + 1023 - 15} << 52 |
                                  uint64_t{fraction} << 42);
  return (bits & 0x8000) != 0 ? -value : value;
}
inline double FromBfloat(uint32_t bits) {
  return std::bit_cast<float>(bits << 16);
}

// A subnormal number becomes a zero of its sign.
inline uint32_t Flush(uint32_t bits, const FloatFormat& format) {
  return (bits & format.infinity) == 0 ? bits & format.sign : bits;
}

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CODE_FLOAT_FORMAT_H_
