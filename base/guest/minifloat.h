// Floating-point formats of 8 and 16 bits: bits to float, and back to the nearest even.
//
// The formats are float16 (IEEE 754 binary16), bfloat16, and the two 8-bit formats of
// the OCP 8-bit floating point specification (2023): E4M3 without infinities and with
// one NaN per sign, E5M2 as in IEEE 754. Conversions to the 8-bit formats saturate, as
// CUDA's default conversions (__NV_SATFINITE) do.
//
// Thread rule: pure functions.

#ifndef VRANK_BASE_GUEST_MINIFLOAT_H_
#define VRANK_BASE_GUEST_MINIFLOAT_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace vrank {

template <int kExponentBits, int kMantissaBits, bool kInfinities, bool kSaturate>
struct Minifloat {
  static constexpr int kBias = (1 << (kExponentBits - 1)) - 1;
  static constexpr uint32_t kSign = 1u << (kExponentBits + kMantissaBits);
  static constexpr uint32_t kExponentMask = (1u << kExponentBits) - 1;
  static constexpr uint32_t kMantissaMask = (1u << kMantissaBits) - 1;
  // All exponent bits set: infinity where the format has one. Without infinities only
  // the all-ones pattern is not a number.
  static constexpr uint32_t kInfinity = kExponentMask << kMantissaBits;
  static constexpr uint32_t kNan =
      kInfinities ? (kInfinity | (kMantissaMask + 1) / 2) : (kInfinity | kMantissaMask);
  static constexpr uint32_t kLargest =
      kInfinities ? kInfinity - 1 : (kInfinity | kMantissaMask) - 1;

  static float Decode(uint32_t bits) {
    const uint32_t exponent = (bits >> kMantissaBits) & kExponentMask;
    const uint32_t mantissa = bits & kMantissaMask;
    const float sign = (bits & kSign) != 0 ? -1.0f : 1.0f;
    if (kInfinities && exponent == kExponentMask)
      return mantissa == 0 ? sign * std::numeric_limits<float>::infinity()
                           : std::numeric_limits<float>::quiet_NaN();
    if (!kInfinities && (bits & ~kSign) == kNan)
      return std::numeric_limits<float>::quiet_NaN();
    if (exponent == 0)  // subnormal: no implicit one
      return sign * std::ldexp(static_cast<float>(mantissa), 1 - kBias - kMantissaBits);
    return sign * std::ldexp(static_cast<float>(mantissa + kMantissaMask + 1),
                             static_cast<int>(exponent) - kBias - kMantissaBits);
  }

  static uint32_t Encode(float value) {
    const uint32_t sign = std::signbit(value) ? kSign : 0;
    if (std::isnan(value))
      return sign | kNan;
    if (std::isinf(value))
      return sign | (kSaturate ? kLargest : kInfinity);
    const double magnitude = std::fabs(static_cast<double>(value));
    if (magnitude == 0)
      return sign;
    const int smallest_normal = 1 - kBias;
    const int exponent = std::max(std::ilogb(magnitude), smallest_normal);
    // In units of the last place; exact, since only the exponent changes. A carry out
    // of the mantissa moves into the exponent field by itself.
    const double units =
        std::nearbyint(std::ldexp(magnitude, kMantissaBits - exponent));
    const double bits = units + std::ldexp(exponent - smallest_normal, kMantissaBits);
    if (bits > kLargest)
      return sign | (kSaturate ? kLargest : kInfinity);
    return sign | static_cast<uint32_t>(bits);
  }
};

using Float16 = Minifloat<5, 10, true, false>;
using Bfloat16 = Minifloat<8, 7, true, false>;
using Float8E4M3 = Minifloat<4, 3, false, true>;
using Float8E5M2 = Minifloat<5, 2, true, true>;

}  // namespace vrank

#endif  // VRANK_BASE_GUEST_MINIFLOAT_H_
