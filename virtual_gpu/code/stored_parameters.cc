#include "virtual_gpu/code/stored_parameters.h"

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "virtual_gpu/code/decoder.h"

namespace vrank::gpu {
namespace {

// What a value may be made of, in any of the ways to reach it: a bit for each parameter
// word, and three more. Several ways meet by OR.
using Sources = uint64_t;
constexpr unsigned kMostWords = 60;
// A 1, or a -1, of the code: a product with it may be a sum of pointers (UMOV UR7, 0x1,
// then UIMAD.WIDE).
constexpr Sources kOne = Sources{1} << 60;
// In one of the ways no word takes part ...
constexpr Sources kFree = Sources{1} << 61;
// ... but a value of global memory, or a parameter at a computed place: it may be a
// pointer.
constexpr Sources kLoaded = Sources{1} << 62;
constexpr Sources kFromMemory = kFree | kLoaded;
constexpr Sources kNumber = kFree;  // a constant, a thread's index

// What an operation makes of operands.
Sources Together(Sources a, Sources b) {
  const Sources all = a | b;
  Sources result = all & ~(kFree | kLoaded);
  if ((a & b & kFree) != 0)
    result |= all & (kFree | kLoaded);
  return result;
}

constexpr uint32_t kWordBytes = 8;
// Kernels of products and of attention, which nobody computes: 1 MiB of code.
constexpr uint64_t kMostInstructions = 65'536;

// Numbers of operations that the interpreter does not run, but whose data flow is
// known.
enum : uint32_t {
  kImma = 0x037,
  kMovm = 0x03a,
  kLdsm = 0x03b,
  kHmma = 0x03c,
  kBmma = 0x03d,
  kDmma = 0x03f,
  kStsm = 0x044,
  kVoteUniform = 0x086,
  kLdgsts = 0x1ae,
  kLdgdepbar = 0x1af,
};

// The condition of an instruction: the number of the predicate, of the uniform ones
// from 8 on, and from 16 on where it has to be false.
constexpr uint8_t kUnconditional = kTruePredicate;
constexpr uint8_t kUniformPredicates = 8, kNegated = 16;
uint8_t ConditionOf(const Instruction& one) {
  const bool always = one.guard == kTruePredicate && !one.guard_not;
  return always
             ? kUnconditional
             : static_cast<uint8_t>(one.guard + (one.uniform ? kUniformPredicates : 0) +
                                    (one.guard_not ? kNegated : 0));
}

// A register, and what was written under a condition that still is what it was: reads
// under the same condition get that.
struct Cell {
  Sources any = 0, then = 0;
  uint8_t condition = kUnconditional;

  Sources Under(uint8_t wanted) const {
    return condition != kUnconditional && condition == wanted ? then : any;
  }
  void Write(Sources value, uint8_t under) {
    if (under == kUnconditional) {
      *this = {value, 0, kUnconditional};
      return;
    }
    *this = {any | value, value, under};
  }
  // What may be written, or not.
  void Add(Sources value) { *this = {any | value, 0, kUnconditional}; }
  bool Join(const Cell& other) {
    const Cell before = *this;
    any |= other.any;
    if (condition == other.condition)
      then |= other.then;
    else
      condition = kUnconditional;
    return any != before.any || condition != before.condition ||
           (condition != kUnconditional && then != before.then);
  }
};

struct State {
  std::array<Cell, 256> registers;
  std::array<Cell, 64> uniforms;

  // Adds what the other has. Whether that changed anything.
  bool Join(const State& other) {
    bool changed = false;
    for (size_t i = 0; i < registers.size(); ++i)
      changed |= registers[i].Join(other.registers[i]);
    for (size_t i = 0; i < uniforms.size(); ++i)
      changed |= uniforms[i].Join(other.uniforms[i]);
    return changed;
  }

  // The predicate has a new value.
  void Forget(uint8_t predicate) {
    const auto forget = [predicate](Cell& cell) {
      if (cell.condition != kUnconditional && cell.condition % kNegated == predicate)
        cell.condition = kUnconditional;
    };
    std::for_each(registers.begin(), registers.end(), forget);
    std::for_each(uniforms.begin(), uniforms.end(), forget);
  }
};

bool WritesUniform(const Instruction& one) {
  return one.uniform || one.opcode == Opcode::kR2ur || one.opcode == Opcode::kRedux ||
         one.number() == kVoteUniform;
}

constexpr uint32_t kRegisterBytes = 4;

// Bytes that a load or store moves; 16 where that is not said.
uint32_t BytesMoved(const Instruction& one) {
  constexpr std::array<uint32_t, 8> kBytes = {1, 1, 2, 2, 4, 8, 16, 16};
  return kBytes[one.Bits(73, 3)];
}
unsigned RegistersMoved(const Instruction& one) {
  return std::max(1u, BytesMoved(one) / kRegisterBytes);
}

// A condition beside the guard, of branches and EXIT: always true.
bool SecondIsTrue(const Instruction& one) {
  return one.Bits(87, 3) == kTruePredicate && !one.Bit(90);
}
bool GuardIsTrue(const Instruction& one) {
  return one.guard == kTruePredicate && !one.guard_not;
}
bool NeverRuns(const Instruction& one) {
  return one.guard == kTruePredicate && one.guard_not;
}

bool IsJump(Opcode opcode) {
  return opcode == Opcode::kBra || opcode == Opcode::kBrx ||
         opcode == Opcode::kCallRel || opcode == Opcode::kRet;
}

class ParameterFlow {
 public:
  ParameterFlow(const MachineCode& code, const std::vector<uint32_t>& pointers)
      : code_(code), pointers_(pointers) {}

  StoredParameters Run() {
    if (!code_.calls.empty())
      return Unknown("it calls " + code_.calls);
    if (pointers_.size() > kMostWords)
      return Unknown("too many parameters are addresses");
    if (code_.bytes() / kInstructionBytes > kMostInstructions)
      return Unknown("its code is too long");
    FindLeaders();
    State entry;
    for (Cell& cell : entry.registers)
      cell.any = kNumber;
    for (Cell& cell : entry.uniforms)
      cell.any = kNumber;
    states_[0] = entry;
    pending_.insert(0);
    while (!pending_.empty() && why_.empty()) {
      const uint64_t block = *pending_.begin();
      pending_.erase(pending_.begin());
      RunBlock(block, states_.at(block));
      if (std::exchange(spilled_, false))
        for (const auto& [leader, state] : states_)
          pending_.insert(leader);
    }
    return why_.empty() ? Found() : Unknown(why_);
  }

 private:
  static StoredParameters Unknown(std::string why) {
    return {false, {}, std::move(why)};
  }

  // Where control may come from elsewhere than from the instruction before.
  void FindLeaders() {
    for (uint64_t pc = 0; pc < code_.bytes(); pc += kInstructionBytes) {
      const Instruction one = code_.Unloaded(pc);
      if (one.opcode == Opcode::kBra || one.opcode == Opcode::kCallRel)
        leaders_.insert(Target(one, pc));
      if (one.opcode == Opcode::kCallRel || one.opcode == Opcode::kCallAbs)
        leaders_.insert(pc + kInstructionBytes);
    }
  }

  uint64_t Target(const Instruction& branch, uint64_t pc) const {
    return pc + kInstructionBytes +
           static_cast<uint64_t>(BranchDistance(branch, code_.architecture()));
  }

  void Enter(uint64_t pc, const State& state) {
    if (pc >= code_.bytes()) {
      why_ = "it leaves its code";
      return;
    }
    const auto [known, is_new] = states_.try_emplace(pc);
    if (known->second.Join(state) || is_new)
      pending_.insert(pc);
  }

  void RunBlock(uint64_t pc, State state) {
    for (bool first = true; why_.empty(); first = false) {
      if (!first && leaders_.contains(pc)) {
        Enter(pc, state);
        return;
      }
      if (pc >= code_.bytes()) {
        why_ = "it leaves its code";
        return;
      }
      const Instruction one = code_.Unloaded(pc);
      if (!NeverRuns(one) && !Step(one, pc, &state))
        return;
      pc += kInstructionBytes;
    }
  }

  // False: the next instruction is not reached from here.
  bool Step(const Instruction& one, uint64_t pc, State* state) {
    condition_ = ConditionOf(one);
    // The address of a variable, of a text or of code.
    if (code_.IsRelocated(pc) && one.opcode != Opcode::kCallAbs) {
      if (IsJump(one.opcode)) {
        why_ = "a jump that a loader completes";
        return false;
      }
      Write(one, 1, kFromMemory, state);
      return true;
    }
    const bool goes_on = StepUnder(one, pc, state);
    ForgetPredicates(one, state);
    return goes_on;
  }

  // Predicates that an operation writes: named by bits 81 to 83, and of some a second
  // one by 84 to 86.
  static void ForgetPredicates(const Instruction& one, State* state) {
    bool first = false, second = false;
    switch (one.opcode) {
      case Opcode::kIsetp:
      case Opcode::kFsetp:
      case Opcode::kDsetp:
      case Opcode::kHsetp2:
      case Opcode::kPlop3:
      case Opcode::kIadd3:
        first = second = true;
        break;
      case Opcode::kLea:
      case Opcode::kLop3:
      case Opcode::kImad:
      case Opcode::kImadWide:
      case Opcode::kImadHi:
      case Opcode::kShfl:
      case Opcode::kVote:
      case Opcode::kMatch:
      case Opcode::kFchk:
      case Opcode::kR2ur:
      case Opcode::kB2r:
      case Opcode::kLdg:
      case Opcode::kAtomg:
      case Opcode::kAtomgCas:
      case Opcode::kAtoms:
      case Opcode::kAtomsCas:
        first = true;
        break;
      case Opcode::kR2p:
        for (uint8_t predicate = 0; predicate < kTruePredicate; ++predicate)
          state->Forget(predicate);
        return;
      default:
        return;
    }
    if (first)
      Forget(one.Bits(81, 3), state);
    if (second)
      Forget(one.Bits(84, 3), state);
  }

  // Of both files: R2UR has a uniform result beside a predicate that is none.
  static void Forget(uint32_t predicate, State* state) {
    if (predicate == kTruePredicate)
      return;
    state->Forget(static_cast<uint8_t>(predicate));
    state->Forget(static_cast<uint8_t>(predicate + kUniformPredicates));
  }

  bool StepUnder(const Instruction& one, uint64_t pc, State* state) {
    switch (one.opcode) {
      case Opcode::kExit:
        return !GuardIsTrue(one) || !SecondIsTrue(one);
      case Opcode::kBra:
        Enter(Target(one, pc), *state);
        return !GuardIsTrue(one) || !SecondIsTrue(one) || one.Bits(32, 2) != 0;
      case Opcode::kCallRel:
        Enter(Target(one, pc), *state);
        returns_.insert(pc + kInstructionBytes);
        if (returned_.has_value())
          Enter(pc + kInstructionBytes, *returned_);
        return !GuardIsTrue(one);
      case Opcode::kRet:
        // To behind any call.
        if (!returned_.has_value())
          returned_.emplace();
        if (returned_->Join(*state) || !entered_) {
          entered_ = true;
          for (const uint64_t to : returns_)
            Enter(to, *returned_);
        }
        return !GuardIsTrue(one);
      case Opcode::kCallAbs:
        // An assertion, printf or the heap: the result is in R4 and R5.
        state->registers[4].Add(kFromMemory);
        state->registers[5].Add(kFromMemory);
        return true;
      case Opcode::kBrx:
        why_ = "a computed jump";
        return false;
      case Opcode::kOther:
        return StepUninterpreted(one, state);
      default:
        Compute(one, state);
        return true;
    }
  }

  bool StepUninterpreted(const Instruction& one, State* state) {
    const auto from = [&](unsigned first, unsigned count) {
      return AnyOf(state->registers, one.Bits(first, 8), count);
    };
    constexpr unsigned kTile = 4;  // the most registers of an operand
    switch (one.number()) {
      case kImma:
      case kHmma:
      case kBmma:
      case kDmma:
        Write(one, kTile, from(24, kTile) | from(32, kTile) | from(64, kTile), state);
        return true;
      case kMovm:
        Write(one, 1, from(24, 1), state);
        return true;
      case kLdsm:
        Write(one, kTile, shared_, state);
        return true;
      case kStsm:
        Spill(&shared_, from(32, kTile));
        return true;
      case kLdgsts:
        Spill(&shared_, kFromMemory);
        return true;
      case kLdgdepbar:
        return true;
      default:
        why_ = std::string("not interpreted: ") + one.name;
        return false;
    }
  }

  // --- What operations make of their operands

  void Compute(const Instruction& one, State* state) {
    switch (one.opcode) {
      case Opcode::kIsetp:
      case Opcode::kFsetp:
      case Opcode::kDsetp:
      case Opcode::kHsetp2:
      case Opcode::kFchk:
      case Opcode::kPlop3:
      case Opcode::kR2p:
      case Opcode::kBssy:
      case Opcode::kBsync:
      case Opcode::kBreak:
      case Opcode::kBmovBack:
      case Opcode::kWarpsync:
      case Opcode::kBar:
      case Opcode::kNothing:
        return;  // no register
      case Opcode::kLdg:
        // Of any space, where the address says which.
        Load(one, kFromMemory | local_ | shared_, state);
        return;
      case Opcode::kLds:
        Load(one, shared_, state);
        return;
      case Opcode::kLdl:
        Load(one, local_, state);
        return;
      case Opcode::kLdc:
      case Opcode::kUldc:
        LoadConstant(one, state);
        return;
      case Opcode::kStg:
      case Opcode::kRed:
        Store(one, *state);
        return;
      case Opcode::kAtomg:
      case Opcode::kAtomgCas:
        Store(one, *state);
        Write(one, 2, kFromMemory, state);
        return;
      case Opcode::kSts:
        Spill(&shared_, Stored(one, *state));
        return;
      case Opcode::kAtoms:
      case Opcode::kAtomsCas:
        Spill(&shared_, AnyOf(state->registers, one.Bits(32, 8), 2) |
                            AnyOf(state->registers, one.Bits(64, 8), 2));
        Write(one, 2, shared_, state);
        return;
      case Opcode::kStl:
        Spill(&local_, Stored(one, *state));
        return;
      case Opcode::kShfl:
      case Opcode::kRedux:
        Write(one, 1, AnyOf(state->registers, one.Bits(24, 8), 1), state);
        return;
      case Opcode::kS2r:
      case Opcode::kB2r:
      case Opcode::kVote:
      case Opcode::kMatch:
      case Opcode::kBmov:
        Write(one, 1, kNumber, state);
        return;
      case Opcode::kCs2r:
        Write(one, one.Bit(80) ? 2 : 1, kNumber, state, kAllOfThem);
        return;
      case Opcode::kLepc:
        Write(one, 2, kNumber, state, kAllOfThem);
        return;
      default:
        Arithmetic(one, state);
        return;
    }
  }

  // Whether the result is one of the operands. Others are zero in a move by IMAD.
  static bool Moves(const Instruction& one) {
    const auto is_zero = [](const Operand& operand) {
      return operand.kind == Operand::Kind::kRegister && operand.index == kZeroRegister;
    };
    return one.opcode == Opcode::kMov || one.opcode == Opcode::kSel ||
           one.opcode == Opcode::kR2ur ||
           (Multiplies(one) && is_zero(one.a) && is_zero(one.b));
  }
  static bool Multiplies(const Instruction& one) {
    return one.opcode == Opcode::kImad || one.opcode == Opcode::kImadWide ||
           one.opcode == Opcode::kImadHi;
  }

  void Arithmetic(const Instruction& one, State* state) {
    // Which operands are pairs, or may be, and whether the result is one.
    bool pairs = false, pair_c = false;
    switch (one.opcode) {
      case Opcode::kImadWide:
        pair_c = true;
        break;
      case Opcode::kDadd:
      case Opcode::kDmul:
      case Opcode::kDfma:
      case Opcode::kF2f:
      case Opcode::kF2i:
      case Opcode::kI2f:
      case Opcode::kFrnd:
        pairs = pair_c = true;
        break;
      default:
        break;
    }
    Sources a = OfOperand(one.a, pairs, *state), b = OfOperand(one.b, pairs, *state);
    // By more than 1: what comes of it points nowhere. Strides and the numbers by which
    // an index is divided go this way.
    if (Multiplies(one) && ((a | b) & kOne) == 0)
      a = b = kNumber;
    if (one.opcode == Opcode::kShf)
      b = kNumber;  // by how much
    Sources all = Together(Together(a, b), OfOperand(one.c, pair_c, *state));
    if (!Moves(one))
      all &= ~kOne;
    Write(one, pair_c ? 2 : 1, all, state,
          one.opcode == Opcode::kImadWide ? kAllOfThem : kPerhapsOne);
  }

  void LoadConstant(const Instruction& one, State* state) {
    constexpr uint32_t kIndexedUniform = 0x0bb;
    const bool uniform = one.opcode == Opcode::kUldc;
    const bool indexed =
        uniform ? one.number() == kIndexedUniform && one.Bits(24, 6) != kZeroUniform
                : one.Bits(24, 8) != kZeroRegister;
    const uint32_t bank = one.Bits(54, 5), offset = one.Bits(38, 16);
    const bool by_handle = one.Bit(91) && one.number() != kIndexedUniform;
    const unsigned words = RegistersMoved(one);
    Sources from = 0;
    if (by_handle || (indexed && bank == 0))
      from = kFromMemory;
    else
      for (unsigned i = 0; i < words; ++i)
        from |= OfConstant(bank, offset + kRegisterBytes * i);
    Write(one, words, from, state, kAllOfThem);
  }

  // A byte, or two, is no part of an address.
  void Load(const Instruction& one, Sources from, State* state) {
    Write(one, RegistersMoved(one), BytesMoved(one) < kRegisterBytes ? kNumber : from,
          state, kAllOfThem);
  }
  Sources Stored(const Instruction& one, const State& state) const {
    return BytesMoved(one) < kRegisterBytes
               ? kNumber
               : AnyOf(state.registers, one.Bits(32, 8), RegistersMoved(one));
  }

  Sources OfConstant(uint32_t bank, uint32_t offset) {
    // Bank 3 has variables of the program, bank 4 addresses of variables.
    if (bank >= 3)
      return kFromMemory;
    if (bank != 0 || offset < code_.parameter_base ||
        offset >= code_.parameter_base + code_.parameter_bytes)
      return kNumber;
    const uint32_t word = (offset - code_.parameter_base) / kWordBytes * kWordBytes;
    const auto found = std::lower_bound(pointers_.begin(), pointers_.end(), word);
    return found != pointers_.end() && *found == word
               ? Sources{1} << (found - pointers_.begin())
               : kNumber;
  }

  Sources OfOperand(const Operand& operand, bool wide, const State& state) {
    switch (operand.kind) {
      case Operand::Kind::kRegister:
        return AllOf(state.registers, operand.index, wide ? 2 : 1);
      case Operand::Kind::kUniform:
        return AllOf(state.uniforms, operand.index, wide ? 2 : 1);
      case Operand::Kind::kConstant: {
        const Sources low = OfConstant(operand.index, operand.value);
        return wide ? Together(low, OfConstant(operand.index,
                                               operand.value + kRegisterBytes))
                    : low;
      }
      case Operand::Kind::kImmediate:
        return operand.value == 1 || operand.value == ~0u ? kNumber | kOne : kNumber;
      default:
        return kNumber;
    }
  }

  // One value in several registers; the last register of a file is zero.
  template <typename File>
  Sources AllOf(const File& file, uint32_t first, unsigned count) const {
    Sources all = kNumber;
    for (unsigned i = 0; i < count && first + i + 1 < file.size(); ++i)
      all = Together(all, file[first + i].Under(condition_));
    return all;
  }
  // Several values.
  template <typename File>
  Sources AnyOf(const File& file, uint32_t first, unsigned count) const {
    Sources any = 0;
    for (unsigned i = 0; i < count; ++i)
      any |= first + i + 1 < file.size() ? file[first + i].Under(condition_) : kNumber;
    return any;
  }

  // Whether all of the registers are written, or perhaps only the first, so that the
  // next ones may be what they were.
  enum Extent { kPerhapsOne, kAllOfThem };
  void Write(const Instruction& one, unsigned count, Sources from, State* state,
             Extent extent = kPerhapsOne) {
    const bool uniform = WritesUniform(one);
    const uint32_t end = uniform ? kZeroUniform : kZeroRegister;
    const uint32_t first = uniform ? one.destination & kZeroUniform : one.destination;
    for (unsigned i = 0; i < count && first + i < end; ++i) {
      Cell& to = uniform ? state->uniforms[first + i] : state->registers[first + i];
      if (i == 0 || extent == kAllOfThem)
        to.Write(from, condition_);
      else
        to.Add(from);
    }
  }

  // Memory of a block or a thread is one cell: all of its words hold what any does.
  void Spill(Sources* cell, Sources from) {
    spilled_ |= (from & ~*cell) != 0;
    *cell |= from;
  }

  void Store(const Instruction& one, const State& state) {
    const bool returns =
        one.opcode == Opcode::kAtomg || one.opcode == Opcode::kAtomgCas;
    const bool is_atomic = returns || one.opcode == Opcode::kRed;
    // As Warp::AddressHigh reads them.
    const bool descriptor = one.Bit(is_atomic ? 71 : 76);
    Sources address = AllOf(state.registers, one.Bits(24, 8), 2);
    if (one.Bit(91) && !descriptor)
      address = Together(address, AllOf(state.uniforms, one.Bits(64, 6), 2));
    address_ |= address;
  }

  StoredParameters Found() const {
    // An address of numbers alone is one of shared or local memory, or null.
    if ((address_ & kLoaded) != 0)
      return Unknown("an address from memory");
    StoredParameters found;
    found.known = true;
    for (size_t i = 0; i < pointers_.size(); ++i)
      if ((address_ >> i & 1) != 0)
        found.words.push_back(pointers_[i]);
    return found;
  }

  const MachineCode& code_;
  const std::vector<uint32_t>& pointers_;
  uint8_t condition_ = kUnconditional;  // of the instruction at hand
  std::set<uint64_t> leaders_;
  std::map<uint64_t, State> states_;  // on entry, by leader
  std::set<uint64_t> pending_;
  std::set<uint64_t> returns_;  // instructions behind calls
  std::optional<State> returned_;
  bool entered_ = false;
  Sources shared_ = 0, local_ = 0;  // by any thread, at any time
  bool spilled_ = false;
  Sources address_ = 0;  // of any store
  std::string why_;
};

}  // namespace

StoredParameters FindStoredParameters(const MachineCode& code,
                                      const std::vector<uint32_t>& pointers) {
  return ParameterFlow(code, pointers).Run();
}

}  // namespace vrank::gpu
