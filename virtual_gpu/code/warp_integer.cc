// Integers, logic, selections and moves.

#include <algorithm>
#include <bit>

#include "virtual_gpu/code/warp.h"

namespace vrank::gpu {
namespace {

// A result each of whose bits depends on all bits of the operands.
template <typename Function, typename... Operands>
Lanes Map(Function function, const Operands&... operands) {
  Lanes result;
  for (unsigned i = 0; i < kLanes; ++i)
    result.value[i] = function(operands.value[i]...);
  for (unsigned i = 0; i < kLanes; ++i)
    result.known[i] = (operands.known[i] & ...) == kAllBits ? kAllBits : 0;
  return result;
}

bool AllKnown(const Lanes& lanes, unsigned i) {
  return lanes.known[i] == kAllBits;
}

// What `flag` says, as a mask of all bits.
uint32_t Spread(uint32_t flags, unsigned lane) {
  return (flags >> lane & 1) != 0 ? kAllBits : 0;
}

uint64_t Join(const Lanes& low, const Lanes& high, unsigned lane) {
  return low.value[lane] | uint64_t{high.value[lane]} << 32;
}

// Of a predicate's table: index 4 a + 2 b + c. A result is known where every possible
// value of the inputs gives the same.
Flags LookUp(uint32_t table, const Flags& a, const Flags& b, const Flags& c) {
  uint32_t can_be_true = 0, can_be_false = 0;
  for (uint32_t i = 0; i < 8; ++i) {
    const auto possible = [](const Flags& flags, bool value) {
      return (value ? flags.value : ~flags.value) | ~flags.known;
    };
    const uint32_t here = possible(a, (i & 4) != 0) & possible(b, (i & 2) != 0) &
                          possible(c, (i & 1) != 0);
    ((table >> i & 1) != 0 ? can_be_true : can_be_false) |= here;
  }
  return {can_be_true, can_be_true ^ can_be_false};
}

}  // namespace

void Warp::CompareIntegers(const Instruction& one) {
  const bool extends = one.Bit(72), is_signed = one.Bit(73);
  const uint32_t comparison = one.Bits(76, 3);
  constexpr uint32_t kLess = 1, kEqual = 2, kGreater = 4;
  const Lanes a = Read(one, one.a), b = Read(one, one.b);
  // Of the lower words, where these are the upper ones.
  const Flags low = extends ? ReadPredicate(one, 68, 71) : Flags::Of(false);
  Flags flags{0, 0};
  for (unsigned i = 0; i < kLanes; ++i) {
    const uint32_t lane = uint32_t{1} << i;
    if (!AllKnown(a, i) || !AllKnown(b, i)) {
      // Known to differ in a known bit.
      const uint32_t differ = (a.value[i] ^ b.value[i]) & a.known[i] & b.known[i];
      if (differ == 0 || (comparison != kEqual && comparison != (kLess | kGreater)))
        continue;
      flags.known |= lane;
      flags.value |= comparison == kEqual ? 0 : lane;
      continue;
    }
    const bool less =
        is_signed ? static_cast<int32_t>(a.value[i]) < static_cast<int32_t>(b.value[i])
                  : a.value[i] < b.value[i];
    const bool equal = a.value[i] == b.value[i];
    if (equal && extends) {
      flags.known |= low.known & lane;
      flags.value |= low.value & lane;
      continue;
    }
    const uint32_t relation = equal ? kEqual : less ? kLess : kGreater;
    flags.known |= lane;
    flags.value |= (comparison & relation) != 0 ? lane : 0;
  }
  WriteComparison(one, flags);
}

// Sums of three; a carry out is the sum's bits above 32. Negation is ~x + 1, and the
// one belongs to the sum, so that 0 - 0 carries.
void Warp::Add3(const Instruction& one) {
  const bool extends = one.Bit(74);
  std::array<Lanes, 3> terms = {Read(one, one.a), Read(one, one.b), Read(one, one.c)};
  const std::array<bool, 3> negate = {one.a.negate, one.b.negate, one.c.negate};
  const Flags carry0 = extends ? ReadPredicate(one, 87, 90) : Flags::Of(false);
  const Flags carry1 = extends ? ReadPredicate(one, 77, 80) : Flags::Of(false);
  Lanes result;
  Flags out0, out1;
  for (unsigned i = 0; i < kLanes; ++i) {
    uint64_t sum = (carry0.value >> i & 1) + (carry1.value >> i & 1);
    uint32_t known = Spread(carry0.known & carry1.known, i);
    for (size_t k = 0; k < terms.size(); ++k) {
      const uint32_t term = negate[k] ? ~terms[k].value[i] : terms[k].value[i];
      sum += uint64_t{term} + (negate[k] && !extends ? 1 : 0);
      known &= terms[k].known[i];
    }
    const uint32_t lane = uint32_t{1} << i;
    const bool all = known == kAllBits;
    result.value[i] = static_cast<uint32_t>(sum);
    result.known[i] = all ? kAllBits : 0;
    // With three terms two carries may come out.
    const uint64_t carries = sum >> 32;
    out0.value |= carries >= 1 ? lane : 0;
    out1.value |= carries >= 2 ? lane : 0;
    if (!all) {
      out0.known &= ~lane;
      out1.known &= ~lane;
    }
  }
  WriteResult(one, result);
  WritePredicate(one, 81, out0);
  WritePredicate(one, 84, out1);
}

// (A << shift) + B, or the upper word of that of C:A.
void Warp::ShiftAndAdd(const Instruction& one) {
  const bool extends = one.Bit(74), high = one.Bit(80), sign = one.Bit(73);
  const uint32_t shift = one.Bits(75, 5);
  const Lanes a = Read(one, one.a), b = Read(one, one.b), c = Read(one, one.c);
  const Flags carry = extends ? ReadPredicate(one, 87, 90) : Flags::Of(false);
  if (sign && !high) {
    NotInterpreted(one, "SX32 without HI");
    return;
  }
  Lanes result;
  Flags out;
  for (unsigned i = 0; i < kLanes; ++i) {
    const uint64_t above =
        sign ? (static_cast<int32_t>(a.value[i]) < 0 ? kAllBits : 0) : c.value[i];
    const uint64_t wide = (a.value[i] | above << 32) << shift;
    uint32_t shifted = static_cast<uint32_t>(high ? wide >> 32 : wide);
    uint32_t known = a.known[i] & b.known[i] & (high && !sign ? c.known[i] : kAllBits) &
                     Spread(carry.known, i);
    uint64_t sum = carry.value >> i & 1;
    if (one.a.negate) {
      // The negation is of all that is shifted. Only its low word is simple.
      if (high && !extends)
        known = 0;
      shifted = ~shifted;
      sum += extends ? 0 : 1;
    }
    uint32_t term = b.value[i];
    if (one.b.negate) {
      term = ~term;
      sum += extends ? 0 : 1;
    }
    sum += uint64_t{shifted} + term;
    const uint32_t lane = uint32_t{1} << i;
    const bool all = known == kAllBits;
    result.value[i] = static_cast<uint32_t>(sum);
    result.known[i] = all ? kAllBits : 0;
    out.value |= (sum >> 32) != 0 ? lane : 0;
    out.known &= all ? kAllLanes : ~lane;
  }
  WriteResult(one, result);
  WritePredicate(one, 81, out);
}

void Warp::Logic(const Instruction& one) {
  const uint32_t table = one.Bits(72, 8);
  const Lanes a = Read(one, one.a), b = Read(one, one.b), c = Read(one, one.c);
  Lanes result;
  Flags nonzero;
  for (unsigned i = 0; i < kLanes; ++i) {
    uint32_t can_be_one = 0, can_be_zero = 0;
    for (uint32_t k = 0; k < 8; ++k) {
      const auto possible = [i](const Lanes& lanes, bool value) {
        return (value ? lanes.value[i] : ~lanes.value[i]) | ~lanes.known[i];
      };
      const uint32_t here = possible(a, (k & 4) != 0) & possible(b, (k & 2) != 0) &
                            possible(c, (k & 1) != 0);
      ((table >> k & 1) != 0 ? can_be_one : can_be_zero) |= here;
    }
    result.value[i] = can_be_one;
    result.known[i] = can_be_one ^ can_be_zero;
    const uint32_t lane = uint32_t{1} << i;
    if ((result.value[i] & result.known[i]) != 0)
      nonzero.value |= lane;
    else if (result.known[i] != kAllBits)
      nonzero.known &= ~lane;
  }
  WriteResult(one, result);
  const Flags source = ReadPredicate(one, 87, 90);
  WritePredicate(one, 81, one.Bit(80) ? nonzero & source : nonzero | source);
}

void Warp::PredicateLogic(const Instruction& one) {
  const uint32_t first = one.Bits(64, 3) | one.Bits(72, 5) << 3;
  const uint32_t second = one.Bits(16, 8);
  const Flags a = ReadPredicate(one, 87, 90), b = ReadPredicate(one, 77, 80);
  Flags c = PredicateOf(one.uniform || one.Bit(67), one.Bits(68, 3));
  if (one.Bit(71))
    c = !c;
  const Flags result = LookUp(first, a, b, c), other = LookUp(second, a, b, c);
  WritePredicate(one, 81, result);
  WritePredicate(one, 84, other);
}

void Warp::Permute(const Instruction& one) {
  if (one.Bits(72, 3) != 0) {
    NotInterpreted(one, "with a mode");
    return;
  }
  const Lanes a = Read(one, one.a), selector = Read(one, one.b), c = Read(one, one.c);
  Lanes result;
  for (unsigned i = 0; i < kLanes; ++i) {
    const uint64_t bytes = a.value[i] | uint64_t{c.value[i]} << 32;
    const uint64_t known = a.known[i] | uint64_t{c.known[i]} << 32;
    for (unsigned k = 0; k < 4; ++k) {
      const uint32_t which = selector.value[i] >> 4 * k & 0xf;
      if ((selector.known[i] >> 4 * k & 0xf) != 0xf)
        continue;
      uint32_t byte = bytes >> 8 * (which & 7) & 0xff;
      uint32_t mask = known >> 8 * (which & 7) & 0xff;
      if ((which & 8) != 0) {  // its sign, in all bits
        byte = (byte & 0x80) != 0 ? 0xff : 0;
        mask = (mask & 0x80) != 0 ? 0xff : 0;
      }
      result.value[i] |= byte << 8 * k;
      result.known[i] |= mask << 8 * k;
    }
  }
  WriteResult(one, result);
}

// Shifts C:A.
void Warp::Funnel(const Instruction& one) {
  const uint32_t type = one.Bits(73, 2);
  const bool is_64 = type < 2, is_signed = (type & 1) == 0;
  const bool wraps = one.Bit(75), right = one.Bit(76), high = one.Bit(80);
  const uint32_t most = is_64 ? 64 : 32;
  const Lanes a = Read(one, one.a), amount = Read(one, one.b), c = Read(one, one.c);
  Lanes result;
  for (unsigned i = 0; i < kLanes; ++i) {
    if (!AllKnown(amount, i))
      continue;
    const uint32_t shift =
        wraps ? amount.value[i] & (most - 1) : std::min(amount.value[i], most);
    const auto move = [&](uint64_t word, bool fill) {
      if (shift == 64)
        return right && fill && (word >> 63) != 0 ? ~uint64_t{0} : uint64_t{0};
      if (!right)
        return word << shift;
      return fill ? static_cast<uint64_t>(static_cast<int64_t>(word) >> shift)
                  : word >> shift;
    };
    const uint64_t value = move(Join(a, c, i), is_signed);
    // What comes in is a known zero, or known as the sign is.
    const uint64_t unknown = ~(a.known[i] | uint64_t{c.known[i]} << 32);
    const uint64_t known = ~move(unknown, is_signed);
    result.value[i] = static_cast<uint32_t>(high ? value >> 32 : value);
    result.known[i] = static_cast<uint32_t>(high ? known >> 32 : known);
  }
  WriteResult(one, result);
}

void Warp::Multiply(const Instruction& one) {
  const bool extends = one.Bit(74);
  const Lanes a = Read(one, one.a), b = Read(one, one.b), c = Read(one, one.c);
  const Flags carry = extends ? ReadPredicate(one, 87, 90) : Flags::Of(false);
  const bool negate = one.a.negate != one.b.negate;
  Lanes result = Map(
      [&](uint32_t x, uint32_t y, uint32_t z) {
        const uint32_t product = negate ? 0 - x * y : x * y;
        return product + (one.c.negate ? ~z + (extends ? 0 : 1) : z);
      },
      a, b, c);
  // No bit depends on bits above it, and a factor of 2^n moves unknown ones up.
  for (unsigned i = 0; i < kLanes; ++i) {
    if (result.known[i] == kAllBits)
      continue;
    const auto sure = [i](const Lanes& lanes) {
      return static_cast<uint32_t>(std::countr_one(lanes.known[i]));
    };
    const auto zeros = [i](const Lanes& lanes) {
      return static_cast<uint32_t>(std::countr_zero(lanes.value[i] | ~lanes.known[i]));
    };
    const uint32_t known = std::min({sure(a) + zeros(b), sure(b) + zeros(a), sure(c)});
    result.known[i] = known >= 32 ? kAllBits : (uint32_t{1} << known) - 1;
  }
  if (extends)
    for (unsigned i = 0; i < kLanes; ++i) {
      result.value[i] += carry.value >> i & 1;
      result.known[i] &= Spread(carry.known, i);
    }
  WriteResult(one, result);
}

// 64-bit result and C.
void Warp::MultiplyWide(const Instruction& one) {
  const bool is_signed = one.Bit(73), extends = one.Bit(74);
  const Lanes a = Read(one, one.a), b = Read(one, one.b);
  const Lanes c_low = Read(one, one.c), c_high = ReadHigh(one, one.c);
  const Flags carry = extends ? ReadPredicate(one, 87, 90) : Flags::Of(false);
  if ((one.c.negate && (extends || one.Bits(81, 3) != kTruePredicate)) ||
      one.c.kind == Operand::Kind::kImmediate) {
    NotInterpreted(one);
    return;
  }
  Lanes low, high;
  Flags out;
  for (unsigned i = 0; i < kLanes; ++i) {
    const uint64_t product =
        is_signed ? static_cast<uint64_t>(int64_t{static_cast<int32_t>(a.value[i])} *
                                          static_cast<int32_t>(b.value[i]))
                  : uint64_t{a.value[i]} * b.value[i];
    uint64_t addend = Join(c_low, c_high, i);
    if (one.c.negate)
      addend = 0 - addend;
    const uint64_t partial = product + addend;
    const uint64_t sum = partial + (carry.value >> i & 1);
    const bool overflows = partial < product || sum < partial;
    const bool all = (a.known[i] & b.known[i] & c_low.known[i] & c_high.known[i] &
                      Spread(carry.known, i)) == kAllBits;
    const uint32_t lane = uint32_t{1} << i;
    low.value[i] = static_cast<uint32_t>(sum);
    high.value[i] = static_cast<uint32_t>(sum >> 32);
    low.known[i] = high.known[i] = all ? kAllBits : 0;
    out.value |= overflows ? lane : 0;
    out.known &= all ? kAllLanes : ~lane;
  }
  // The carry of a signed product is not one of an unsigned sum.
  if (is_signed)
    out.known = 0;
  WriteResult(one, low);
  if (one.destination != kZeroRegister)
    Write(one, one.destination + 1u, high);
  WritePredicate(one, 81, out);
}

void Warp::MultiplyHigh(const Instruction& one) {
  const bool is_signed = one.Bit(73);
  if (one.Bit(74) || (one.c.kind != Operand::Kind::kRegister &&
                      one.c.kind != Operand::Kind::kUniform)) {
    NotInterpreted(one);
    return;
  }
  const Lanes a = Read(one, one.a), b = Read(one, one.b);
  const Lanes c_low = Read(one, one.c), c_high = ReadHigh(one, one.c);
  Lanes result;
  Flags out;
  for (unsigned i = 0; i < kLanes; ++i) {
    const uint64_t product =
        is_signed ? static_cast<uint64_t>(int64_t{static_cast<int32_t>(a.value[i])} *
                                          static_cast<int32_t>(b.value[i]))
                  : uint64_t{a.value[i]} * b.value[i];
    const uint64_t sum = product + Join(c_low, c_high, i);
    const bool all =
        (a.known[i] & b.known[i] & c_low.known[i] & c_high.known[i]) == kAllBits;
    const uint32_t lane = uint32_t{1} << i;
    result.value[i] = static_cast<uint32_t>(sum >> 32);
    result.known[i] = all ? kAllBits : 0;
    out.value |= sum < product ? lane : 0;
    out.known &= all && !is_signed ? kAllLanes : ~lane;
  }
  WriteResult(one, result);
  WritePredicate(one, 81, out);
}

void Warp::MinMax(const Instruction& one) {
  const bool is_add = one.opcode == Opcode::kViaddmnmx;
  const bool is_signed = one.Bit(one.opcode == Opcode::kIntegerMinMax ? 73 : 72);
  const bool of_three = one.opcode == Opcode::kVimnmx3;
  const bool halves = (of_three || one.opcode == Opcode::kVimnmx) && one.Bit(73);
  // .RELU: what is below 0 becomes 0.
  const bool clamps = (is_add || one.opcode == Opcode::kVimnmx) && one.Bit(76);
  if (clamps && (!is_signed || halves)) {
    NotInterpreted(one);
    return;
  }
  Lanes a = Read(one, one.a), b = Read(one, one.b);
  if (is_add) {
    // A + B against C. Unsigned sums wrap, by how compiled code uses them (no document
    // says so): a switch subtracts its first case, and takes what wraps for the
    // default. A signed sum that does not fit counts as unknown.
    Lanes sum;
    for (unsigned i = 0; i < kLanes; ++i) {
      const uint32_t term = one.b.negate ? 0 - b.value[i] : b.value[i];
      const int64_t wide = int64_t{static_cast<int32_t>(a.value[i])} +
                           (one.b.negate ? -int64_t{static_cast<int32_t>(b.value[i])}
                                         : int64_t{static_cast<int32_t>(b.value[i])});
      const bool fits = !is_signed || wide == static_cast<int32_t>(wide);
      sum.value[i] = a.value[i] + term;
      sum.known[i] = fits && AllKnown(a, i) && AllKnown(b, i) ? kAllBits : 0;
    }
    a = sum;
    b = Read(one, one.c);
    if (one.c.negate) {
      NotInterpreted(one);
      return;
    }
  }
  const Flags minimum = ReadPredicate(one, 87, 90);
  const auto is_less = [is_signed](uint32_t x, uint32_t y) {
    return is_signed ? static_cast<int32_t>(x) < static_cast<int32_t>(y) : x < y;
  };
  const Lanes c = of_three ? Read(one, one.c) : Lanes::Of(0);
  Lanes result;
  for (unsigned i = 0; i < kLanes; ++i) {
    const bool least = (minimum.value >> i & 1) != 0;
    const auto pick = [&](uint32_t x, uint32_t y) {
      return is_less(x, y) == least ? x : y;
    };
    const auto pick_all = [&](uint32_t x, uint32_t y) {
      constexpr uint32_t kUpper = 0xffff0000;
      // The lower halves compare as the upper ones of what they are shifted to.
      return halves ? (pick(x & kUpper, y & kUpper) | pick(x << 16, y << 16) >> 16)
                    : pick(x, y);
    };
    const uint32_t two = pick_all(a.value[i], b.value[i]);
    result.value[i] = of_three ? pick_all(two, c.value[i]) : two;
    if (clamps && static_cast<int32_t>(two) < 0)
      result.value[i] = 0;
    result.known[i] =
        (a.known[i] & b.known[i] & c.known[i] & Spread(minimum.known, i)) == kAllBits
            ? kAllBits
            : 0;
  }
  WriteResult(one, result);
}

// Predicates under a mask into a byte of a register, whose other bits come from A.
void Warp::PackPredicates(const Instruction& one) {
  if (one.b.kind != Operand::Kind::kImmediate) {
    NotInterpreted(one);
    return;
  }
  const uint32_t mask = one.b.value & 0x7f, shift = 8 * one.Bits(76, 2);
  Lanes result = Read(one, one.a);
  for (unsigned i = 0; i < kLanes; ++i)
    for (unsigned k = 0; k < 7; ++k) {
      if ((mask >> k & 1) == 0)
        continue;
      const uint32_t bit = uint32_t{1} << (k + shift);
      result.value[i] =
          (result.value[i] & ~bit) | ((predicates_[k].value >> i & 1) != 0 ? bit : 0);
      result.known[i] =
          (result.known[i] & ~bit) | ((predicates_[k].known >> i & 1) != 0 ? bit : 0);
    }
  WriteResult(one, result);
}

void Warp::UnpackPredicates(const Instruction& one) {
  if (one.b.kind != Operand::Kind::kImmediate) {
    NotInterpreted(one);
    return;
  }
  const uint32_t mask = one.b.value & 0x7f, shift = 8 * one.Bits(76, 2);
  const Lanes from = Read(one, one.a);
  for (unsigned k = 0; k < 7; ++k) {
    if ((mask >> k & 1) == 0)
      continue;
    Flags& to = predicates_[k];
    for (unsigned i = 0; i < kLanes; ++i) {
      const uint32_t lane = uint32_t{1} << i;
      if ((maybe_ & lane) != 0)
        to.known &= ~lane;
      if ((active_ & lane) == 0)
        continue;
      to.value =
          (to.value & ~lane) | ((from.value[i] >> (k + shift) & 1) != 0 ? lane : 0);
      to.known =
          (to.known & ~lane) | ((from.known[i] >> (k + shift) & 1) != 0 ? lane : 0);
    }
  }
}

Lanes Warp::SpecialRegister(uint32_t number) const {
  constexpr uint32_t kLaneId = 0x00, kTidX = 0x21, kTidY = 0x22, kTidZ = 0x23,
                     kCtaidX = 0x25, kCtaidZ = 0x27, kEqualMask = 0x38,
                     kLessMask = 0x39, kLessEqualMask = 0x3a, kGreaterMask = 0x3b,
                     kGreaterEqualMask = 0x3c, kCgaCtaId = 0x88, kSharedWindow = 0x2f,
                     kZero = 0xff;
  Lanes lanes = Lanes::Of(0);
  const uint32_t* const block = launch_->launch.block;
  for (unsigned i = 0; i < kLanes; ++i) {
    const uint32_t thread = first_thread_ + i;
    const uint32_t mine = uint32_t{1} << i;
    uint32_t& value = lanes.value[i];
    switch (number) {
      case kZero:
      case kCgaCtaId:  // no clusters here
        break;
      case kSharedWindow:
        value = MachineCode::kSharedWindow;
        break;
      case kLaneId:
        value = i;
        break;
      case kTidX:
        value = thread % block[0];
        break;
      case kTidY:
        value = thread / block[0] % block[1];
        break;
      case kTidZ:
        value = thread / block[0] / block[1];
        break;
      case kEqualMask:
        value = mine;
        break;
      case kLessMask:
        value = mine - 1;
        break;
      case kLessEqualMask:
        value = mine | (mine - 1);
        break;
      case kGreaterMask:
        value = ~(mine | (mine - 1));
        break;
      case kGreaterEqualMask:
        value = ~(mine - 1);
        break;
      default:
        if (number >= kCtaidX && number <= kCtaidZ)
          value = block_->index[number - kCtaidX];
        else
          lanes.known[i] = 0;  // clocks and the like
    }
  }
  return lanes;
}

bool Warp::Integer(const Instruction& one) {
  switch (one.opcode) {
    case Opcode::kMov:
      WriteResult(one, Read(one, one.b));
      return true;
    case Opcode::kSel:
    case Opcode::kFsel: {
      const bool is_float = one.opcode == Opcode::kFsel;
      const Lanes a = is_float ? ReadFloat(one, one.a) : Read(one, one.a);
      const Lanes b = is_float ? ReadFloat(one, one.b) : Read(one, one.b);
      const Flags first = ReadPredicate(one, 87, 90);
      Lanes result;
      for (unsigned i = 0; i < kLanes; ++i) {
        const uint32_t choice = Spread(first.value, i), sure = Spread(first.known, i);
        // Where the choice is not known: what both say.
        const uint32_t same = a.known[i] & b.known[i] & ~(a.value[i] ^ b.value[i]);
        result.value[i] = (a.value[i] & choice) | (b.value[i] & ~choice);
        result.known[i] =
            (((a.known[i] & choice) | (b.known[i] & ~choice)) & sure) | same;
      }
      WriteResult(one, result);
      return true;
    }
    case Opcode::kPrmt:
      Permute(one);
      return true;
    case Opcode::kP2r:
      PackPredicates(one);
      return true;
    case Opcode::kR2p:
      UnpackPredicates(one);
      return true;
    case Opcode::kCs2r:
      WriteResult(one, SpecialRegister(one.Bits(72, 8)));
      if (one.Bit(80) && one.destination != kZeroRegister)
        Write(one, one.destination + 1u,
              one.Bits(72, 8) == 0xff ? Lanes::Of(0) : Lanes::Of(0, 0));
      return true;
    case Opcode::kS2r:
      WriteResult(one, SpecialRegister(one.Bits(72, 8)));
      return true;
    case Opcode::kLepc:
      WriteResult(one, Lanes::Of(0, 0));
      Write(one, one.destination + 1u, Lanes::Of(0, 0));
      return true;
    case Opcode::kR2ur: {
      // Which lane it reads is not documented: known where all agree.
      Lanes from = Read(one, one.a);
      const auto lane = static_cast<unsigned>(std::countr_zero(active_ | maybe_));
      for (unsigned i = 0; i < kLanes; ++i)
        if ((active_ >> i & 1) != 0 &&
            (from.value[i] != from.value[lane] || from.known[i] != from.known[lane]))
          from.known[lane] = 0;
      WriteResult(one, from);
      // Seen only as the condition of BRA.DIV, which is never taken here.
      if (one.Bits(81, 3) != kTruePredicate) {
        Flags& agreed = predicates_[one.Bits(81, 3)];
        agreed.known &= ~(active_ | maybe_);
      }
      return true;
    }
    case Opcode::kIsetp:
      CompareIntegers(one);
      return true;
    case Opcode::kIadd3:
      Add3(one);
      return true;
    case Opcode::kLea:
      ShiftAndAdd(one);
      return true;
    case Opcode::kLop3:
      Logic(one);
      return true;
    case Opcode::kPlop3:
      PredicateLogic(one);
      return true;
    case Opcode::kIabs:
      WriteResult(one, Map([](uint32_t x) { return x >> 31 != 0 ? 0 - x : x; },
                           Read(one, one.b)));
      return true;
    case Opcode::kIntegerMinMax:
    case Opcode::kVimnmx:
    case Opcode::kVimnmx3:
    case Opcode::kViaddmnmx:
      MinMax(one);
      return true;
    case Opcode::kShf:
      Funnel(one);
      return true;
    case Opcode::kSgxt: {
      const bool is_signed = one.Bit(73), wraps = one.Bit(75);
      Lanes result = Map(
          [&](uint32_t x, uint32_t width) -> uint32_t {
            width = wraps ? width & 31 : std::min(width, 32u);
            if (width == 0 || width == 32)
              return width == 0 ? 0 : x;
            const uint32_t up = x << (32 - width);
            return is_signed
                       ? static_cast<uint32_t>(static_cast<int32_t>(up) >> (32 - width))
                       : up >> (32 - width);
          },
          Read(one, one.a), Read(one, one.b));
      WriteResult(one, result);
      return true;
    }
    case Opcode::kBmsk: {
      const bool wraps = one.Bit(75);
      WriteResult(one, Map(
                           [&](uint32_t from, uint32_t width) -> uint32_t {
                             from = wraps ? from & 31 : std::min(from, 32u);
                             width = wraps ? width & 31 : std::min(width, 32u);
                             const uint64_t ones = (uint64_t{1} << width) - 1;
                             return static_cast<uint32_t>(ones << from);
                           },
                           Read(one, one.a), Read(one, one.b)));
      return true;
    }
    case Opcode::kImad:
      Multiply(one);
      return true;
    case Opcode::kImadWide:
      MultiplyWide(one);
      return true;
    case Opcode::kImadHi:
      MultiplyHigh(one);
      return true;
    case Opcode::kViadd:
      WriteResult(one, Map(
                           [&](uint32_t x, uint32_t y) {
                             return (one.a.negate ? 0 - x : x) +
                                    (one.b.negate ? 0 - y : y);
                           },
                           Read(one, one.a), Read(one, one.b)));
      return true;
    case Opcode::kFlo: {
      const bool is_signed = one.Bit(73), shift = one.Bit(74);
      WriteResult(one, Map(
                           [&](uint32_t x) -> uint32_t {
                             x = one.b.negate ? ~x : x;
                             if (is_signed && x >> 31 != 0)
                               x = ~x;
                             const auto above =
                                 static_cast<uint32_t>(std::countl_zero(x));
                             return above == 32 ? kAllBits : shift ? above : 31 - above;
                           },
                           Read(one, one.b)));
      return true;
    }
    case Opcode::kBrev:
      WriteResult(one, Map(
                           [](uint32_t x) {
                             uint32_t reversed = 0;
                             for (unsigned k = 0; k < 32; ++k)
                               reversed |= (x >> k & 1) << (31 - k);
                             return reversed;
                           },
                           Read(one, one.b)));
      return true;
    case Opcode::kPopc:
      WriteResult(
          one, Map(
                   [&](uint32_t x) {
                     return static_cast<uint32_t>(std::popcount(one.b.negate ? ~x : x));
                   },
                   Read(one, one.b)));
      return true;
    default:
      return false;
  }
}

}  // namespace vrank::gpu
