// Single precision.
//
// Sums, products and fused products round once, as the instruction says, and keep
// subnormal numbers unless it says .FTZ. A result that is no number is 0x7fffffff (CUDA
// C++ Programming Guide, "Floating-Point Standard").
//
// MUFU approximates: results here are those of the exact functions, rounded, where a
// GPU's are within the errors that the PTX ISA gives for the .approx.ftz instructions
// (rcp 1 ulp, rsqrt and sqrt 2^-22.9 relative, ex2 2^-22.5, lg2 2^-22.6, sin and cos
// 2^-20.5 absolute, tanh 2^-11 relative). They count as known: results agree within
// these errors, not in bits.

#include <bit>
#include <cmath>
#include <cstdint>

#include "virtual_gpu/code/float_format.h"
#include "virtual_gpu/code/warp.h"

namespace vrank::gpu {
namespace {

constexpr uint32_t kOne = 0x3f800000;

uint32_t BitsOf(float value) {
  return std::isnan(value) ? kSingle.nan : std::bit_cast<uint32_t>(value);
}

// How an operation treats its operands and its result.
struct Arithmetic {
  Rounding mode = Rounding::kNearest;
  bool flushes = false;
  bool saturates = false;  // to [0, 1]; no number becomes 0

  explicit Arithmetic(const Instruction& one)
      : mode(static_cast<Rounding>(one.Bits(78, 2))),
        flushes(one.Bit(80)),
        saturates(one.Bit(77)) {}

  float In(uint32_t bits) const {
    return std::bit_cast<float>(flushes ? Flush(bits, kSingle) : bits);
  }
  uint32_t Out(uint32_t bits) const {
    if (saturates) {
      const auto value = std::bit_cast<float>(bits);
      bits = value >= 1 ? kOne : value > 0 ? bits : 0;
    }
    return flushes ? Flush(bits, kSingle) : bits;
  }
};

// a b + c, rounded once in another mode than to nearest.
uint32_t FusedTo(Rounding mode, double a, double b, double c) {
  const double product = a * b;  // 48 bits of significand at most
  const double sum = SumToOdd(product, c);
  // An exact zero has the sign that the mode asks for.
  if (sum == 0 && std::signbit(product) != std::signbit(c))
    return mode == Rounding::kDown ? kSingle.sign : 0;
  return RoundTo(sum, kSingle, mode);
}

template <typename Function, typename... Operands>
Lanes MapFloats(const Arithmetic& how, Function function, const Operands&... operands) {
  Lanes result;
  for (unsigned i = 0; i < kLanes; ++i)
    result.value[i] = how.Out(BitsOf(function(how.In(operands.value[i])...)));
  for (unsigned i = 0; i < kLanes; ++i)
    result.known[i] = (operands.known[i] & ...) == kAllBits ? kAllBits : 0;
  return result;
}

// The same in another rounding mode: of a b + c.
Lanes FuseFloats(const Arithmetic& how, const Lanes& a, const Lanes& b,
                 const Lanes& c) {
  Lanes result;
  for (unsigned i = 0; i < kLanes; ++i) {
    result.value[i] = how.Out(
        FusedTo(how.mode, how.In(a.value[i]), how.In(b.value[i]), how.In(c.value[i])));
    result.known[i] = (a.known[i] & b.known[i] & c.known[i]) == kAllBits ? kAllBits : 0;
  }
  return result;
}

uint32_t SpecialFunction(uint32_t function, uint32_t bits, bool* known) {
  enum : uint32_t {
    kCosine = 0,
    kSine = 1,
    kExponential = 2,
    kLogarithm = 3,
    kReciprocal = 4,
    kReciprocalRoot = 5,
    kReciprocal64 = 6,
    kReciprocalRoot64 = 7,
    kRoot = 8,
    kTangent = 9,
  };
  *known = true;
  if (function == kReciprocal64 || function == kReciprocalRoot64) {
    // Of a double's upper word, whose lower word counts as 0; returns an upper word.
    // Subnormal numbers flush (PTX ISA, rcp.approx.ftz.f64).
    constexpr uint32_t kExponent = 0x7ff00000, kNotANumber = 0x7fffffff;
    const auto flush = [](uint32_t word) {
      return (word & kExponent) == 0 ? word & kSingle.sign : word;
    };
    const auto x = std::bit_cast<double>(uint64_t{flush(bits)} << 32);
    const double y = function == kReciprocal64 ? 1 / x
                     : x == 0                  ? 1 / x
                                               : 1 / std::sqrt(x);
    return std::isnan(y)
               ? kNotANumber
               : flush(static_cast<uint32_t>(std::bit_cast<uint64_t>(y) >> 32));
  }
  const double x = std::bit_cast<float>(Flush(bits, kSingle));
  double y = 0;
  // Sine and cosine take turns.
  constexpr double kTurn = 6.283185307179586476925286766559;
  switch (function) {
    case kCosine:
      y = std::cos((x - std::nearbyint(x)) * kTurn);
      break;
    case kSine:
      y = std::sin((x - std::nearbyint(x)) * kTurn);
      break;
    case kExponential:
      y = std::exp2(x);
      break;
    case kLogarithm:
      y = std::log2(x);
      break;
    case kReciprocal:
      y = 1 / x;
      break;
    case kReciprocalRoot:
      y = x == 0 ? 1 / x : 1 / std::sqrt(x);
      break;
    case kRoot:
      y = std::sqrt(x);
      break;
    case kTangent:
      y = std::tanh(x);
      break;
    default:
      *known = false;
  }
  return Flush(RoundTo(y, kSingle, Rounding::kNearest), kSingle);
}

// Whether a quotient needs the slow path: by the compiler's own design both paths round
// correctly, the fast one where no intermediate result leaves the normal numbers. The
// limits here are tighter than a GPU's.
bool NeedsSlowDivision(uint32_t a, uint32_t b) {
  constexpr int kBias = 127;
  const auto exponent = [](uint32_t bits) {
    return static_cast<int>(bits >> 23 & 0xff) - kBias;
  };
  constexpr int kLimit = 60;
  const int of_a = exponent(a), of_b = exponent(b);
  return std::abs(of_a) > kLimit || std::abs(of_b) > kLimit;
}

}  // namespace

// Of the relation's bit, by the four bits of a comparison: less, equal, greater, and
// not comparable.
bool Compares(uint32_t comparison, double x, double y) {
  constexpr uint32_t kLess = 1, kEqual = 2, kGreater = 4, kUnordered = 8;
  const uint32_t relation = std::isnan(x) || std::isnan(y) ? kUnordered
                            : x < y                        ? kLess
                            : x == y                       ? kEqual
                                                           : kGreater;
  return (comparison & relation) != 0;
}

Flags Combine(uint32_t operation, const Flags& a, const Flags& b) {
  constexpr uint32_t kAnd = 0, kOr = 1;
  return operation == kAnd ? a & b : operation == kOr ? a | b : a ^ b;
}

// The first predicate and, of the opposite, the second one.
void Warp::WriteComparison(const Instruction& one, const Flags& flags) {
  const Flags accumulator = ReadPredicate(one, 87, 90);
  const uint32_t operation = one.Bits(74, 2);
  const Flags first = Combine(operation, flags, accumulator);
  const Flags second = Combine(operation, !flags, accumulator);
  WritePredicate(one, 81, first);
  WritePredicate(one, 84, second);
}

void Warp::CompareFloats(const Instruction& one) {
  const bool flushes = one.Bit(80);
  const uint32_t comparison = one.Bits(76, 4);
  const Lanes a = ReadFloat(one, one.a), b = ReadFloat(one, one.b);
  Flags flags{0, 0};
  const auto number = [flushes](uint32_t bits) {
    return std::bit_cast<float>(flushes ? Flush(bits, kSingle) : bits);
  };
  for (unsigned i = 0; i < kLanes; ++i) {
    if (!a.IsKnown(i) || !b.IsKnown(i))
      continue;
    flags.known |= uint32_t{1} << i;
    flags.value |= Compares(comparison, number(a.value[i]), number(b.value[i]))
                       ? uint32_t{1} << i
                       : 0;
  }
  if (one.opcode == Opcode::kFsetp) {
    WriteComparison(one, flags);
    return;
  }
  // FSET.BF: 1 or 0.
  flags = Combine(one.Bits(74, 2), flags, ReadPredicate(one, 87, 90));
  Lanes result;
  for (unsigned i = 0; i < kLanes; ++i) {
    result.value[i] = (flags.value >> i & 1) != 0 ? kOne : 0;
    result.known[i] = (flags.known >> i & 1) != 0 ? kAllBits : ~kOne;
  }
  WriteResult(one, result);
}

// A number wins over none, unless it says .NAN; -0 is below +0.
void Warp::FloatMinMax(const Instruction& one) {
  const bool keeps_nan = one.Bit(81), flushes = one.Bit(80);
  const Flags minimum = ReadPredicate(one, 87, 90);
  const Lanes a = ReadFloat(one, one.a), b = ReadFloat(one, one.b);
  Lanes result;
  for (unsigned i = 0; i < kLanes; ++i) {
    const bool lower = (minimum.value >> i & 1) != 0;
    const auto x =
        std::bit_cast<float>(flushes ? Flush(a.value[i], kSingle) : a.value[i]);
    const auto y =
        std::bit_cast<float>(flushes ? Flush(b.value[i], kSingle) : b.value[i]);
    float chosen = 0;
    if (std::isnan(x) || std::isnan(y))
      chosen = std::isnan(x) == keeps_nan ? x : y;
    else if (x == y)
      chosen = std::signbit(x) == lower ? x : y;
    else
      chosen = (x < y) == lower ? x : y;
    result.value[i] = BitsOf(chosen);
    result.known[i] =
        a.IsKnown(i) && b.IsKnown(i) && (minimum.known >> i & 1) != 0 ? kAllBits : 0;
  }
  WriteResult(one, result);
}

bool Warp::Floats(const Instruction& one) {
  switch (one.opcode) {
    case Opcode::kFadd: {
      const Arithmetic how(one);
      // Its second operand is in the wide slot, whatever the form.
      const Lanes a = ReadFloat(one, one.a), b = ReadFloat(one, one.Wide());
      WriteResult(one, how.mode == Rounding::kNearest
                           ? MapFloats(
                                 how, [](float x, float y) { return x + y; }, a, b)
                           : FuseFloats(how, a, Lanes::Of(kOne), b));
      return true;
    }
    case Opcode::kFmul: {
      const Arithmetic how(one);
      const Lanes a = ReadFloat(one, one.a), b = ReadFloat(one, one.b);
      if (how.mode == Rounding::kNearest) {
        WriteResult(one, MapFloats(
                             how, [](float x, float y) { return x * y; }, a, b));
        return true;
      }
      // Plus a zero of the product's sign.
      Lanes zero;
      for (unsigned i = 0; i < kLanes; ++i) {
        zero.value[i] = (a.value[i] ^ b.value[i]) & kSingle.sign;
        zero.known[i] = kAllBits;
      }
      WriteResult(one, FuseFloats(how, a, b, zero));
      return true;
    }
    case Opcode::kFfma: {
      const Arithmetic how(one);
      const Lanes a = ReadFloat(one, one.a), b = ReadFloat(one, one.b),
                  c = ReadFloat(one, one.c);
      WriteResult(
          one,
          how.mode == Rounding::kNearest
              ? MapFloats(
                    how, [](float x, float y, float z) { return std::fma(x, y, z); }, a,
                    b, c)
              : FuseFloats(how, a, b, c));
      return true;
    }
    case Opcode::kFsetp:
    case Opcode::kFset:
      CompareFloats(one);
      return true;
    case Opcode::kFmnmx:
      FloatMinMax(one);
      return true;
    case Opcode::kFchk: {
      const Lanes a = ReadFloat(one, one.a), b = ReadFloat(one, one.b);
      Flags slow{0, 0};
      for (unsigned i = 0; i < kLanes; ++i) {
        slow.known |= a.IsKnown(i) && b.IsKnown(i) ? uint32_t{1} << i : 0;
        slow.value |= NeedsSlowDivision(a.value[i], b.value[i]) ? uint32_t{1} << i : 0;
      }
      WritePredicate(one, 81, slow);
      return true;
    }
    case Opcode::kMufu: {
      const Lanes from = ReadFloat(one, one.b);
      Lanes result;
      for (unsigned i = 0; i < kLanes; ++i) {
        bool known = true;
        result.value[i] = SpecialFunction(one.Bits(74, 6), from.value[i], &known);
        result.known[i] = known && from.IsKnown(i) ? kAllBits : 0;
        if (!known) {
          NotInterpreted(one);
          return true;
        }
      }
      WriteResult(one, result);
      return true;
    }
    default:
      return false;
  }
}

}  // namespace vrank::gpu
