// Loads, stores and atomics of global, shared, local and constant memory.
//
// An unknown address makes what is loaded unknown. An unknown address of a store, or
// not knowing whether it happens, ends the launch.

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>

#include "virtual_gpu/code/warp.h"

namespace vrank::gpu {
namespace {

constexpr unsigned kMostBytes = 16;

struct Width {
  uint32_t bytes = 0;  // 0: none that there is
  bool is_signed = false;
};

Width WidthOf(const Instruction& one) {
  constexpr Width kWidths[] = {{1, false}, {1, true},  {2, false},  {2, true},
                               {4, false}, {8, false}, {16, false}, {}};
  return kWidths[one.Bits(73, 3)];
}

int64_t OffsetOf(const Instruction& one) {
  return static_cast<int64_t>(one.low) >> 40;
}

// The space of an access, as its plain load.
Opcode SpaceOf(Opcode opcode) {
  switch (opcode) {
    case Opcode::kLdg:
    case Opcode::kStg:
    case Opcode::kRed:
    case Opcode::kAtomg:
    case Opcode::kAtomgCas:
      return Opcode::kLdg;
    case Opcode::kLdl:
    case Opcode::kStl:
      return Opcode::kLdl;
    default:
      return Opcode::kLds;
  }
}

// One lane's bytes and their known flags, as words.
struct Data {
  alignas(8) unsigned char bytes[kMostBytes] = {};
  alignas(8) unsigned char known[kMostBytes] = {};

  uint32_t Word(unsigned k) const { return At(bytes, k); }
  uint32_t KnownBits(unsigned k) const { return At(known, k); }
  void Set(unsigned k, uint32_t value, uint32_t known_bits) {
    std::memcpy(bytes + 4 * k, &value, sizeof value);
    // A byte is known where all of its bits are.
    for (unsigned j = 0; j < 4; ++j)
      known[4 * k + j] = (known_bits >> 8 * j & 0xff) == 0xff ? 0xff : 0;
  }

 private:
  static uint32_t At(const unsigned char* from, unsigned k) {
    uint32_t word;
    std::memcpy(&word, from + 4 * k, sizeof word);
    return word;
  }
};

// Extends what was loaded to a word.
void Extend(Width width, Data* data) {
  if (width.bytes >= 4)
    return;
  const bool negative = width.is_signed && (data->bytes[width.bytes - 1] & 0x80) != 0;
  const bool known = !width.is_signed || data->known[width.bytes - 1] != 0;
  for (unsigned i = width.bytes; i < 4; ++i) {
    data->bytes[i] = negative ? 0xff : 0;
    data->known[i] = known ? 0xff : 0;
  }
}

// What an atomic operation computes with.
struct AtomicType {
  enum class Kind : uint8_t {
    kNone,  // not interpreted
    kUnsigned,
    kSigned,
    kSingle,
    kSingleFlushed,
    kDouble,
    kHalves,
    kBfloats,
  };
  Kind kind = Kind::kNone;
  uint32_t bytes = 4;
  bool is_float() const { return kind >= Kind::kSingle; }
};

AtomicType TypeOf(const Instruction& one, bool sm90) {
  using Kind = AtomicType::Kind;
  // From sm_90 on, operations on floats have numbers of their own.
  constexpr uint32_t kFloatAtom = 0x1a2, kFloatAtomg = 0x1a3, kFloatRed = 0x1a6;
  const bool is_float = one.number() == kFloatAtom || one.number() == kFloatAtomg ||
                        one.number() == kFloatRed;
  const uint32_t type = one.Bits(73, sm90 ? 4 : 3);
  if (is_float) {
    constexpr uint32_t kF16x2 = 0, kBf16x2 = 3, kF32Ftz = 9, kF32 = 12, kF64 = 15;
    switch (type) {
      case kF16x2:
        return {Kind::kHalves, 4};
      case kBf16x2:
        return {Kind::kBfloats, 4};
      case kF32Ftz:
        return {Kind::kSingleFlushed, 4};
      case kF32:
        return {Kind::kSingle, 4};
      case kF64:
        return {Kind::kDouble, 8};
      default:
        return {};
    }
  }
  constexpr AtomicType kSm90[] = {{Kind::kUnsigned, 4},
                                  {Kind::kSigned, 4},
                                  {Kind::kUnsigned, 8},
                                  {Kind::kSigned, 8}};
  constexpr AtomicType kSm80[] = {{Kind::kUnsigned, 4}, {Kind::kSigned, 4},
                                  {Kind::kUnsigned, 8}, {Kind::kSingleFlushed, 4},
                                  {Kind::kHalves, 4},   {Kind::kSigned, 8},
                                  {Kind::kDouble, 8},   {}};
  if (!sm90)
    return kSm80[type];
  return type < std::size(kSm90) ? kSm90[type] : AtomicType{};
}

// The sum of floats in memory; `known` of the operands becomes that of the sum.
uint64_t AddFloats(AtomicType::Kind kind, uint64_t a, uint64_t b, uint64_t* known) {
  using Kind = AtomicType::Kind;
  constexpr uint64_t kWord = 0xffffffff;
  if (kind == Kind::kDouble) {
    *known = *known == ~uint64_t{0} ? *known : 0;
    return std::bit_cast<uint64_t>(std::bit_cast<double>(a) + std::bit_cast<double>(b));
  }
  if (kind == Kind::kSingle || kind == Kind::kSingleFlushed) {
    const bool flushes = kind == Kind::kSingleFlushed;
    const auto number = [flushes](uint64_t from) {
      const auto bits = static_cast<uint32_t>(from);
      return double{std::bit_cast<float>(flushes ? Flush(bits, kSingle) : bits)};
    };
    *known = (*known & kWord) == kWord ? ~uint64_t{0} : 0;
    const uint32_t sum =
        RoundTo(SumToOdd(number(a), number(b)), kSingle, Rounding::kNearest);
    return flushes ? Flush(sum, kSingle) : sum;
  }
  constexpr uint64_t kHalfBits = 0xffff;
  uint64_t sum = 0, sure = ~kWord;
  for (unsigned shift = 0; shift < 32; shift += 16) {
    const auto number = [&](uint64_t from) {
      const auto bits = static_cast<uint32_t>(from >> shift & kHalfBits);
      return kind == Kind::kHalves ? FromHalf(bits) : FromBfloat(bits);
    };
    sum |=
        uint64_t{RoundTo(SumToOdd(number(a), number(b)),
                         kind == Kind::kHalves ? kHalf : kBfloat, Rounding::kNearest)}
        << shift;
    sure |= (*known >> shift & kHalfBits) == kHalfBits ? kHalfBits << shift : 0;
  }
  *known = sure;
  return sum;
}

// The space that a generic address lies in; global memory has what is in no window.
// Makes it an address of that space.
Opcode Resolve(Opcode space, uint64_t* address) {
  if (space != Opcode::kLdg)
    return space;
  const uint64_t window = *address >> 32;
  if (window == MachineCode::kSharedWindow)
    space = Opcode::kLds;
  else if (window == MachineCode::kLocalWindow)
    space = Opcode::kLdl;
  if (space != Opcode::kLdg)
    *address &= kAllBits;
  return space;
}

bool IsInside(const KnownBytes& from, uint64_t address, uint32_t bytes) {
  return address <= from.bytes.size() && bytes <= from.bytes.size() - address;
}

}  // namespace

// Most kernels have local memory and never use it.
KnownBytes& Warp::Local() {
  if (local_.bytes.empty())
    local_.Reset(size_t{launch_->code.local_bytes} * kLanes);
  return local_;
}

bool Warp::ReadBytes(Opcode space, unsigned lane, uint64_t address, uint32_t bytes,
                     unsigned char* to, unsigned char* known) {
  space = Resolve(space, &address);
  if (space == Opcode::kLdg) {
    const MachineCode& code = launch_->code;
    if (address < MachineCode::kTablesAddress)
      return launch_->memory.Read(address, bytes, to, known);
    const uint64_t at = address - MachineCode::kTablesAddress;
    if (at > code.tables.size() || bytes > code.tables.size() - at)
      return false;
    std::memcpy(to, code.tables.data() + at, bytes);
    std::memset(known, 0xff, bytes);
    return true;
  }
  const KnownBytes& from = space == Opcode::kLdl ? Local() : block_->shared;
  if (space == Opcode::kLdl) {
    const uint64_t each = launch_->code.local_bytes;
    if (address > each || bytes > each - address)
      return false;
    address += each * lane;
  } else if (!IsInside(from, address, bytes)) {
    return false;
  }
  std::memcpy(to, from.bytes.data() + address, bytes);
  std::memcpy(known, from.known.data() + address, bytes);
  return true;
}

bool Warp::WriteBytes(Opcode space, unsigned lane, uint64_t address, uint32_t bytes,
                      const unsigned char* from, const unsigned char* known) {
  space = Resolve(space, &address);
  if (space == Opcode::kLdg)
    return launch_->memory.Write(address, bytes, from, known);
  KnownBytes& to = space == Opcode::kLdl ? Local() : block_->shared;
  if (space == Opcode::kLdl) {
    const uint64_t each = launch_->code.local_bytes;
    if (address > each || bytes > each - address)
      return false;
    address += each * lane;
  } else if (!IsInside(to, address, bytes)) {
    return false;
  }
  std::memcpy(to.bytes.data() + address, from, bytes);
  std::memcpy(to.known.data() + address, known, bytes);
  return true;
}

// Addresses by lane: the lower words into `low`, the upper ones returned.
Lanes Warp::AddressHigh(const Instruction& one, Lanes* low) const {
  const bool is_global = SpaceOf(one.opcode) == Opcode::kLdg;
  const bool is_load = one.opcode == Opcode::kLdg || one.opcode == Opcode::kLds ||
                       one.opcode == Opcode::kLdl;
  // Bit 91: a uniform register takes part; of global memory it may be a descriptor,
  // which carries no address. Where that is said, and that A is a pair, differs, since
  // operations of atomics take bits 87 to 90.
  const bool returns = one.opcode == Opcode::kAtomg || one.opcode == Opcode::kAtomgCas;
  const bool is_atomic = returns || one.opcode == Opcode::kRed;
  const bool descriptor = is_global && one.Bit(is_atomic ? 71 : 76);
  const bool uniform = one.Bit(91) && !descriptor;
  const bool is_64 = is_global && one.Bit(!one.Bit(91) ? 72 : returns ? 70 : 90);
  const Lanes a = Read(one, one.a);
  const Lanes a_high = is_64 ? ReadHigh(one, one.a) : Lanes::Of(0);
  const Operand base{Operand::Kind::kUniform,
                     static_cast<uint8_t>(one.Bits(is_load ? 32 : 64, 6))};
  const Lanes b = uniform ? Read(one, base) : Lanes::Of(0);
  const Lanes b_high = uniform && is_global ? ReadHigh(one, base) : Lanes::Of(0);
  const bool scales = SpaceOf(one.opcode) == Opcode::kLds;
  const uint32_t scale_code = scales ? one.Bits(78, 2) : 0;
  const unsigned scale = scale_code == 0 ? 0 : scale_code + 1;  // .X4, .X8, .X16
  Lanes high;
  for (unsigned i = 0; i < kLanes; ++i) {
    uint64_t address = (a.value[i] | uint64_t{a_high.value[i]} << 32) << scale;
    address += b.value[i] | uint64_t{b_high.value[i]} << 32;
    address += static_cast<uint64_t>(OffsetOf(one));
    if (!is_global)
      address &= kAllBits;
    const bool known =
        (a.known[i] & a_high.known[i] & b.known[i] & b_high.known[i]) == kAllBits;
    low->value[i] = static_cast<uint32_t>(address);
    high.value[i] = static_cast<uint32_t>(address >> 32);
    low->known[i] = high.known[i] = known ? kAllBits : 0;
  }
  return high;
}

void Warp::LoadConstant(const Instruction& one) {
  const Width width = WidthOf(one);
  const bool uniform = one.opcode == Opcode::kUldc;
  constexpr uint32_t kIndexedUniform = 0x0bb;
  const bool indexed = !uniform || one.number() == kIndexedUniform;
  if (one.form() != 5 || width.bytes == 0 || width.bytes > 8 ||
      (one.Bit(91) && one.number() != kIndexedUniform)) {
    NotInterpreted(one);
    return;
  }
  const uint32_t bank = one.Bits(54, 5);
  const auto offset = static_cast<int16_t>(one.Bits(38, 16));
  Operand base;
  if (indexed)
    base = uniform
               ? Operand{Operand::Kind::kUniform, static_cast<uint8_t>(one.Bits(24, 6))}
               : one.a;
  const Lanes index = Read(one, base);
  Lanes low, high;
  for (unsigned i = 0; i < kLanes; ++i) {
    if (!index.IsKnown(i))
      continue;
    Data data;
    // Offsets are signed where an index joins them; else the upper half is large.
    const int64_t at = indexed && index.value[i] != 0
                           ? int64_t{static_cast<int32_t>(index.value[i])} + offset
                           : int64_t{static_cast<uint16_t>(offset)};
    ReadConstantBytes(bank, at, width.bytes, data.bytes, data.known);
    Extend(width, &data);
    low.value[i] = data.Word(0);
    low.known[i] = data.KnownBits(0);
    high.value[i] = data.Word(1);
    high.known[i] = data.KnownBits(1);
  }
  WriteResult(one, low);
  if (width.bytes == 8)
    Write(one, one.destination + 1u, high);
}

void Warp::Load(const Instruction& one) {
  const Width width = WidthOf(one);
  if (width.bytes == 0 || (one.form() != 4 && one.form() != 1) ||
      (one.form() == 1 && one.Bit(91))) {
    NotInterpreted(one);
    return;
  }
  Lanes low;
  const Lanes high = AddressHigh(one, &low);
  const unsigned words = std::max(1u, width.bytes / 4);
  std::array<Lanes, 4> results;
  for (unsigned i = 0; i < kLanes; ++i) {
    if ((active_ >> i & 1) == 0 || !low.IsKnown(i))
      continue;
    const uint64_t address = low.value[i] | uint64_t{high.value[i]} << 32;
    Data data;
    if (address % width.bytes != 0 || !ReadBytes(SpaceOf(one.opcode), i, address,
                                                 width.bytes, data.bytes, data.known)) {
      Stop(Outcome::Kind::kFault, std::string(one.name) + " outside of memory");
      return;
    }
    Extend(width, &data);
    for (unsigned k = 0; k < words; ++k) {
      results[k].value[i] = data.Word(k);
      results[k].known[i] = data.KnownBits(k);
    }
  }
  if (one.destination != kZeroRegister)
    for (unsigned k = 0; k < words; ++k)
      Write(one, one.destination + k, results[k]);
}

void Warp::Store(const Instruction& one) {
  const Width width = WidthOf(one);
  if (width.bytes == 0 || (one.form() != 4 && one.form() != 1)) {
    NotInterpreted(one);
    return;
  }
  Lanes low;
  const Lanes high = AddressHigh(one, &low);
  const auto index = static_cast<uint8_t>(one.Bits(32, 8));
  const unsigned words = std::max(1u, width.bytes / 4);
  std::array<Lanes, 4> from;
  for (unsigned k = 0; k < words; ++k)
    from[k] =
        Read(one, {Operand::Kind::kRegister,
                   index == kZeroRegister ? index : static_cast<uint8_t>(index + k)});
  for (unsigned i = 0; i < kLanes; ++i) {
    if ((active_ >> i & 1) == 0)
      continue;
    if (!low.IsKnown(i)) {
      Unknown(one, "its address");
      return;
    }
    const uint64_t address = low.value[i] | uint64_t{high.value[i]} << 32;
    Data data;
    for (unsigned k = 0; k < words; ++k)
      data.Set(k, from[k].value[i], from[k].known[i]);
    if (address % width.bytes != 0 ||
        !WriteBytes(SpaceOf(one.opcode), i, address, width.bytes, data.bytes,
                    data.known)) {
      Stop(Outcome::Kind::kFault, std::string(one.name) + " outside of memory");
      return;
    }
  }
}

// Lanes take turns in their order; a GPU may have another one. Integers do not depend
// on it; sums of floats agree within what their rounding allows.
void Warp::Atomic(const Instruction& one) {
  enum : uint32_t {
    kAdd = 0,
    kMin = 1,
    kMax = 2,
    kInc = 3,
    kDec = 4,
    kAnd = 5,
    kOr = 6,
    kXor = 7,
    kExchange = 8,
    kCountUp = 0x100
  };
  constexpr uint32_t kGenericAtom = 0x18a, kGenericFloat = 0x1a2;
  const bool compares =
      one.opcode == Opcode::kAtomgCas || one.opcode == Opcode::kAtomsCas;
  const bool is_shared = SpaceOf(one.opcode) == Opcode::kLds;
  const bool sm90 = launch_->code.architecture() >= 90;
  uint32_t operation =
      compares ? kExchange : one.Bits(87, one.opcode == Opcode::kRed ? 3 : 4);
  // .POPC.INC: each lane adds one.
  if (is_shared && operation == (sm90 ? 11 : 10))
    operation = kCountUp;
  const AtomicType type = TypeOf(one, sm90);
  const bool is_64 = type.bytes == 8;
  const bool is_signed = type.kind == AtomicType::Kind::kSigned;
  if (type.kind == AtomicType::Kind::kNone ||
      (type.is_float() && (operation != kAdd || is_shared)) ||
      (operation > kExchange && operation != kCountUp) ||
      (operation == kCountUp && (is_64 || one.destination != kZeroRegister)) ||
      (is_64 && (operation == kInc || operation == kDec))) {
    NotInterpreted(one);
    return;
  }
  // Whether a sum of pairs was done: of shared memory the code does it by itself.
  const bool says_done =
      (one.number() == kGenericAtom || one.number() == kGenericFloat) &&
      one.Bits(81, 3) != kTruePredicate;
  if (says_done && type.kind != AtomicType::Kind::kHalves &&
      type.kind != AtomicType::Kind::kBfloats) {
    NotInterpreted(one);
    return;
  }
  // .CAST.SPIN returns whether it exchanged, in place of the value that was there.
  const uint32_t variant = one.opcode == Opcode::kAtomsCas ? one.Bits(87, 2) : 0;
  constexpr uint32_t kTests = 3;
  if (variant != 0 && variant != kTests) {
    NotInterpreted(one);
    return;
  }
  // The exchanged value of a comparison is in the far slot, where others have a
  // uniform register.
  if (compares && one.Bit(91)) {
    NotInterpreted(one);
    return;
  }
  const uint32_t bytes = type.bytes;
  const auto pair = [&](unsigned first, Lanes* upper) {
    const Operand operand{Operand::Kind::kRegister,
                          static_cast<uint8_t>(one.Bits(first, 8))};
    *upper = is_64 ? ReadHigh(one, operand) : Lanes::Of(0);
    return Read(one, operand);
  };
  Lanes low, data_high, new_high;
  const Lanes high = AddressHigh(one, &low);
  const Lanes data = operation == kCountUp ? Lanes::Of(1) : pair(32, &data_high);
  const Lanes fresh = compares ? pair(64, &new_high) : data;
  Lanes old_low, old_high;
  for (unsigned i = 0; i < kLanes; ++i) {
    if ((active_ >> i & 1) == 0)
      continue;
    if (!low.IsKnown(i)) {
      Unknown(one, "its address");
      return;
    }
    const uint64_t address = low.value[i] | uint64_t{high.value[i]} << 32;
    if (says_done && high.value[i] == MachineCode::kSharedWindow) {
      NotInterpreted(one, "of shared memory");
      return;
    }
    Data old, next;
    if (address % bytes != 0 ||
        !ReadBytes(SpaceOf(one.opcode), i, address, bytes, old.bytes, old.known)) {
      Stop(Outcome::Kind::kFault, std::string(one.name) + " outside of memory");
      return;
    }
    const uint64_t before = old.Word(0) | uint64_t{old.Word(1)} << 32;
    const uint64_t value = data.value[i] | uint64_t{data_high.value[i]} << 32;
    const auto less = [&](uint64_t x, uint64_t y) {
      if (!is_signed)
        return x < y;
      return is_64 ? static_cast<int64_t>(x) < static_cast<int64_t>(y)
                   : static_cast<int32_t>(x) < static_cast<int32_t>(y);
    };
    bool known = old.KnownBits(0) == kAllBits && data.IsKnown(i) &&
                 (!is_64 || (old.KnownBits(1) == kAllBits && data_high.IsKnown(i)));
    uint64_t after = 0, float_known = 0;
    if (compares) {
      known = known && fresh.IsKnown(i) && (!is_64 || new_high.IsKnown(i));
      after =
          before == value ? fresh.value[i] | uint64_t{new_high.value[i]} << 32 : before;
    } else {
      switch (operation) {
        case kAdd:
          if (type.is_float()) {
            float_known =
                (old.KnownBits(0) | uint64_t{old.KnownBits(1)} << 32) &
                (data.known[i] | uint64_t{is_64 ? data_high.known[i] : 0} << 32);
            after = AddFloats(type.kind, before, value, &float_known);
            break;
          }
          [[fallthrough]];
        case kCountUp:
          after = before + value;
          break;
        case kMin:
          after = less(value, before) ? value : before;
          break;
        case kMax:
          after = less(before, value) ? value : before;
          break;
        case kInc:
          after = before >= value ? 0 : before + 1;
          break;
        case kDec:
          after = before == 0 || before > value ? value : before - 1;
          break;
        case kAnd:
          after = before & value;
          break;
        case kOr:
          after = before | value;
          break;
        case kXor:
          after = before ^ value;
          break;
        case kExchange:
          after = value;
          known = data.IsKnown(i) && (!is_64 || data_high.IsKnown(i));
          break;
      }
    }
    const uint64_t after_known = type.is_float() ? float_known
                                 : known         ? ~uint64_t{0}
                                                 : 0;
    next.Set(0, static_cast<uint32_t>(after), static_cast<uint32_t>(after_known));
    next.Set(1, static_cast<uint32_t>(after >> 32),
             static_cast<uint32_t>(after_known >> 32));
    old_low.value[i] = old.Word(0);
    old_low.known[i] = old.KnownBits(0);
    old_high.value[i] = old.Word(1);
    old_high.known[i] = old.KnownBits(1);
    if (variant == kTests) {
      old_low.value[i] = before == value ? 1 : 0;
      old_low.known[i] = known ? kAllBits : 0;
      old_high.value[i] = 0;
      old_high.known[i] = kAllBits;
    }
    if (!WriteBytes(SpaceOf(one.opcode), i, address, bytes, next.bytes, next.known)) {
      Stop(Outcome::Kind::kFault, std::string(one.name) + " outside of memory");
      return;
    }
  }
  if (says_done)
    WritePredicate(one, 81, Flags::Of(true));
  if (one.opcode == Opcode::kRed || one.destination == kZeroRegister)
    return;
  WriteResult(one, old_low);
  if (is_64)
    Write(one, one.destination + 1u, old_high);
}

bool Warp::Memory(const Instruction& one) {
  switch (one.opcode) {
    case Opcode::kLdc:
    case Opcode::kUldc:
      LoadConstant(one);
      return true;
    case Opcode::kLdg:
    case Opcode::kLds:
    case Opcode::kLdl:
      Load(one);
      return true;
    case Opcode::kStg:
    case Opcode::kSts:
    case Opcode::kStl:
    case Opcode::kRed:
    case Opcode::kAtomg:
    case Opcode::kAtomgCas:
    case Opcode::kAtoms:
    case Opcode::kAtomsCas:
      break;
    default:
      return false;
  }
  if (maybe_ != 0)
    Unknown(one, "whether it happens");
  else if (one.opcode == Opcode::kStg || one.opcode == Opcode::kSts ||
           one.opcode == Opcode::kStl)
    Store(one);
  else
    Atomic(one);
  return true;
}

}  // namespace vrank::gpu
