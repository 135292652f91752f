// Conversions between numbers.
//
// PTX ISA, cvt: a float out of an integer's range saturates. NaN becomes 0, or the sign
// bit alone if a double or a 64-bit integer takes part (.NTZ selects).

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "base/guest/minifloat.h"
#include "virtual_gpu/code/float_format.h"
#include "virtual_gpu/code/warp.h"

namespace vrank::gpu {
namespace {

// Sizes of operands, as fields have them: bytes by their logarithm; a result may also
// be a bfloat16.
enum : uint32_t { k8 = 0, k16 = 1, k32 = 2, k64 = 3, kToBfloat = 4 };

constexpr uint32_t kHalfBits = 0xffff, kByteBits = 0xff;

// A float of 8 bits: what has no number becomes 0x7f.
uint32_t ToByte(float value, bool is_e4m3) {
  constexpr uint32_t kNan = 0x7f;
  if (std::isnan(value))
    return kNan;
  return is_e4m3 ? Float8E4M3::Encode(value) : Float8E5M2::Encode(value);
}
// The half of the same value.
uint32_t FromByte(uint32_t bits, bool is_e4m3) {
  const float value = is_e4m3 ? Float8E4M3::Decode(bits) : Float8E5M2::Decode(bits);
  return RoundTo(value, kHalf, Rounding::kNearest);
}

// A number of 64 bits or fewer.
template <typename Float>
Float Round(bool negative, uint64_t magnitude, Rounding mode) {
  // Exact: 64 bits of significand (x87), or more.
  static_assert(std::numeric_limits<long double>::digits >= 64);
  const auto exact = static_cast<long double>(magnitude);
  auto value = static_cast<Float>(magnitude);
  const bool away = mode == (negative ? Rounding::kDown : Rounding::kUp);
  if (mode != Rounding::kNearest) {
    if (away && static_cast<long double>(value) < exact)
      value = std::nextafter(value, std::numeric_limits<Float>::infinity());
    if (!away && static_cast<long double>(value) > exact)
      value = std::nextafter(value, Float{0});
  }
  return negative ? -value : value;
}

double WholeOf(double value, Rounding mode) {
  switch (mode) {
    case Rounding::kNearest:
      return std::nearbyint(value);
    case Rounding::kDown:
      return std::floor(value);
    case Rounding::kUp:
      return std::ceil(value);
    case Rounding::kToZero:
      return std::trunc(value);
  }
  return value;
}

Rounding ModeOf(const Instruction& one) {
  return static_cast<Rounding>(one.Bits(78, 2));
}

// Bits 60 and 61 choose a part of a register.
bool TakesPart(const Instruction& one) {
  return one.b.kind != Operand::Kind::kImmediate && one.Bits(60, 2) != 0;
}

}  // namespace

void Warp::WritePair(const Instruction& one, const Lanes& low, const Lanes& high) {
  WriteResult(one, low);
  if (one.destination != kZeroRegister)
    Write(one, one.destination + 1u, high);
}

// What a conversion takes: a float of 16, 32 or 64 bits, with its signs. False where it
// is not interpreted.
bool Warp::ReadNumber(const Instruction& one, uint32_t size, Doubles* number) const {
  const bool part = TakesPart(one);
  if (size == k64 && !part) {
    *number = ReadDouble(one, one.b);
    return true;
  }
  constexpr uint32_t kUpperHalf = 1;
  if ((size != k32 || part) && (size != k16 || one.Bits(60, 2) > kUpperHalf))
    return false;
  const bool flushes = one.Bit(80);
  if (size == k32) {
    const Lanes lanes = ReadFloat(one, one.b);
    for (unsigned i = 0; i < kLanes; ++i) {
      const uint32_t bits = lanes.value[i];
      number->value[i] = std::bit_cast<float>(flushes ? Flush(bits, kSingle) : bits);
      number->known |= lanes.IsKnown(i) ? uint32_t{1} << i : 0;
    }
    return true;
  }
  const Lanes lanes = Read(one, one.b);
  const unsigned shift = part ? 16 : 0;
  for (unsigned i = 0; i < kLanes; ++i) {
    double value = FromHalf(lanes.value[i] >> shift & kHalfBits);
    value = one.b.absolute ? std::fabs(value) : value;
    number->value[i] = one.b.negate ? -value : value;
    const bool known = (lanes.known[i] >> shift & kHalfBits) == kHalfBits;
    number->known |= known ? uint32_t{1} << i : 0;
  }
  return true;
}

// Writes floats of a size, rounded. The upper half of a register with 16 bits is 0
// after F2F: compiled code takes it for a word. After others it is unknown.
void Warp::WriteNumber(const Instruction& one, uint32_t size, Rounding mode,
                       const Doubles& number) {
  if (size == k64) {
    WriteDouble(one, number);
    return;
  }
  const FloatFormat& format = size == k32 ? kSingle : size == k16 ? kHalf : kBfloat;
  const bool whole = size == k32 || one.opcode == Opcode::kF2f;
  const uint32_t written = whole ? kAllBits : kHalfBits;
  const bool flushes = one.Bit(80) && size == k32;
  Lanes result;
  for (unsigned i = 0; i < kLanes; ++i) {
    const uint32_t bits = RoundTo(number.value[i], format, mode);
    result.value[i] = flushes ? Flush(bits, format) : bits;
    result.known[i] = (number.known >> i & 1) != 0 ? written : 0;
  }
  WriteResult(one, result);
}

void Warp::FloatToFloat(const Instruction& one) {
  const uint32_t from = one.Bits(84, 2), to = one.Bits(75, 3);
  Doubles number;
  if (to == k8 || to > kToBfloat || !ReadNumber(one, from, &number)) {
    NotInterpreted(one);
    return;
  }
  WriteNumber(one, to, ModeOf(one), number);
}

// To whole numbers of the same kind.
void Warp::RoundFloats(const Instruction& one) {
  const uint32_t from = one.Bits(84, 2), to = one.Bits(75, 3);
  Doubles number;
  if (to == k8 || to != from || !ReadNumber(one, from, &number)) {
    NotInterpreted(one);
    return;
  }
  for (double& value : number.value)
    value = WholeOf(value, ModeOf(one));
  WriteNumber(one, to, Rounding::kNearest, number);
}

// F2FP: two numbers of single precision to halves, A above B. From sm_90 on also to
// floats of 8 bits, saturated (cvt.rn.satfinite of PTX), below the lower half of C; to
// these from the halves of B; and to halves from two such bytes of B.
void Warp::PackFloats(const Instruction& one) {
  constexpr auto mask = [](auto... bits) {
    return ((uint32_t{1} << (bits - 72)) | ...);
  };
  constexpr uint32_t kToBytes = mask(77, 78, 87, 90),
                     kHalvesToBytes = mask(73, 77, 87, 90), kFromBytes = mask(74, 89);
  const uint32_t form = one.Bits(72, 19);
  const bool is_76 = one.Bit(76);
  const Lanes a = Read(one, one.a), b = Read(one, one.b);
  Lanes result;
  if ((form & ~mask(76)) == 0) {
    const FloatFormat& format = is_76 ? kBfloat : kHalf;
    for (unsigned i = 0; i < kLanes; ++i) {
      const auto half = [&](const Lanes& from) {
        return RoundTo(std::bit_cast<float>(from.value[i]), format, Rounding::kNearest);
      };
      result.value[i] = half(a) << 16 | half(b);
      result.known[i] =
          (a.IsKnown(i) ? kHalfBits << 16 : 0) | (b.IsKnown(i) ? kHalfBits : 0);
    }
  } else if ((form & ~mask(76)) == kToBytes || (form & ~mask(76)) == kHalvesToBytes) {
    const bool from_halves = one.Bit(73);
    const Lanes c = Read(one, one.c);
    for (unsigned i = 0; i < kLanes; ++i) {
      float upper = std::bit_cast<float>(a.value[i]),
            lower = std::bit_cast<float>(b.value[i]);
      bool upper_known = a.IsKnown(i), lower_known = b.IsKnown(i);
      if (from_halves) {
        upper = static_cast<float>(FromHalf(b.value[i] >> 16));
        lower = static_cast<float>(FromHalf(b.value[i] & kHalfBits));
        upper_known = (b.known[i] >> 16) == kHalfBits;
        lower_known = (b.known[i] & kHalfBits) == kHalfBits;
      }
      result.value[i] =
          c.value[i] << 16 | ToByte(upper, is_76) << 8 | ToByte(lower, is_76);
      result.known[i] = c.known[i] << 16 | (upper_known ? kByteBits << 8 : 0) |
                        (lower_known ? kByteBits : 0);
    }
  } else if ((form & ~mask(73, 88)) == kFromBytes) {
    const bool is_e4m3 = one.Bit(73);
    const unsigned shift = one.Bit(88) ? 16 : 0;  // .H1
    for (unsigned i = 0; i < kLanes; ++i)
      for (unsigned half = 0; half < 2; ++half) {
        const unsigned from = shift + 8 * half;
        result.value[i] |= FromByte(b.value[i] >> from & kByteBits, is_e4m3)
                           << 16 * half;
        const bool known = (b.known[i] >> from & kByteBits) == kByteBits;
        result.known[i] |= known ? kHalfBits << 16 * half : 0;
      }
  } else {
    NotInterpreted(one);
    return;
  }
  WriteResult(one, result);
}

void Warp::ToFloat(const Instruction& one) {
  const uint32_t from = one.Bits(84, 2), to = one.Bits(75, 3);
  const bool is_signed = one.Bit(74);
  const Rounding mode = ModeOf(one);
  if (TakesPart(one) || to == k8 || to > kToBfloat ||
      (from == k64 && one.b.kind == Operand::Kind::kImmediate)) {
    NotInterpreted(one);
    return;
  }
  const Lanes low = Read(one, one.b);
  const Lanes high = from == k64 ? ReadHigh(one, one.b) : Lanes::Of(0);
  const unsigned unused = 64 - (8u << from);
  Doubles number;
  Lanes single;
  for (unsigned i = 0; i < kLanes; ++i) {
    const uint64_t bits = low.value[i] | uint64_t{high.value[i]} << 32;
    const uint64_t known = low.known[i] | uint64_t{high.known[i]} << 32;
    const auto value = static_cast<int64_t>(bits << unused) >> unused;
    const bool negative = is_signed && value < 0;
    const uint64_t magnitude =
        negative ? 0 - static_cast<uint64_t>(value) : (bits << unused) >> unused;
    const bool sure = (known << unused) >> unused == ~uint64_t{0} >> unused;
    number.known |= sure ? uint32_t{1} << i : 0;
    if (to == k32) {
      single.value[i] =
          std::bit_cast<uint32_t>(Round<float>(negative, magnitude, mode));
      single.known[i] = sure ? kAllBits : 0;
    } else if (to == k64) {
      number.value[i] = Round<double>(negative, magnitude, mode);
    } else {
      // Of 64 bits only those above matter, and whether the others are 0.
      constexpr uint64_t kBelow = 0xfff;
      const uint64_t odd =
          magnitude >> 52 == 0
              ? magnitude
              : (magnitude & ~kBelow) | ((magnitude & kBelow) != 0 ? kBelow + 1 : 0);
      const auto exact = static_cast<double>(odd);
      number.value[i] = negative ? -exact : exact;
    }
  }
  if (to == k32)
    WriteResult(one, single);
  else
    WriteNumber(one, to, mode, number);
}

void Warp::ToInteger(const Instruction& one) {
  const uint32_t from = one.Bits(84, 2), to = one.Bits(75, 2);
  const bool is_signed = one.Bit(72), zero_for_nan = one.Bit(77);
  Doubles number;
  if (to < k32 || !ReadNumber(one, from, &number)) {
    NotInterpreted(one);
    return;
  }
  const unsigned width = to == k64 ? 64 : 32;
  const uint64_t upper_bit = uint64_t{1} << (width - 1);
  const double limit = std::ldexp(1.0, static_cast<int>(width) - (is_signed ? 1 : 0));
  Lanes low, high;
  for (unsigned i = 0; i < kLanes; ++i) {
    const double whole = WholeOf(number.value[i], ModeOf(one));
    uint64_t bits = 0;
    if (std::isnan(whole))
      bits = zero_for_nan ? 0 : upper_bit;
    else if (whole >= limit)
      bits = is_signed ? upper_bit - 1 : ~uint64_t{0};
    else if (whole < (is_signed ? -limit : 0))
      bits = is_signed ? upper_bit : 0;
    else
      bits = is_signed ? static_cast<uint64_t>(static_cast<int64_t>(whole))
                       : static_cast<uint64_t>(whole);
    low.value[i] = static_cast<uint32_t>(bits);
    high.value[i] = static_cast<uint32_t>(bits >> 32);
    low.known[i] = high.known[i] = (number.known >> i & 1) != 0 ? kAllBits : 0;
  }
  if (to == k64)
    WritePair(one, low, high);
  else
    WriteResult(one, low);
}

bool Warp::Conversions(const Instruction& one) {
  switch (one.opcode) {
    case Opcode::kF2f:
      FloatToFloat(one);
      return true;
    case Opcode::kFrnd:
      RoundFloats(one);
      return true;
    case Opcode::kF2fp:
      PackFloats(one);
      return true;
    case Opcode::kI2f:
      ToFloat(one);
      return true;
    case Opcode::kF2i:
      ToInteger(one);
      return true;
    default:
      return false;
  }
}

}  // namespace vrank::gpu
