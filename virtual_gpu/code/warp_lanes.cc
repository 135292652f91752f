// What the lanes of a warp exchange: shuffles, votes, matches, reductions.
//
// Each works on the lanes that run it together. Where it is not known which these are,
// the launch ends.

#include <bit>

#include "virtual_gpu/code/warp.h"

namespace vrank::gpu {

void Warp::Shuffle(const Instruction& one) {
  enum : uint32_t { kIndex = 0, kUp = 1, kDown = 2, kButterfly = 3 };
  const uint32_t mode = one.Bits(58, 2);
  const auto at = [&](unsigned first) {
    return Read(one,
                {Operand::Kind::kRegister, static_cast<uint8_t>(one.Bits(first, 8))});
  };
  // The lane, then the clamp and the mask of segments; each a register or a number.
  Lanes lane, control;
  switch (one.form()) {
    case 1:
      lane = at(32);
      control = at(64);
      break;
    case 2:
      lane = at(32);
      control = Lanes::Of(one.Bits(40, 13));
      break;
    case 4:
      lane = Lanes::Of(one.Bits(53, 5));
      control = at(64);
      break;
    case 7:
      lane = Lanes::Of(one.Bits(53, 5));
      control = Lanes::Of(one.Bits(40, 13));
      break;
    default:
      NotInterpreted(one);
      return;
  }
  const Lanes from = at(24);
  Lanes result;
  Flags inside{0, 0};
  for (unsigned i = 0; i < kLanes; ++i) {
    constexpr uint32_t kControlBits = 0x1f1f;
    if ((active_ >> i & 1) == 0 || (lane.known[i] & 0x1f) != 0x1f ||
        (control.known[i] & kControlBits) != kControlBits)
      continue;
    // PTX ISA, shfl.sync.
    const uint32_t b = lane.value[i] & 0x1f, clamp = control.value[i] & 0x1f;
    const uint32_t segment = control.value[i] >> 8 & 0x1f;
    const uint32_t most = (i & segment) | (clamp & ~segment);
    const uint32_t least = i & segment;
    int32_t source = 0;
    bool valid = false;
    switch (mode) {
      case kUp:
        source = static_cast<int32_t>(i) - static_cast<int32_t>(b);
        valid = source >= static_cast<int32_t>(most);
        break;
      case kDown:
        source = static_cast<int32_t>(i + b);
        valid = source <= static_cast<int32_t>(most);
        break;
      case kButterfly:
        source = static_cast<int32_t>(i ^ b);
        valid = source <= static_cast<int32_t>(most);
        break;
      case kIndex:
        source = static_cast<int32_t>(least | (b & ~segment));
        valid = source <= static_cast<int32_t>(most);
        break;
    }
    unsigned j = valid ? static_cast<unsigned>(source) & 31 : i;
    inside.known |= uint32_t{1} << i;
    inside.value |= valid ? uint32_t{1} << i : 0;
    // A lane that is not there gives this one's value, as one beyond the segment does.
    // CUDA leaves it undefined, so no result depends on it; but reductions of blocks
    // that are no whole warps branch on it.
    if ((present_ >> j & 1) == 0)
      j = i;
    // Of a lane that is there and does not take part, anything may come.
    if ((active_ >> j & 1) == 0)
      continue;
    result.value[i] = from.value[j];
    result.known[i] = from.known[j];
  }
  WriteResult(one, result);
  WritePredicate(one, 81, inside);
}

void Warp::Vote(const Instruction& one) {
  enum : uint32_t { kAll = 0, kAny = 1, kEqual = 2 };
  const uint32_t mode = one.Bits(72, 2);
  const Flags flags = ReadPredicate(one, 87, 90);
  const uint32_t yes = active_ & flags.True(), no = active_ & flags.False();
  const bool sure = (yes | no) == active_;
  // The ballot.
  const uint32_t ballot_known = ~active_ | yes | no;
  WriteResult(one, Lanes::Of(yes, ballot_known));
  Flags result = Flags::Of(mode == kAll   ? no == 0
                           : mode == kAny ? yes != 0
                                          : yes == 0 || no == 0);
  const bool decided = sure || (mode == kAll && no != 0) ||
                       (mode == kAny && yes != 0) ||
                       (mode == kEqual && yes != 0 && no != 0);
  if (!decided)
    result.known = 0;
  WritePredicate(one, 81, result);
}

void Warp::Match(const Instruction& one) {
  const bool is_64 = one.Bit(73), any = one.Bit(79);
  const auto index = static_cast<uint8_t>(one.Bits(24, 8));
  const Lanes low = Read(one, {Operand::Kind::kRegister, index});
  const Lanes high =
      is_64 ? ReadHigh(one, {Operand::Kind::kRegister, index}) : Lanes::Of(0);
  for (unsigned i = 0; i < kLanes; ++i)
    if ((active_ >> i & 1) != 0 && (!low.IsKnown(i) || !high.IsKnown(i))) {
      WriteResult(one, Lanes::Of(0, 0));
      WritePredicate(one, 81, {0, 0});
      return;
    }
  Lanes result;
  Flags all;
  for (unsigned i = 0; i < kLanes; ++i) {
    uint32_t same = 0;
    for (unsigned j = 0; j < kLanes; ++j)
      if ((active_ >> j & 1) != 0 && low.value[i] == low.value[j] &&
          high.value[i] == high.value[j])
        same |= uint32_t{1} << j;
    const bool everywhere = same == active_;
    result.value[i] = any || everywhere ? same : 0;
    result.known[i] = kAllBits;
    all.value |= everywhere ? uint32_t{1} << i : 0;
  }
  WriteResult(one, result);
  WritePredicate(one, 81, all);
}

void Warp::Reduce(const Instruction& one) {
  enum : uint32_t { kAnd = 0, kOr = 1, kXor = 2, kSum = 3, kMin = 4, kMax = 5 };
  const uint32_t operation = one.Bits(78, 3);
  const bool is_signed = one.Bit(73);
  const Lanes from =
      Read(one, {Operand::Kind::kRegister, static_cast<uint8_t>(one.Bits(24, 8))});
  uint32_t value = 0, known = kAllBits;
  bool first = true;
  for (unsigned i = 0; i < kLanes; ++i) {
    if ((active_ >> i & 1) == 0)
      continue;
    const uint32_t next = from.value[i];
    known &= from.known[i];
    if (first) {
      value = next;
      first = false;
      continue;
    }
    const bool less = is_signed
                          ? static_cast<int32_t>(next) < static_cast<int32_t>(value)
                          : next < value;
    switch (operation) {
      case kAnd:
        value &= next;
        break;
      case kOr:
        value |= next;
        break;
      case kXor:
        value ^= next;
        break;
      case kSum:
        value += next;
        break;
      case kMin:
        value = less ? next : value;
        break;
      case kMax:
        value = less ? value : next;
        break;
      default:
        NotInterpreted(one);
        return;
    }
  }
  WriteResult(one, Lanes::Of(value, known == kAllBits ? kAllBits : 0));
}

bool Warp::Exchange(const Instruction& one) {
  switch (one.opcode) {
    case Opcode::kShfl:
    case Opcode::kVote:
    case Opcode::kMatch:
    case Opcode::kRedux:
      break;
    case Opcode::kB2r: {
      constexpr uint32_t kResult = 1;
      if (one.Bits(78, 2) != kResult) {
        NotInterpreted(one);
        return true;
      }
      const uint32_t known = block_->reduced_known ? kAllBits : 0;
      WriteResult(one, Lanes::Of(block_->reduced_count, known));
      Flags flags = Flags::Of(block_->reduced);
      flags.known &= known;
      WritePredicate(one, 81, flags);
      return true;
    }
    default:
      return false;
  }
  if (maybe_ != 0) {
    Unknown(one, "which lanes take part");
    return true;
  }
  if (one.opcode == Opcode::kShfl)
    Shuffle(one);
  else if (one.opcode == Opcode::kVote)
    Vote(one);
  else if (one.opcode == Opcode::kMatch)
    Match(one);
  else
    Reduce(one);
  return true;
}

}  // namespace vrank::gpu
