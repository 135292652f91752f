// Single precision, and conversions between it and integers.
//
// Arithmetic rounds to nearest; other rounding modes are not interpreted (the decoder
// refuses them), but for conversions. A result that is no number is 0x7fffffff (CUDA
// C++ Programming Guide, "Floating-Point Standard").

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "virtual_gpu/code/warp.h"

namespace vrank::gpu {
namespace {

constexpr uint32_t kNotANumber = 0x7fffffff;
constexpr uint32_t kSign = 0x80000000;

enum Rounding : uint32_t { kNearest = 0, kDown = 1, kUp = 2, kToZero = 3 };

uint32_t Flush(uint32_t bits) {
  constexpr uint32_t kExponent = 0x7f800000;
  return (bits & kExponent) == 0 ? bits & kSign : bits;
}

uint32_t BitsOf(float value) {
  return std::isnan(value) ? kNotANumber : std::bit_cast<uint32_t>(value);
}

template <typename Function, typename... Operands>
Lanes MapFloats(bool flushes, Function function, const Operands&... operands) {
  Lanes result;
  for (unsigned i = 0; i < kLanes; ++i) {
    const auto number = [&](const Lanes& lanes) {
      const uint32_t bits = lanes.value[i];
      return std::bit_cast<float>(flushes ? Flush(bits) : bits);
    };
    const uint32_t bits = BitsOf(function(number(operands)...));
    result.value[i] = flushes ? Flush(bits) : bits;
    result.known[i] = (operands.known[i] & ...) == kAllBits ? kAllBits : 0;
  }
  return result;
}

// A number of 64 bits or fewer in another rounding than to nearest.
template <typename Float>
Float Round(bool negative, uint64_t magnitude, uint32_t mode) {
  // Exact: 64 bits of significand (x87), or more.
  static_assert(std::numeric_limits<long double>::digits >= 64);
  const auto exact = static_cast<long double>(magnitude);
  auto value = static_cast<Float>(magnitude);
  const bool away = mode == (negative ? kDown : kUp);
  if (mode != kNearest) {
    if (away && static_cast<long double>(value) < exact)
      value = std::nextafter(value, std::numeric_limits<Float>::infinity());
    if (!away && static_cast<long double>(value) > exact)
      value = std::nextafter(value, Float{0});
  }
  return negative ? -value : value;
}

float ProductToZero(float x, float y) {
  const double exact = double{x} * y;  // 48 bits of significand at most
  const auto nearest = static_cast<float>(exact);
  return std::fabs(double{nearest}) > std::fabs(exact) && !std::isinf(exact)
             ? std::nextafter(nearest, 0.0f)
             : nearest;
}

}  // namespace

void Warp::CompareFloats(const Instruction& one) {
  const bool flushes = one.Bit(80);
  const uint32_t comparison = one.Bits(76, 4);
  constexpr uint32_t kLess = 1, kEqual = 2, kGreater = 4, kUnordered = 8;
  const Lanes a = ReadFloat(one, one.a), b = ReadFloat(one, one.b);
  Flags flags{0, 0};
  for (unsigned i = 0; i < kLanes; ++i) {
    if (!a.IsKnown(i) || !b.IsKnown(i))
      continue;
    const auto x = std::bit_cast<float>(flushes ? Flush(a.value[i]) : a.value[i]);
    const auto y = std::bit_cast<float>(flushes ? Flush(b.value[i]) : b.value[i]);
    const uint32_t relation = std::isnan(x) || std::isnan(y) ? kUnordered
                              : x < y                        ? kLess
                              : x == y                       ? kEqual
                                                             : kGreater;
    flags.known |= uint32_t{1} << i;
    flags.value |= (comparison & relation) != 0 ? uint32_t{1} << i : 0;
  }
  const Flags accumulator = ReadPredicate(one, 87, 90);
  const uint32_t operation = one.Bits(74, 2);
  const auto combine = [&](const Flags& flag) {
    constexpr uint32_t kAnd = 0, kOr = 1;
    return operation == kAnd  ? flag & accumulator
           : operation == kOr ? flag | accumulator
                              : flag ^ accumulator;
  };
  WritePredicate(one, 81, combine(flags));
  WritePredicate(one, 84, combine(!flags));
}

// Sizes of operands, as fields have them: bytes by their logarithm.
void Warp::ToFloat(const Instruction& one) {
  constexpr uint32_t k32 = 2, k64 = 3;
  const uint32_t from = one.Bits(84, 2), to = one.Bits(75, 2);
  const bool is_signed = one.Bit(74);
  const uint32_t mode = one.Bits(78, 2);
  const bool selects = one.b.kind != Operand::Kind::kImmediate && one.Bits(60, 2) != 0;
  if (selects || to < k32 || (from == k64 && one.b.kind == Operand::Kind::kImmediate)) {
    NotInterpreted(one);
    return;
  }
  const Lanes low = Read(one, one.b);
  const Lanes high = from == k64 ? ReadHigh(one, one.b) : Lanes::Of(0);
  const unsigned unused = 64 - (8u << from);
  Lanes result, upper;
  for (unsigned i = 0; i < kLanes; ++i) {
    const uint64_t bits = low.value[i] | uint64_t{high.value[i]} << 32;
    const uint64_t known = low.known[i] | uint64_t{high.known[i]} << 32;
    const auto value = static_cast<int64_t>(bits << unused) >> unused;
    const bool negative = is_signed && value < 0;
    const uint64_t magnitude =
        negative ? 0 - static_cast<uint64_t>(value) : (bits << unused) >> unused;
    const bool sure = (known << unused) >> unused == ~uint64_t{0} >> unused;
    if (to == k32) {
      result.value[i] =
          std::bit_cast<uint32_t>(Round<float>(negative, magnitude, mode));
    } else {
      const auto word =
          std::bit_cast<uint64_t>(Round<double>(negative, magnitude, mode));
      result.value[i] = static_cast<uint32_t>(word);
      upper.value[i] = static_cast<uint32_t>(word >> 32);
    }
    result.known[i] = upper.known[i] = sure ? kAllBits : 0;
  }
  WriteResult(one, result);
  if (to == k64 && one.destination != kZeroRegister)
    Write(one, one.destination + 1u, upper);
}

void Warp::ToInteger(const Instruction& one) {
  constexpr uint32_t k32 = 2, k64 = 3;
  const uint32_t from = one.Bits(84, 2), to = one.Bits(75, 2);
  const bool is_signed = one.Bit(72), zero_for_nan = one.Bit(77);
  const uint32_t mode = one.Bits(78, 2);
  if (from < k32 || to < k32 ||
      (from == k64 && one.b.kind == Operand::Kind::kImmediate)) {
    NotInterpreted(one);
    return;
  }
  Lanes low = from == k32 ? ReadFloat(one, one.b) : Read(one, one.b);
  Lanes high = from == k64 ? ReadHigh(one, one.b) : Lanes::Of(0);
  if (from == k64)
    for (uint32_t& word : high.value) {
      word &= one.b.absolute ? ~kSign : kAllBits;
      word ^= one.b.negate ? kSign : 0;
    }
  Lanes result, upper;
  for (unsigned i = 0; i < kLanes; ++i) {
    const double value =
        from == k32
            ? double{std::bit_cast<float>(low.value[i])}
            : std::bit_cast<double>(low.value[i] | uint64_t{high.value[i]} << 32);
    double whole = mode == kNearest ? std::nearbyint(value)
                   : mode == kDown  ? std::floor(value)
                   : mode == kUp    ? std::ceil(value)
                                    : std::trunc(value);
    bool sure = (low.known[i] & high.known[i]) == kAllBits;
    uint64_t bits = 0;
    const double limit = std::ldexp(1.0, (to == k64 ? 64 : 32) - (is_signed ? 1 : 0));
    if (std::isnan(value)) {
      sure = sure && zero_for_nan;
    } else if (whole >= limit) {
      bits = is_signed ? (uint64_t{1} << (to == k64 ? 63 : 31)) - 1 : ~uint64_t{0};
    } else if (whole < (is_signed ? -limit : 0)) {
      bits = is_signed ? uint64_t{1} << (to == k64 ? 63 : 31) : 0;
    } else {
      bits = is_signed ? static_cast<uint64_t>(static_cast<int64_t>(whole))
                       : static_cast<uint64_t>(whole);
    }
    result.value[i] = static_cast<uint32_t>(bits);
    upper.value[i] = static_cast<uint32_t>(bits >> 32);
    result.known[i] = upper.known[i] = sure ? kAllBits : 0;
  }
  WriteResult(one, result);
  if (to == k64 && one.destination != kZeroRegister)
    Write(one, one.destination + 1u, upper);
}

bool Warp::Floats(const Instruction& one) {
  const bool flushes = one.Bit(80);
  // FADD has its second operand in the wide slot, whatever the form.
  const bool wide_is_c = one.form() == 2 || one.form() == 3 || one.form() == 7;
  switch (one.opcode) {
    case Opcode::kFadd:
      WriteResult(
          one, MapFloats(
                   flushes, [](float x, float y) { return x + y; },
                   ReadFloat(one, one.a), ReadFloat(one, wide_is_c ? one.c : one.b)));
      return true;
    case Opcode::kFmul:
      if (one.Bits(78, 2) != kNearest && one.Bits(78, 2) != kToZero) {
        NotInterpreted(one, "up or down");
        return true;
      }
      WriteResult(one, MapFloats(
                           flushes,
                           [to_zero = one.Bits(78, 2) == kToZero](float x, float y) {
                             return to_zero ? ProductToZero(x, y) : x * y;
                           },
                           ReadFloat(one, one.a), ReadFloat(one, one.b)));
      return true;
    case Opcode::kFfma:
      WriteResult(
          one,
          MapFloats(
              flushes, [](float x, float y, float z) { return std::fma(x, y, z); },
              ReadFloat(one, one.a), ReadFloat(one, one.b), ReadFloat(one, one.c)));
      return true;
    case Opcode::kFsetp:
      CompareFloats(one);
      return true;
    case Opcode::kFmnmx: {
      // A number wins over none; -0 is below +0.
      const Flags minimum = ReadPredicate(one, 87, 90);
      const Lanes a = ReadFloat(one, one.a), b = ReadFloat(one, one.b);
      const auto pick = [flushes](const Lanes& x, const Lanes& y, bool lower) {
        return MapFloats(
            flushes,
            [lower](float p, float q) {
              if (std::isnan(p) || std::isnan(q))
                return std::isnan(p) ? q : p;
              if (p == q)
                return std::signbit(p) == lower ? p : q;
              return (p < q) == lower ? p : q;
            },
            x, y);
      };
      const Lanes low = pick(a, b, true), high = pick(a, b, false);
      Lanes result;
      for (unsigned i = 0; i < kLanes; ++i) {
        const bool lower = (minimum.value >> i & 1) != 0;
        result.value[i] = lower ? low.value[i] : high.value[i];
        result.known[i] = (minimum.known >> i & 1) != 0 ? low.known[i] : 0;
      }
      WriteResult(one, result);
      return true;
    }
    case Opcode::kHfma2Move:
      // -0 * 0 + C: a move on another pipe. Nothing else of it is interpreted.
      if (one.form() != 2 || one.a.index != kZeroRegister || !one.a.negate ||
          one.b.index != kZeroRegister) {
        NotInterpreted(one);
        return true;
      }
      WriteResult(one, Read(one, one.c));
      return true;
    case Opcode::kI2f:
      ToFloat(one);
      return true;
    case Opcode::kF2i:
      ToInteger(one);
      return true;
    case Opcode::kMufu: {
      constexpr uint32_t kReciprocal = 4;
      if (one.Bits(74, 6) != kReciprocal) {
        NotInterpreted(one);
        return true;
      }
      // Correctly rounded here, within 1 ulp there. The compiler's integer divisions
      // come out the same; others may differ in the last bit. What leaves the range of
      // normal numbers counts as unknown.
      const Lanes from = ReadFloat(one, one.b);
      Lanes result = MapFloats(
          false, [](float x) { return 1.0f / x; }, from);
      for (unsigned i = 0; i < kLanes; ++i) {
        const bool plain =
            Flush(from.value[i]) == from.value[i] || (from.value[i] & ~kSign) == 0;
        if (!plain || Flush(result.value[i]) != result.value[i])
          result.known[i] = 0;
      }
      WriteResult(one, result);
      return true;
    }
    default:
      return false;
  }
}

}  // namespace vrank::gpu
