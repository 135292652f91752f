// Double precision. A result that is no number has the bits that the host gives it: its
// sign and payload may not be the GPU's.

#include <bit>
#include <cfenv>
#include <cmath>
#include <cstdint>

#include "virtual_gpu/code/float_format.h"
#include "virtual_gpu/code/warp.h"

namespace vrank::gpu {
namespace {

// The host's rounding mode while one instruction runs.
class RoundingScope {
 public:
  explicit RoundingScope(Rounding mode) : mode_(mode) {
    constexpr int kModes[] = {FE_TONEAREST, FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO};
    if (mode_ != Rounding::kNearest)
      std::fesetround(kModes[static_cast<size_t>(mode_)]);
  }
  ~RoundingScope() {
    if (mode_ != Rounding::kNearest)
      std::fesetround(FE_TONEAREST);
  }
  RoundingScope(const RoundingScope&) = delete;
  RoundingScope& operator=(const RoundingScope&) = delete;

 private:
  const Rounding mode_;
};

// Keeps a computation between the changes of the rounding mode, of which the compiler
// knows nothing.
double Pinned(double value) {
  volatile double pinned = value;
  return pinned;
}

template <typename Function, typename... Operands>
Doubles MapDoubles(Rounding mode, Function function, const Operands&... operands) {
  Doubles result;
  const RoundingScope scope(mode);
  for (unsigned i = 0; i < kLanes; ++i)
    result.value[i] = mode == Rounding::kNearest
                          ? function(operands.value[i]...)
                          : Pinned(function(Pinned(operands.value[i])...));
  result.known = (operands.known & ...);
  return result;
}

}  // namespace

Doubles Warp::ReadDouble(const Instruction& one, const Operand& operand) const {
  // An immediate is the upper word.
  const bool immediate = operand.kind == Operand::Kind::kImmediate;
  const Lanes low = immediate ? Lanes::Of(0) : Read(one, operand);
  const Lanes high = immediate ? Read(one, operand) : ReadHigh(one, operand);
  Doubles result;
  for (unsigned i = 0; i < kLanes; ++i) {
    uint32_t upper = high.value[i];
    if (operand.absolute)
      upper &= ~kSingle.sign;
    if (operand.negate)
      upper ^= kSingle.sign;
    result.value[i] = std::bit_cast<double>(low.value[i] | uint64_t{upper} << 32);
    result.known |= low.IsKnown(i) && high.IsKnown(i) ? uint32_t{1} << i : 0;
  }
  return result;
}

void Warp::WriteDouble(const Instruction& one, const Doubles& value) {
  Lanes low, high;
  for (unsigned i = 0; i < kLanes; ++i) {
    const auto bits = std::bit_cast<uint64_t>(value.value[i]);
    low.value[i] = static_cast<uint32_t>(bits);
    high.value[i] = static_cast<uint32_t>(bits >> 32);
    low.known[i] = high.known[i] = (value.known >> i & 1) != 0 ? kAllBits : 0;
  }
  WritePair(one, low, high);
}

void Warp::CompareDoubles(const Instruction& one) {
  constexpr uint32_t kMinimum = 0, kMaximum = 15;
  const uint32_t comparison = one.Bits(76, 4);
  const Doubles a = ReadDouble(one, one.a), b = ReadDouble(one, one.Wide());
  Flags flags{0, a.known & b.known};
  if (comparison != kMinimum && comparison != kMaximum) {
    for (unsigned i = 0; i < kLanes; ++i)
      flags.value |=
          Compares(comparison, a.value[i], b.value[i]) ? uint32_t{1} << i : 0;
    WriteComparison(one, flags);
    return;
  }
  // Whether A is the result, and whether both are no numbers: the code that follows
  // selects by the first one, and makes B quiet by the second one.
  Flags neither = flags;
  for (unsigned i = 0; i < kLanes; ++i) {
    const double x = a.value[i], y = b.value[i];
    const bool lower = comparison == kMinimum;
    const bool first = std::isnan(x) || std::isnan(y) ? !std::isnan(x)
                       : x == y                       ? std::signbit(x) == lower
                                                      : (x < y) == lower;
    flags.value |= first ? uint32_t{1} << i : 0;
    neither.value |= std::isnan(x) && std::isnan(y) ? uint32_t{1} << i : 0;
  }
  if (one.Bits(74, 2) != 0 || one.Bits(87, 4) != kTruePredicate) {
    NotInterpreted(one, "of an extreme, combined");
    return;
  }
  WritePredicate(one, 81, flags);
  WritePredicate(one, 84, neither);
}

bool Warp::DoubleArithmetic(const Instruction& one) {
  const auto mode = static_cast<Rounding>(one.Bits(78, 2));
  switch (one.opcode) {
    case Opcode::kDadd:
      WriteDouble(one, MapDoubles(
                           mode, [](double x, double y) { return x + y; },
                           ReadDouble(one, one.a), ReadDouble(one, one.c)));
      return true;
    case Opcode::kDmul:
      WriteDouble(one, MapDoubles(
                           mode, [](double x, double y) { return x * y; },
                           ReadDouble(one, one.a), ReadDouble(one, one.b)));
      return true;
    case Opcode::kDfma:
      WriteDouble(
          one,
          MapDoubles(
              mode, [](double x, double y, double z) { return std::fma(x, y, z); },
              ReadDouble(one, one.a), ReadDouble(one, one.b), ReadDouble(one, one.c)));
      return true;
    case Opcode::kDsetp:
      CompareDoubles(one);
      return true;
    default:
      return false;
  }
}

}  // namespace vrank::gpu
