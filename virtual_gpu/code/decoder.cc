// The table of operations.

#include "virtual_gpu/code/decoder.h"

#include <array>
#include <cstdio>
#include <iterator>

namespace vrank::gpu {
namespace {

// Modifiers of operands.
enum : uint16_t {
  kNegateA = 1,
  kAbsoluteA = 2,
  kNegateWide = 4,
  kAbsoluteWide = 8,
  kNegateFar = 16,
  kAbsoluteFar = 32,
  kNegateAll = kNegateA | kNegateWide | kNegateFar,
  kFloatAB = kNegateA | kAbsoluteA | kNegateWide | kAbsoluteWide,
  kHalfWide = kNegateWide | kAbsoluteWide,
  kFloatAll = kFloatAB | kNegateFar | kAbsoluteFar,
};

enum class Layout : uint8_t {
  kNone,    // operands, if any, are read by the operation
  kB,       // the wide slot alone
  kThree,   // A, and by the form B and C in the wide and far slots
  kHalves,  // the same, with halves chosen and signs at other places
  kMemory,  // address A; data or uniform registers by the operation
};

enum : uint8_t { kSm80 = 1, kSm90 = 2, kBoth = kSm80 | kSm90 };

// Bits of the upper word: those of [first, last], counted as in the whole word.
constexpr uint32_t Mask(unsigned first, unsigned last) {
  return (uint32_t{2} << (last - 64)) - (uint32_t{1} << (first - 64));
}
constexpr uint32_t kPredicateSource = Mask(87, 90);
constexpr uint32_t kFirstPredicate = Mask(81, 83);
constexpr uint32_t kPredicateOutputs = Mask(81, 86);
constexpr uint32_t kNoFirstPredicate = Mask(81, 83);  // PT
// What the checks look at: the far slot below and the scheduling above are no
// modifiers.
constexpr uint32_t kModifiers = Mask(72, 90);

struct Row {
  uint16_t number;
  Opcode opcode;
  const char* name;
  Layout layout;
  uint16_t operands;    // their modifiers
  uint32_t understood;  // by the operation
  uint32_t fixed;       // what all other modifiers must be
  uint8_t architectures = kBoth;
  bool uniform = false;
};

constexpr uint32_t kRounding = Mask(78, 79);
constexpr uint32_t kGlobal = Mask(72, 80) | Mask(84, 86) | Mask(90, 90);
constexpr uint32_t kShared = Mask(73, 75) | Mask(78, 79);
constexpr uint32_t kSharedAtomic = Mask(73, 76) | Mask(78, 79);
constexpr uint32_t kCompare = Mask(72, 78) | kPredicateOutputs | kPredicateSource;
constexpr uint32_t kAdd3 =
    Mask(74, 74) | Mask(77, 80) | kPredicateOutputs | kPredicateSource;
constexpr uint32_t kShift = Mask(73, 76) | Mask(80, 80);
constexpr uint32_t kMultiply = Mask(73, 74) | kPredicateSource;
constexpr uint32_t kLeaBits = Mask(73, 83) | kPredicateSource;
constexpr uint32_t kLogic = Mask(72, 83) | kPredicateSource;
constexpr uint32_t kFarBranch = Mask(72, 81) | Mask(86, 86) | kPredicateSource;
constexpr uint32_t kFromFloat = Mask(75, 80) | Mask(84, 85);
constexpr uint32_t kToFloat = Mask(74, 76) | kRounding | Mask(84, 85);
constexpr uint32_t kFloatModes = Mask(77, 80);  // .SAT, rounding, .FTZ
constexpr uint32_t kHalfA = Mask(72, 75);
constexpr uint32_t kHalfFar = Mask(81, 84);
constexpr uint32_t kToInteger = Mask(72, 72) | Mask(75, 80) | Mask(84, 85);
constexpr uint32_t kAtomic = kGlobal | Mask(87, 90);

constexpr Row kRows[] = {
    {0x002, Opcode::kMov, "MOV", Layout::kB, 0, 0, Mask(72, 75)},
    {0x003, Opcode::kP2r, "P2R", Layout::kThree, 0, Mask(76, 77), 0},
    {0x004, Opcode::kR2p, "R2P", Layout::kThree, 0, Mask(76, 77), 0},
    {0x005, Opcode::kCs2r, "CS2R", Layout::kNone, 0, Mask(72, 80), 0},
    {0x006, Opcode::kVote, "VOTE", Layout::kNone, 0,
     Mask(72, 73) | kFirstPredicate | kPredicateSource, 0},
    {0x007, Opcode::kSel, "SEL", Layout::kThree, 0, kPredicateSource, 0},
    {0x008, Opcode::kFsel, "FSEL", Layout::kThree, kFloatAB, kPredicateSource, 0},
    {0x009, Opcode::kFmnmx, "FMNMX", Layout::kThree, kFloatAB,
     Mask(80, 81) | kPredicateSource, 0},
    {0x00a, Opcode::kFset, "FSET", Layout::kThree, kFloatAB,
     Mask(74, 80) | kPredicateSource, 0},
    {0x00b, Opcode::kFsetp, "FSETP", Layout::kThree, kFloatAB,
     Mask(74, 80) | kPredicateOutputs | kPredicateSource, 0},
    {0x00c, Opcode::kIsetp, "ISETP", Layout::kThree, 0, kCompare, 0},
    {0x00f, Opcode::kVimnmx3, "VIMNMX3", Layout::kThree, 0,
     Mask(72, 73) | kPredicateSource, 0, kSm90},
    {0x010, Opcode::kIadd3, "IADD3", Layout::kThree, kNegateAll, kAdd3, 0},
    {0x011, Opcode::kLea, "LEA", Layout::kThree, kNegateA | kNegateWide, kLeaBits, 0},
    {0x012, Opcode::kLop3, "LOP3", Layout::kThree, 0, kLogic, 0},
    {0x013, Opcode::kIabs, "IABS", Layout::kB, 0, 0, 0},
    {0x016, Opcode::kPrmt, "PRMT", Layout::kThree, 0, Mask(72, 74), 0},
    {0x017, Opcode::kIntegerMinMax, "IMNMX", Layout::kThree, 0,
     Mask(73, 73) | kPredicateSource, 0, kSm80},
    {0x019, Opcode::kShf, "SHF", Layout::kThree, 0, kShift, 0},
    {0x01a, Opcode::kSgxt, "SGXT", Layout::kThree, 0, Mask(73, 73) | Mask(75, 75), 0},
    {0x01b, Opcode::kBmsk, "BMSK", Layout::kThree, 0, Mask(75, 75), 0},
    {0x01c, Opcode::kPlop3, "PLOP3", Layout::kNone, 0, Mask(72, 90), 0},
    {0x020, Opcode::kFmul, "FMUL", Layout::kThree, kFloatAB, kFloatModes, Mask(86, 86)},
    {0x021, Opcode::kFadd, "FADD", Layout::kThree, kFloatAB, kFloatModes, 0},
    {0x023, Opcode::kFfma, "FFMA", Layout::kThree, kFloatAll, kFloatModes, 0},
    {0x024, Opcode::kImad, "IMAD", Layout::kThree, kNegateAll, kMultiply,
     kNoFirstPredicate},
    {0x025, Opcode::kImadWide, "IMAD.WIDE", Layout::kThree, kNegateFar,
     kMultiply | kFirstPredicate, 0},
    {0x027, Opcode::kImadHi, "IMAD.HI", Layout::kThree, 0, kMultiply | kFirstPredicate,
     0},
    {0x028, Opcode::kDmul, "DMUL", Layout::kThree, kFloatAB, kRounding, 0},
    {0x029, Opcode::kDadd, "DADD", Layout::kThree, kFloatAll, kRounding, 0},
    {0x02a, Opcode::kDsetp, "DSETP", Layout::kThree, kFloatAB,
     Mask(74, 79) | kPredicateOutputs | kPredicateSource, 0},
    {0x02b, Opcode::kDfma, "DFMA", Layout::kThree, kFloatAll, kRounding, 0},
    {0x02d, Opcode::kNothing, "PREEXIT", Layout::kNone, 0, 0, 0},
    {0x02e, Opcode::kNothing, "ACQBULK", Layout::kNone, 0, 0, 0},
    {0x030, Opcode::kHadd2, "HADD2", Layout::kHalves, kHalfWide,
     kHalfA | Mask(77, 78) | Mask(80, 80) | Mask(85, 85), 0},
    {0x031, Opcode::kHfma2, "HFMA2", Layout::kHalves, kHalfWide,
     kHalfA | Mask(77, 77) | Mask(79, 80) | kHalfFar | Mask(85, 85), 0},
    {0x032, Opcode::kHmul2, "HMUL2", Layout::kHalves, kHalfWide,
     kHalfA | Mask(77, 77) | Mask(79, 80) | Mask(85, 85), 0},
    {0x033, Opcode::kHset2, "HSET2", Layout::kHalves, kHalfWide,
     kHalfA | Mask(76, 80) | kPredicateSource, 0},
    {0x034, Opcode::kHsetp2, "HSETP2", Layout::kHalves, kHalfWide,
     kHalfA | Mask(76, 80) | kPredicateOutputs | kPredicateSource, 0},
    {0x035, Opcode::kHfma2, "HFMA2.MMA", Layout::kHalves, kHalfWide,
     kHalfA | Mask(77, 77) | Mask(79, 80) | kHalfFar | Mask(85, 85), 0},
    {0x036, Opcode::kViadd, "VIADD", Layout::kThree, kNegateA | kNegateWide, 0, 0,
     kSm90},
    {0x03e, Opcode::kF2fp, "F2FP", Layout::kThree, 0, Mask(73, 80) | Mask(87, 90), 0},
    {0x040, Opcode::kHmnmx2, "HMNMX2", Layout::kHalves, kHalfWide,
     kHalfA | Mask(80, 81) | Mask(85, 85) | kPredicateSource, 0},
    {0x045, Opcode::kI2f, "I2FP", Layout::kB, 0, kToFloat, 0, kSm90},
    {0x046, Opcode::kViaddmnmx, "VIADDMNMX", Layout::kThree, kNegateWide | kNegateFar,
     Mask(72, 72) | Mask(76, 76) | kPredicateSource, 0, kSm90},
    {0x048, Opcode::kVimnmx, "VIMNMX", Layout::kThree, 0,
     Mask(72, 73) | Mask(76, 76) | kPredicateSource, Mask(81, 86), kSm90},
    {0x082, Opcode::kMov, "UMOV", Layout::kB, 0, 0, 0, kBoth, true},
    {0x086, Opcode::kVote, "VOTEU", Layout::kNone, 0,
     Mask(72, 73) | kFirstPredicate | kPredicateSource, 0},
    {0x087, Opcode::kSel, "USEL", Layout::kThree, 0, kPredicateSource, 0, kBoth, true},
    {0x08c, Opcode::kIsetp, "UISETP", Layout::kThree, 0, kCompare, 0, kBoth, true},
    {0x090, Opcode::kIadd3, "UIADD3", Layout::kThree, kNegateAll, kAdd3, 0, kBoth,
     true},
    {0x091, Opcode::kLea, "ULEA", Layout::kThree, kNegateA | kNegateWide, kLeaBits, 0,
     kBoth, true},
    {0x092, Opcode::kLop3, "ULOP3", Layout::kThree, 0, kLogic, 0, kBoth, true},
    {0x096, Opcode::kPrmt, "UPRMT", Layout::kThree, 0, Mask(72, 74), 0, kBoth, true},
    {0x099, Opcode::kShf, "USHF", Layout::kThree, 0, kShift, 0, kBoth, true},
    {0x09a, Opcode::kSgxt, "USGXT", Layout::kThree, 0, Mask(73, 73) | Mask(75, 75), 0,
     kBoth, true},
    {0x09b, Opcode::kBmsk, "UBMSK", Layout::kThree, 0, Mask(75, 75), 0, kBoth, true},
    {0x09c, Opcode::kPlop3, "UPLOP3", Layout::kNone, 0, Mask(72, 90), 0, kBoth, true},
    {0x0a4, Opcode::kImad, "UIMAD", Layout::kThree, kNegateAll, kMultiply,
     kNoFirstPredicate, kBoth, true},
    {0x0a5, Opcode::kImadWide, "UIMAD.WIDE", Layout::kThree, kNegateFar,
     kMultiply | kFirstPredicate, 0, kBoth, true},
    {0x0b9, Opcode::kUldc, "ULDC", Layout::kNone, 0, Mask(73, 75), 0, kBoth, true},
    {0x0bb, Opcode::kUldc, "ULDC", Layout::kNone, 0, Mask(73, 75), 0, kBoth, true},
    {0x0bd, Opcode::kFlo, "UFLO", Layout::kB, kNegateWide, Mask(73, 74),
     kNoFirstPredicate, kBoth, true},
    {0x0be, Opcode::kBrev, "UBREV", Layout::kB, 0, 0, 0, kBoth, true},
    {0x0bf, Opcode::kPopc, "UPOPC", Layout::kB, kNegateWide, 0, 0, kBoth, true},
    {0x0ca, Opcode::kR2ur, "R2UR", Layout::kThree, 0, kFirstPredicate, 0},
    {0x100, Opcode::kFlo, "FLO", Layout::kB, kNegateWide, Mask(73, 74),
     kNoFirstPredicate},
    {0x101, Opcode::kBrev, "BREV", Layout::kB, 0, 0, 0},
    {0x102, Opcode::kFchk, "FCHK", Layout::kThree, kFloatAB, kFirstPredicate, 0},
    {0x104, Opcode::kF2f, "F2F", Layout::kB, kNegateWide | kAbsoluteWide, kFromFloat,
     0},
    {0x105, Opcode::kF2i, "F2I", Layout::kB, kNegateWide | kAbsoluteWide, kToInteger,
     0},
    {0x106, Opcode::kI2f, "I2F", Layout::kB, 0, kToFloat | Mask(77, 77), 0},
    {0x107, Opcode::kFrnd, "FRND", Layout::kB, kNegateWide | kAbsoluteWide, kFromFloat,
     0},
    {0x108, Opcode::kMufu, "MUFU", Layout::kB, kNegateWide | kAbsoluteWide,
     Mask(74, 79), 0},
    {0x109, Opcode::kPopc, "POPC", Layout::kB, kNegateWide, 0, 0},
    {0x110, Opcode::kF2f, "F2F", Layout::kB, kNegateWide | kAbsoluteWide, kFromFloat,
     0},
    {0x111, Opcode::kF2i, "F2I", Layout::kB, kNegateWide | kAbsoluteWide, kToInteger,
     0},
    {0x112, Opcode::kI2f, "I2F", Layout::kB, 0, kToFloat | Mask(77, 77), 0},
    {0x113, Opcode::kFrnd, "FRND", Layout::kB, kNegateWide | kAbsoluteWide, kFromFloat,
     0},
    {0x118, Opcode::kNothing, "NOP", Layout::kNone, 0, kModifiers, 0},
    {0x119, Opcode::kS2r, "S2R", Layout::kNone, 0, Mask(72, 79), 0},
    {0x11a, Opcode::kNothing, "DEPBAR", Layout::kNone, 0, kModifiers, 0},
    {0x11b, Opcode::kNothing, "ENDCOLLECTIVE", Layout::kNone, 0, kModifiers, 0},
    {0x11c, Opcode::kB2r, "B2R", Layout::kNone, 0, Mask(78, 79) | kFirstPredicate, 0},
    {0x11d, Opcode::kBar, "BAR", Layout::kNone, 0,
     Mask(74, 75) | Mask(77, 80) | kPredicateSource, 0},
    {0x141, Opcode::kBsync, "BSYNC", Layout::kNone, 0, kPredicateSource, 0},
    {0x142, Opcode::kBreak, "BREAK", Layout::kNone, 0, kPredicateSource, 0},
    {0x143, Opcode::kCallAbs, "CALL.ABS", Layout::kNone, 0, kModifiers, 0},
    {0x144, Opcode::kCallRel, "CALL.REL", Layout::kNone, 0, kFarBranch, 0},
    {0x145, Opcode::kBssy, "BSSY", Layout::kNone, 0, kPredicateSource, 0},
    {0x146, Opcode::kNothing, "YIELD", Layout::kNone, 0, kModifiers, 0},
    {0x147, Opcode::kBra, "BRA", Layout::kNone, 0, Mask(72, 81) | kPredicateSource, 0},
    {0x148, Opcode::kWarpsync, "WARPSYNC", Layout::kNone, 0, kModifiers, 0},
    {0x149, Opcode::kBrx, "BRX", Layout::kNone, 0, kFarBranch, 0},
    {0x14d, Opcode::kExit, "EXIT", Layout::kNone, 0, kPredicateSource, 0},
    {0x14e, Opcode::kLepc, "LEPC", Layout::kNone, 0, kModifiers, 0},
    {0x150, Opcode::kRet, "RET", Layout::kNone, 0, kFarBranch, 0},
    {0x155, Opcode::kBmov, "BMOV", Layout::kNone, 0, Mask(84, 84), 0},
    {0x156, Opcode::kBmovBack, "BMOV", Layout::kNone, 0, Mask(84, 84), 0},
    {0x15d, Opcode::kNothing, "NANOSLEEP", Layout::kNone, 0, kModifiers, 0},
    {0x180, Opcode::kLdg, "LD", Layout::kMemory, 0, kGlobal | kFirstPredicate, 0},
    {0x181, Opcode::kLdg, "LDG", Layout::kMemory, 0, kGlobal, kNoFirstPredicate},
    {0x182, Opcode::kLdc, "LDC", Layout::kMemory, 0, Mask(73, 75), 0},
    {0x183, Opcode::kLdl, "LDL", Layout::kMemory, 0, Mask(73, 75) | Mask(84, 86), 0},
    {0x184, Opcode::kLds, "LDS", Layout::kMemory, 0, kShared, 0},
    {0x185, Opcode::kStg, "ST", Layout::kMemory, 0, kGlobal, 0},
    {0x186, Opcode::kStg, "STG", Layout::kMemory, 0, kGlobal, 0},
    {0x187, Opcode::kStl, "STL", Layout::kMemory, 0, Mask(73, 75) | Mask(84, 86), 0},
    {0x188, Opcode::kSts, "STS", Layout::kMemory, 0, kShared, 0},
    {0x189, Opcode::kShfl, "SHFL", Layout::kNone, 0, kFirstPredicate, 0},
    {0x18a, Opcode::kAtomg, "ATOM", Layout::kMemory, 0, kAtomic | kFirstPredicate, 0},
    {0x18b, Opcode::kAtomgCas, "ATOM.CAS", Layout::kMemory, 0, kGlobal,
     kNoFirstPredicate},
    {0x18c, Opcode::kAtoms, "ATOMS", Layout::kMemory, 0, kSharedAtomic | Mask(87, 90),
     0},
    {0x18d, Opcode::kAtomsCas, "ATOMS.CAS", Layout::kMemory, 0,
     kSharedAtomic | Mask(87, 88), 0},
    {0x18e, Opcode::kRed, "RED", Layout::kMemory, 0, kAtomic, 0},
    {0x18f, Opcode::kNothing, "CCTL", Layout::kNone, 0, kModifiers, 0},
    {0x192, Opcode::kNothing, "MEMBAR", Layout::kNone, 0, kModifiers, 0},
    {0x1a1, Opcode::kMatch, "MATCH", Layout::kNone, 0,
     Mask(73, 73) | Mask(79, 79) | kFirstPredicate, 0},
    {0x1a2, Opcode::kAtomg, "ATOM", Layout::kMemory, 0, kAtomic | kFirstPredicate, 0,
     kSm90},
    {0x1a3, Opcode::kAtomg, "ATOMG", Layout::kMemory, 0, kAtomic, kNoFirstPredicate,
     kSm90},
    {0x1a6, Opcode::kRed, "REDG", Layout::kMemory, 0, kAtomic, 0, kSm90},
    {0x1a8, Opcode::kAtomg, "ATOMG", Layout::kMemory, 0, kAtomic, kNoFirstPredicate},
    {0x1a9, Opcode::kAtomgCas, "ATOMG.CAS", Layout::kMemory, 0, kGlobal,
     kNoFirstPredicate},
    {0x1ab, Opcode::kNothing, "ERRBAR", Layout::kNone, 0, kModifiers, 0},
    {0x1c2, Opcode::kR2ur, "R2UR", Layout::kThree, 0, kFirstPredicate, 0},
    {0x1c3, Opcode::kS2r, "S2UR", Layout::kNone, 0, Mask(72, 79), 0, kBoth, true},
    {0x1c4, Opcode::kRedux, "REDUX", Layout::kNone, 0, Mask(73, 73) | Mask(78, 80), 0},
};

constexpr uint32_t kNumbers = 512;

struct Names {
  std::array<std::array<char, 24>, kNumbers> text;
  Names() {
    for (uint32_t i = 0; i < kNumbers; ++i)
      std::snprintf(text[i].data(), text[i].size(), "operation 0x%03x", i);
  }
};

const char* NameOfNumber(uint32_t number) {
  static const Names names;
  return names.text[number].data();
}

using Table = std::array<const Row*, kNumbers>;

Table MakeTable(uint8_t architecture) {
  Table table{};
  for (const Row& row : kRows)
    if ((row.architectures & architecture) != 0)
      table[row.number] = &row;
  return table;
}

const Row* Find(uint32_t number, uint32_t architecture) {
  static const Table sm80 = MakeTable(kSm80), sm90 = MakeTable(kSm90);
  return (architecture >= 90 ? sm90 : sm80)[number];
}

Operand Register(const Instruction& one, unsigned first) {
  const auto index = static_cast<uint8_t>(one.Bits(first, 8));
  // The upper bits of a uniform register's slot may say something else.
  if (one.uniform)
    return {Operand::Kind::kUniform, static_cast<uint8_t>(index & kZeroUniform)};
  return {Operand::Kind::kRegister, index};
}

// The wide slot, by the form. False where it has what is not understood.
bool ReadWide(const Instruction& one, const Row& row, Operand* operand) {
  switch (one.form()) {
    case 1:
      *operand = Register(one, 32);
      break;
    case 2:
    case 4:
      *operand = {Operand::Kind::kImmediate, 0, false, false,
                  static_cast<uint32_t>(one.low >> 32)};
      return true;
    case 3:
    case 5:
      // Bit 91: a bank by handle.
      if (one.Bit(91) || one.uniform)
        return false;
      *operand = {Operand::Kind::kConstant, static_cast<uint8_t>(one.Bits(54, 5)),
                  false, false, one.Bits(38, 16)};
      break;
    case 6:
    case 7:
      *operand = {Operand::Kind::kUniform, static_cast<uint8_t>(one.Bits(32, 6))};
      break;
    default:
      return false;
  }
  operand->negate = one.Bit(63);
  operand->absolute = one.Bit(62);
  return (!operand->negate || (row.operands & kNegateWide) != 0) &&
         (!operand->absolute || (row.operands & kAbsoluteWide) != 0);
}

bool ReadThree(Instruction* one, const Row& row) {
  one->a = Register(*one, 24);
  Operand far = Register(*one, 64), wide;
  if (!ReadWide(*one, row, &wide))
    return false;
  one->a.negate = (row.operands & kNegateA) != 0 && one->Bit(72);
  one->a.absolute = (row.operands & kAbsoluteA) != 0 && one->Bit(73);
  far.negate = (row.operands & kNegateFar) != 0 && one->Bit(75);
  far.absolute = (row.operands & kAbsoluteFar) != 0 && one->Bit(74);
  one->b = one->WideIsC() ? far : wide;
  one->c = one->WideIsC() ? wide : far;
  return true;
}

bool ReadHalves(Instruction* one, const Row& row) {
  one->a = Register(*one, 24);
  one->a.negate = one->Bit(72);
  one->a.absolute = one->Bit(73);
  one->a.halves = static_cast<uint8_t>(one->Bits(74, 2));
  Operand far = Register(*one, 64), wide;
  if (!ReadWide(*one, row, &wide))
    return false;
  if (wide.kind != Operand::Kind::kImmediate) {
    wide.negate = one->Bit(63);
    wide.absolute = one->Bit(62);
    wide.halves = static_cast<uint8_t>(one->Bits(60, 2));
  }
  far.negate = one->Bit(84);
  far.absolute = one->Bit(83);
  far.halves = static_cast<uint8_t>(one->Bits(81, 2));
  one->b = one->WideIsC() ? far : wide;
  one->c = one->WideIsC() ? wide : far;
  return true;
}

uint32_t BitsOfOperands(uint16_t operands) {
  uint32_t bits = 0;
  bits |= (operands & kNegateA) != 0 ? Mask(72, 72) : 0;
  bits |= (operands & kAbsoluteA) != 0 ? Mask(73, 73) : 0;
  bits |= (operands & kNegateFar) != 0 ? Mask(75, 75) : 0;
  bits |= (operands & kAbsoluteFar) != 0 ? Mask(74, 74) : 0;
  return bits;
}

}  // namespace

bool Decodes(uint32_t architecture) {
  return architecture == 80 || architecture == 90;
}

Instruction Decode(uint64_t low, uint64_t high, uint32_t architecture) {
  Instruction one;
  one.low = low;
  one.high = high;
  one.guard = static_cast<uint8_t>(one.Bits(12, 3));
  one.guard_not = one.Bit(15);
  one.destination = static_cast<uint8_t>(one.Bits(16, 8));
  const Row* const row = Find(one.number(), architecture);
  if (row == nullptr) {
    one.name = NameOfNumber(one.number());
    return one;
  }
  one.name = row->name;
  one.uniform = row->uniform;
  const uint32_t other =
      kModifiers & ~(row->understood | BitsOfOperands(row->operands));
  const auto modifiers = static_cast<uint32_t>(high);
  if ((modifiers & other) != (row->fixed & other))
    return one;
  bool understood = true;
  if (row->layout == Layout::kThree)
    understood = ReadThree(&one, *row);
  else if (row->layout == Layout::kHalves)
    understood = ReadHalves(&one, *row);
  else if (row->layout == Layout::kB)
    understood = ReadWide(one, *row, &one.b);
  else if (row->layout == Layout::kMemory)
    one.a = {Operand::Kind::kRegister, static_cast<uint8_t>(one.Bits(24, 8))};
  if (understood)
    one.opcode = row->opcode;
  return one;
}

int64_t BranchDistance(const Instruction& branch, uint32_t architecture) {
  if (architecture < 90) {
    const uint64_t bits = branch.low >> 32 | (branch.high & 0x3ffff) << 32;
    return static_cast<int64_t>((bits & ~uint64_t{3}) << 14) >> 14;
  }
  // Words of 4 bytes: 8 bits, and 48 above them.
  const uint64_t above = branch.low >> 34 | (branch.high & 0x3ffff) << 30;
  const uint64_t words = (branch.low >> 16 & 0xff) | above << 8;
  return static_cast<int64_t>(words << 8) >> 6;
}

}  // namespace vrank::gpu
