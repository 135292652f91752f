// A warp: registers, predicates, groups of lanes at one place of the code, and what
// instructions do to them.
//
// Convergence: BSSY notes the active lanes in a barrier register; at BSYNC they wait
// for the others of that set that have neither exited nor broken away. Lanes that part
// otherwise meet again where one group catches up with another, since the lowest
// program counter runs first.
//
// warp.cc has scheduling and control, warp_integer.cc, warp_float.cc, warp_double.cc
// and warp_half.cc arithmetic, warp_convert.cc conversions, warp_memory.cc memory,
// warp_lanes.cc what lanes exchange.
//
// Thread rule: an object belongs to one thread.

#ifndef VRANK_VIRTUAL_GPU_CODE_WARP_H_
#define VRANK_VIRTUAL_GPU_CODE_WARP_H_

#include <array>
#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "virtual_gpu/code/float_format.h"
#include "virtual_gpu/code/instruction.h"
#include "virtual_gpu/code/interpreter.h"
#include "virtual_gpu/code/lanes.h"
#include "virtual_gpu/code/machine_code.h"

namespace vrank::gpu {

// What all warps of a launch have in common.
struct LaunchState {
  MachineCode& code;
  const InterpretedLaunch& launch;
  OverlayMemory& memory;
  KnownBytes bank0;
  Outcome outcome;
  bool stopped = false;

  void Stop(Outcome::Kind kind, std::string what) {
    if (stopped)
      return;
    stopped = true;
    outcome.kind = kind;
    outcome.what = std::move(what);
  }
};

// What the warps of a block share.
struct BlockState {
  // BAR.RED combines a predicate of all threads.
  struct Barrier {
    uint32_t arrived = 0;
    uint32_t expected = 0;  // 0: all threads that have not exited
    uint32_t true_count = 0;
    bool all_known = true;
    bool reduces = false;
    uint32_t reduction = 0;
  };
  std::array<uint32_t, 3> index{};
  KnownBytes shared;
  std::array<Barrier, 16> barriers{};
  // Of the latest BAR.RED.
  uint32_t reduced_count = 0;
  bool reduced = false, reduced_known = true;
};

// How a comparison joins its accumulator: by two bits of an instruction.
Flags Combine(uint32_t operation, const Flags& a, const Flags& b);
// Of two floats, by the four bits of a comparison.
bool Compares(uint32_t comparison, double x, double y);

class Warp {
 public:
  Warp(LaunchState* launch, BlockState* block, uint32_t first_thread, uint32_t threads);

  // Runs until no group can, but at most so many instructions. Returns how many.
  uint32_t Run(uint32_t most);
  bool exited() const { return groups_.empty(); }
  uint32_t alive() const { return alive_; }
  // Lets the groups go on that wait at this barrier of the block.
  void Release(uint32_t barrier);

 private:
  enum class Waits : uint8_t { kNo, kConvergence, kWarpSync, kBlock };
  struct Group {
    uint64_t pc = 0;
    uint32_t mask = 0;
    Waits waits = Waits::kNo;
    uint32_t for_mask = 0;  // kWarpSync: the lanes that are to arrive
    uint8_t barrier = 0;    // kConvergence, kBlock
  };

  // --- Scheduling
  // The group to run next; nullptr where all wait.
  Group* Choose();
  void Merge();
  uint32_t ExpectedAt(const Group& group) const;
  void CheckConvergence();
  void Execute(Group* group);
  void Remove(uint32_t lanes);  // they have exited
  // Sends lanes to another place. Returns whether the group still has some.
  void Move(Group* group, uint32_t lanes, uint64_t pc);

  void Stop(Outcome::Kind kind, std::string what) {
    launch_->Stop(kind, std::move(what));
  }
  void Unknown(const Instruction& one, const char* what);
  void NotInterpreted(const Instruction& one, const char* what = "");

  // --- Operands
  Lanes Read(const Instruction& one, const Operand& operand) const;
  // The register of a pair above it.
  Lanes ReadHigh(const Instruction& one, const Operand& operand) const;
  // As a float with its signs.
  Lanes ReadFloat(const Instruction& one, const Operand& operand) const;
  Lanes ReadHalves(const Instruction& one, const Operand& operand) const;
  Doubles ReadDouble(const Instruction& one, const Operand& operand) const;
  bool ReadNumber(const Instruction& one, uint32_t size, Doubles* number) const;
  Lanes ReadConstant(uint32_t bank, uint32_t offset) const;
  bool ReadConstantBytes(uint32_t bank, int64_t offset, uint32_t bytes,
                         unsigned char* to, unsigned char* known) const;
  void Write(const Instruction& one, unsigned index, const Lanes& value);
  void WriteResult(const Instruction& one, const Lanes& value) {
    Write(one, one.destination, value);
  }
  void WritePair(const Instruction& one, const Lanes& low, const Lanes& high);
  void WriteDouble(const Instruction& one, const Doubles& value);
  void WriteNumber(const Instruction& one, uint32_t size, Rounding mode,
                   const Doubles& number);
  Flags ReadPredicate(const Instruction& one, unsigned at, unsigned not_at) const;
  Flags PredicateOf(bool uniform, unsigned index) const;
  void WritePredicate(const Instruction& one, unsigned at, const Flags& flags);
  void WriteComparison(const Instruction& one, const Flags& flags);

  // --- Instructions; each returns false where it does not do this operation
  bool Integer(const Instruction& one);
  bool Floats(const Instruction& one);
  bool DoubleArithmetic(const Instruction& one);
  bool Halves(const Instruction& one);
  bool Conversions(const Instruction& one);
  bool Memory(const Instruction& one);
  bool Exchange(const Instruction& one);
  void Control(Group* group, const Instruction& one);

  void CompareIntegers(const Instruction& one);
  void Add3(const Instruction& one);
  void ShiftAndAdd(const Instruction& one);
  void Logic(const Instruction& one);
  void PredicateLogic(const Instruction& one);
  void Permute(const Instruction& one);
  void Funnel(const Instruction& one);
  void Multiply(const Instruction& one);
  void MultiplyWide(const Instruction& one);
  void MultiplyHigh(const Instruction& one);
  void MinMax(const Instruction& one);
  void PackPredicates(const Instruction& one);
  void UnpackPredicates(const Instruction& one);
  Lanes SpecialRegister(uint32_t number) const;
  void CallAbsolute(const Instruction& one);
  std::string TextAt(unsigned pair, unsigned lane) const;

  void CompareFloats(const Instruction& one);
  void FloatMinMax(const Instruction& one);
  void CompareDoubles(const Instruction& one);
  void CompareHalves(const Instruction& one);
  void FloatToFloat(const Instruction& one);
  void RoundFloats(const Instruction& one);
  void PackFloats(const Instruction& one);
  void ToFloat(const Instruction& one);
  void ToInteger(const Instruction& one);

  void LoadConstant(const Instruction& one);
  void Load(const Instruction& one);
  void Store(const Instruction& one);
  void Atomic(const Instruction& one);
  KnownBytes& Local();
  Lanes AddressHigh(const Instruction& one, Lanes* low) const;
  bool ReadBytes(Opcode space, unsigned lane, uint64_t address, uint32_t bytes,
                 unsigned char* to, unsigned char* known);
  bool WriteBytes(Opcode space, unsigned lane, uint64_t address, uint32_t bytes,
                  const unsigned char* from, const unsigned char* known);

  void Shuffle(const Instruction& one);
  void Vote(const Instruction& one);
  void Match(const Instruction& one);
  void Reduce(const Instruction& one);

  LaunchState* const launch_;
  BlockState* const block_;
  const uint32_t first_thread_;
  const uint32_t present_;  // a block's last warp may have fewer than 32
  uint32_t alive_;
  std::vector<Group> groups_;
  std::vector<Lanes> registers_;
  std::array<Lanes, 64> uniforms_;  // all lanes equal
  std::array<Flags, 8> predicates_, uniform_predicates_;
  // Barrier registers, by lane: the lanes that are to meet.
  std::array<std::array<uint32_t, kLanes>, 16> convergence_{};
  KnownBytes local_;

  // Of the instruction that is running: lanes that run it, and lanes that may.
  uint32_t active_ = 0;
  uint32_t maybe_ = 0;
};

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CODE_WARP_H_
