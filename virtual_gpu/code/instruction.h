// One machine instruction, decoded as far as all operations share a layout.
//
// What only one operation has (a comparison, a shift's type) stays in the word, whose
// fields the operation reads by Bits. docs/decisions/0031-kernels-that-run.md has the
// sources.
//
// Thread rule: plain data.

#ifndef VRANK_VIRTUAL_GPU_CODE_INSTRUCTION_H_
#define VRANK_VIRTUAL_GPU_CODE_INSTRUCTION_H_

#include <cstdint>

namespace vrank::gpu {

// Operations that are interpreted. kOther: the rest.
enum class Opcode : uint8_t {
  kOther,
  // Moves and selections
  kMov,
  kSel,
  kPrmt,
  kP2r,
  kR2p,
  kCs2r,
  kS2r,
  kLepc,
  kR2ur,
  // Integers
  kIsetp,
  kIadd3,
  kLea,
  kLop3,
  kIabs,
  kIntegerMinMax,
  kShf,
  kSgxt,
  kBmsk,
  kPlop3,
  kImad,
  kImadWide,
  kImadHi,
  kViadd,
  kVimnmx,
  kVimnmx3,
  kViaddmnmx,
  kFlo,
  kBrev,
  kPopc,
  // Single precision
  kFsel,
  kFmnmx,
  kFset,
  kFsetp,
  kFmul,
  kFadd,
  kFfma,
  kFchk,
  kMufu,
  // Double precision
  kDadd,
  kDmul,
  kDfma,
  kDsetp,
  // Half precision and bfloat16
  kHadd2,
  kHmul2,
  kHfma2,
  kHmnmx2,
  kHset2,
  kHsetp2,
  // Conversions
  kF2f,
  kF2fp,
  kF2i,
  kFrnd,
  kI2f,
  // Constants and memory
  kLdc,
  kUldc,
  kLdg,
  kStg,
  kLds,
  kSts,
  kLdl,
  kStl,
  kAtomg,
  kAtomgCas,
  kRed,
  kAtoms,
  kAtomsCas,
  // Lanes of a warp
  kShfl,
  kVote,
  kMatch,
  kRedux,
  // Control
  kBssy,
  kBsync,
  kBreak,
  kBra,
  kBrx,
  kCallRel,
  kCallAbs,
  kRet,
  kExit,
  kBmov,
  kBmovBack,
  kWarpsync,
  kBar,
  kB2r,
  kNothing,  // no effect where blocks run one after another
};

struct Operand {
  enum class Kind : uint8_t { kNone, kRegister, kUniform, kImmediate, kConstant };
  Kind kind = Kind::kNone;
  uint8_t index = 0;  // register, uniform register or bank
  bool negate = false;
  bool absolute = false;
  uint32_t value = 0;  // the immediate, or the offset in the bank
  // Of operations on halves: how the two come out of the register (warp_half.cc).
  uint8_t halves = 0;
};

struct Instruction {
  Opcode opcode = Opcode::kOther;
  bool uniform = false;  // of the uniform datapath: registers and predicates
  uint8_t guard = 7;
  bool guard_not = false;
  uint8_t destination = 0;
  Operand a, b, c;
  const char* name = "";  // of the operation
  uint64_t low = 0, high = 0;

  // Bits [first, first + count) of the 128; they do not cross the middle.
  uint32_t Bits(unsigned first, unsigned count) const {
    const uint64_t word = first < 64 ? low >> first : high >> (first - 64);
    return static_cast<uint32_t>(word & ((uint64_t{1} << count) - 1));
  }
  bool Bit(unsigned at) const { return Bits(at, 1) != 0; }
  uint32_t number() const { return Bits(0, 9); }
  uint32_t form() const { return Bits(9, 3); }
  // What the wide slot has: B, or C.
  bool WideIsC() const { return form() == 2 || form() == 3 || form() == 7; }
  const Operand& Wide() const { return WideIsC() ? c : b; }
};

inline constexpr uint64_t kInstructionBytes = 16;
inline constexpr uint8_t kZeroRegister = 255;
inline constexpr uint8_t kZeroUniform = 63;
inline constexpr uint8_t kTruePredicate = 7;

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CODE_INSTRUCTION_H_
