// Half precision and bfloat16, two numbers in a register.
//
// Each half is computed in double precision and rounded once. A half is known where all
// of its operands are, whatever the other one is.

#include <array>
#include <cmath>
#include <cstdint>

#include "virtual_gpu/code/float_format.h"
#include "virtual_gpu/code/warp.h"

namespace vrank::gpu {
namespace {

// Which halves an operand gives to the lower and the upper result.
enum : uint8_t { kBoth = 0, kIsSingle = 1, kLower = 2, kUpper = 3 };

struct HalfArithmetic {
  const FloatFormat& format;
  bool is_bfloat;
  bool flushes, saturates, clamps_negative;

  double In(uint32_t bits) const {
    if (flushes)
      bits = Flush(bits, format);
    return is_bfloat ? FromBfloat(bits) : FromHalf(bits);
  }
  uint32_t Out(double value) const {
    if (saturates)
      value = value >= 1 ? 1 : value > 0 ? value : 0;
    if (clamps_negative && value < 0)
      value = 0;
    const uint32_t bits = RoundTo(value, format, Rounding::kNearest);
    return flushes ? Flush(bits, format) : bits;
  }
};

constexpr uint32_t kHalfBits = 0xffff;

}  // namespace

// With its signs.
Lanes Warp::ReadHalves(const Instruction& one, const Operand& operand) const {
  Lanes lanes = Read(one, operand);
  constexpr uint32_t kSigns = 0x80008000;
  for (unsigned i = 0; i < kLanes; ++i) {
    uint32_t& value = lanes.value[i];
    uint32_t& known = lanes.known[i];
    if (operand.halves == kLower || operand.halves == kUpper) {
      const unsigned shift = operand.halves == kUpper ? 16 : 0;
      const auto twice = [shift](uint32_t word) {
        const uint32_t half = word >> shift & kHalfBits;
        return half | half << 16;
      };
      value = twice(value);
      known = twice(known);
    }
    value = operand.absolute ? value & ~kSigns : value;
    value = operand.negate ? value ^ kSigns : value;
  }
  return lanes;
}

void Warp::CompareHalves(const Instruction& one) {
  const bool is_bfloat = one.Bit(65);
  const FloatFormat& format = is_bfloat ? kBfloat : kHalf;
  const HalfArithmetic how{format, is_bfloat, one.Bit(80), false, false};
  const uint32_t comparison = one.Bits(76, 4), operation = one.Bits(69, 2);
  const bool bit71 = one.Bit(71);
  // What else the far slot says is not understood.
  if (one.Bit(64) || one.Bits(66, 3) != 0) {
    NotInterpreted(one);
    return;
  }
  const Lanes a = ReadHalves(one, one.a), b = ReadHalves(one, one.Wide());
  const Flags accumulator = ReadPredicate(one, 87, 90);
  std::array<Flags, 2> flags{Flags{0, 0}, Flags{0, 0}};
  for (unsigned half = 0; half < 2; ++half)
    for (unsigned i = 0; i < kLanes; ++i) {
      const auto of = [&](const Lanes& lanes) {
        return how.In(lanes.value[i] >> 16 * half & kHalfBits);
      };
      const uint32_t known = (a.known[i] & b.known[i]) >> 16 * half & kHalfBits;
      flags[half].known |= known == kHalfBits ? uint32_t{1} << i : 0;
      flags[half].value |= Compares(comparison, of(a), of(b)) ? uint32_t{1} << i : 0;
    }
  if (one.opcode == Opcode::kHsetp2) {
    // .H_AND: both halves, and the opposite.
    if (bit71) {
      const Flags both = flags[0] & flags[1];
      WritePredicate(one, 81, Combine(operation, both, accumulator));
      WritePredicate(one, 84, Combine(operation, !both, accumulator));
      return;
    }
    WritePredicate(one, 81, Combine(operation, flags[0], accumulator));
    WritePredicate(one, 84, Combine(operation, flags[1], accumulator));
    return;
  }
  // HSET2: 1 or 0 (.BF), or all bits.
  const uint32_t yes = !bit71 ? kHalfBits : RoundTo(1, format, Rounding::kNearest);
  Lanes result;
  for (unsigned half = 0; half < 2; ++half) {
    const Flags of = Combine(operation, flags[half], accumulator);
    for (unsigned i = 0; i < kLanes; ++i) {
      result.value[i] |= ((of.value >> i & 1) != 0 ? yes : 0) << 16 * half;
      result.known[i] |= ((of.known >> i & 1) != 0 ? kHalfBits : 0) << 16 * half;
    }
  }
  WriteResult(one, result);
}

bool Warp::Halves(const Instruction& one) {
  switch (one.opcode) {
    case Opcode::kHsetp2:
    case Opcode::kHset2:
      if (one.a.halves == kIsSingle || one.Wide().halves == kIsSingle)
        NotInterpreted(one, "of single precision");
      else
        CompareHalves(one);
      return true;
    case Opcode::kHadd2:
    case Opcode::kHmul2:
    case Opcode::kHfma2:
    case Opcode::kHmnmx2:
      break;
    default:
      return false;
  }
  const bool is_add = one.opcode == Opcode::kHadd2;
  const bool is_fused = one.opcode == Opcode::kHfma2;
  const bool is_extreme = one.opcode == Opcode::kHmnmx2;
  // -0 * 0 + C is a move on another pipe, of any bits.
  if (is_fused && one.form() == 2 && one.a.index == kZeroRegister && one.a.negate &&
      one.b.index == kZeroRegister) {
    WriteResult(one, Read(one, one.c));
    return true;
  }
  const bool is_bfloat = one.Bit(85), to_single = is_add && one.Bit(78);
  const HalfArithmetic how{is_bfloat ? kBfloat : kHalf, is_bfloat, one.Bit(80),
                           !is_extreme && one.Bit(77),
                           (is_fused || one.opcode == Opcode::kHmul2) && one.Bit(79)};
  const Operand& second = is_add ? one.Wide() : one.b;
  const auto is_plain = [](const Operand& operand) {
    return operand.halves != kIsSingle;
  };
  const auto is_one_half = [](const Operand& operand) {
    return operand.halves != kBoth || operand.index == kZeroRegister;
  };
  if (!is_plain(one.a) || !is_plain(second) || (is_fused && !is_plain(one.c)) ||
      (to_single && (!is_one_half(one.a) || !is_one_half(second)))) {
    NotInterpreted(one, "of single precision");
    return true;
  }
  const Lanes a = ReadHalves(one, one.a), b = ReadHalves(one, second);
  const Lanes c = is_fused ? ReadHalves(one, one.c) : Lanes::Of(0);
  const Flags minimum = is_extreme ? ReadPredicate(one, 87, 90) : Flags::Of(false);
  Lanes result;
  for (unsigned i = 0; i < kLanes; ++i) {
    const uint32_t known = a.known[i] & b.known[i] & c.known[i];
    if (to_single) {
      const double sum =
          SumToOdd(how.In(a.value[i] & kHalfBits), how.In(b.value[i] & kHalfBits));
      result.value[i] = RoundTo(sum, kSingle, Rounding::kNearest);
      result.known[i] = known == kAllBits ? kAllBits : 0;
      continue;
    }
    for (unsigned half = 0; half < 2; ++half) {
      const auto of = [&](const Lanes& lanes) {
        return how.In(lanes.value[i] >> 16 * half & kHalfBits);
      };
      const double x = of(a), y = of(b);
      double value = 0;
      if (is_add) {
        value = SumToOdd(x, y);
      } else if (is_fused) {
        value = SumToOdd(x * y, of(c));  // the product is exact
      } else if (is_extreme) {
        const bool lower = (minimum.value >> i & 1) != 0, keeps_nan = one.Bit(81);
        if (std::isnan(x) || std::isnan(y))
          value = std::isnan(x) == keeps_nan ? x : y;
        else if (x == y)
          value = std::signbit(x) == lower ? x : y;
        else
          value = (x < y) == lower ? x : y;
      } else {
        value = x * y;
      }
      const bool sure = (known >> 16 * half & kHalfBits) == kHalfBits &&
                        (minimum.known >> i & 1) != 0;
      result.value[i] |= how.Out(value) << 16 * half;
      result.known[i] |= (sure ? kHalfBits : 0) << 16 * half;
    }
  }
  WriteResult(one, result);
  return true;
}

}  // namespace vrank::gpu
