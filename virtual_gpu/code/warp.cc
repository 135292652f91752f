// Scheduling, control flow and operands.

#include "virtual_gpu/code/warp.h"

#include <algorithm>
#include <cstring>

#include "virtual_gpu/code/decoder.h"

namespace vrank::gpu {
namespace {

constexpr uint32_t kVoteUniform = 0x086;

// Whether the result is a uniform register or predicate.
bool WritesUniform(const Instruction& one) {
  return one.uniform || one.opcode == Opcode::kR2ur || one.opcode == Opcode::kRedux ||
         one.number() == kVoteUniform;
}

constexpr uint32_t LanesUpTo(uint32_t count) {
  return count >= kLanes ? kAllLanes : (uint32_t{1} << count) - 1;
}

}  // namespace

Warp::Warp(LaunchState* launch, BlockState* block, uint32_t first_thread,
           uint32_t threads)
    : launch_(launch),
      block_(block),
      first_thread_(first_thread),
      present_(LanesUpTo(threads)),
      alive_(present_) {
  // Registers begin with any value. Correct code may merge into one that it never
  // wrote, and does not depend on what was there: zero, which counts as known.
  registers_.resize(256, Lanes::Of(0));
  uniforms_.fill(Lanes::Of(0));
  predicates_[kTruePredicate] = uniform_predicates_[kTruePredicate] = Flags::Of(true);
  groups_.push_back({.pc = 0, .mask = alive_});
}

// --- Scheduling
// ------------------------------------------------------------------------

Warp::Group* Warp::Choose() {
  Group* chosen = nullptr;
  for (Group& group : groups_)
    if (group.waits == Waits::kNo && (chosen == nullptr || group.pc < chosen->pc))
      chosen = &group;
  return chosen;
}

void Warp::Merge() {
  for (size_t i = 0; i < groups_.size(); ++i)
    for (size_t j = i + 1; j < groups_.size();) {
      Group& one = groups_[i];
      const Group& other = groups_[j];
      if (one.waits == Waits::kNo && other.waits == Waits::kNo && one.pc == other.pc) {
        one.mask |= other.mask;
        groups_.erase(groups_.begin() + static_cast<ptrdiff_t>(j));
      } else {
        ++j;
      }
    }
}

// The lanes that a group waits for. A function that calls itself uses one barrier at
// one place for several sets of lanes: what they wait for tells them apart.
uint32_t Warp::ExpectedAt(const Group& group) const {
  const auto lane = static_cast<unsigned>(std::countr_zero(group.mask));
  return group.waits == Waits::kWarpSync ? group.for_mask
                                         : convergence_[group.barrier][lane];
}

// Lets those go on whose partners have all arrived.
void Warp::CheckConvergence() {
  for (Group& group : groups_) {
    if (group.waits != Waits::kConvergence && group.waits != Waits::kWarpSync)
      continue;
    const uint32_t expected = ExpectedAt(group);
    const auto is_partner = [&](const Group& other) {
      return other.waits == group.waits && other.pc == group.pc &&
             other.barrier == group.barrier && ExpectedAt(other) == expected;
    };
    uint32_t arrived = 0, met = 0;  // lanes, and places in groups_
    for (size_t i = 0; i < groups_.size(); ++i)
      if (is_partner(groups_[i])) {
        arrived |= groups_[i].mask;
        met |= uint32_t{1} << i;
      }
    if ((expected & alive_ & ~arrived) != 0)
      continue;
    for (size_t i = 0; i < groups_.size(); ++i)
      if ((met >> i & 1) != 0)
        groups_[i].waits = Waits::kNo;
  }
}

void Warp::Release(uint32_t barrier) {
  for (Group& group : groups_)
    if (group.waits == Waits::kBlock && group.barrier == barrier)
      group.waits = Waits::kNo;
}

void Warp::Remove(uint32_t lanes) {
  alive_ &= ~lanes;
  for (Group& group : groups_)
    group.mask &= ~lanes;
  std::erase_if(groups_, [](const Group& group) { return group.mask == 0; });
}

void Warp::Move(Group* group, uint32_t lanes, uint64_t pc) {
  if (lanes == group->mask) {
    group->pc = pc;
    return;
  }
  group->mask &= ~lanes;
  groups_.push_back({.pc = pc, .mask = lanes});
}

uint32_t Warp::Run(uint32_t most) {
  uint32_t done = 0;
  for (; done < most && !launch_->stopped; ++done) {
    if (groups_.size() > 1)
      Merge();
    Group* const group = Choose();
    if (group == nullptr)
      break;
    Outcome& outcome = launch_->outcome;
    outcome.thread_instructions += static_cast<uint32_t>(std::popcount(group->mask));
    if (outcome.thread_instructions > launch_->launch.most_thread_instructions)
      Stop(Outcome::Kind::kBudget, "more instructions than a launch may take");
    else if (group->pc >= launch_->code.bytes())
      Stop(Outcome::Kind::kFault, "it runs past its end");
    else
      Execute(group);
    if (launch_->launch.needs_known_input && launch_->memory.read_unknown())
      Stop(Outcome::Kind::kUnknown, "its input");
  }
  return done;
}

void Warp::Execute(Group* group) {
  const Instruction& one = launch_->code.At(group->pc);
  if (one.opcode == Opcode::kOther) {
    NotInterpreted(one);
    return;
  }
  // BRA.DIV goes to a copy of a shuffle for warps that have not converged. Here groups
  // converge where they can, and shuffles work on the lanes that there are.
  constexpr uint32_t kDivergent = 2;
  if (one.opcode == Opcode::kBra && one.Bits(32, 2) == kDivergent) {
    group->pc += kInstructionBytes;
    return;
  }
  Flags guard = PredicateOf(one.uniform, one.guard);
  if (one.guard_not)
    guard = !guard;
  active_ = group->mask & guard.True();
  maybe_ = group->mask & guard.Unknown();
  if ((active_ | maybe_) == 0) {
    group->pc += kInstructionBytes;
    return;
  }
  // Of which group lanes come from does not matter to what is per lane.
  if (Integer(one) || Memory(one) || Floats(one) || Conversions(one) ||
      DoubleArithmetic(one) || Halves(one) || Exchange(one)) {
    group->pc += kInstructionBytes;
    return;
  }
  if (maybe_ != 0) {
    Unknown(one, "whether it happens");
    return;
  }
  Control(group, one);
}

void Warp::Unknown(const Instruction& one, const char* what) {
  Stop(Outcome::Kind::kUnknown, std::string(one.name) + ": " + what);
}

void Warp::NotInterpreted(const Instruction& one, const char* what) {
  std::string name = one.name;
  if (*what != '\0')
    name += std::string(" ") + what;
  else if (!name.starts_with("operation "))
    name += " of another form";
  Stop(Outcome::Kind::kNotInterpreted, std::move(name));
}

// --- Control
// ---------------------------------------------------------------------------

void Warp::Control(Group* group, const Instruction& one) {
  const uint64_t next = group->pc + kInstructionBytes;
  const int64_t distance = BranchDistance(one, launch_->code.architecture());
  // Most have a second condition.
  uint32_t taken = active_;
  switch (one.opcode) {
    case Opcode::kBra:
    case Opcode::kExit:
    case Opcode::kBssy:
    case Opcode::kBsync:
    case Opcode::kBreak: {
      // BRA.CONV passes over what lets a warp converge that has not.
      constexpr uint32_t kAlways = 0, kConverged = 3;
      const uint32_t where = one.opcode == Opcode::kBra ? one.Bits(32, 2) : kAlways;
      if (where != kAlways && where != kConverged) {
        NotInterpreted(one, "by a uniform predicate");
        return;
      }
      if (where == kConverged && active_ != alive_)
        taken = 0;
      const Flags second = ReadPredicate(one, 87, 90);
      if ((active_ & second.Unknown()) != 0) {
        Unknown(one, "whether it is taken");
        return;
      }
      taken &= second.True();
      break;
    }
    default:
      break;
  }
  const auto barrier = static_cast<uint8_t>(one.Bits(16, 4));
  switch (one.opcode) {
    case Opcode::kNothing:
      group->pc = next;
      return;
    case Opcode::kBra:
    case Opcode::kCallRel: {
      const uint64_t target = next + static_cast<uint64_t>(distance);
      group->pc = next;
      if (taken != 0)
        Move(group, taken, target);
      return;
    }
    case Opcode::kBrx:
    case Opcode::kRet: {
      const Lanes to =
          Read(one, {Operand::Kind::kRegister, static_cast<uint8_t>(one.Bits(24, 8))});
      uint32_t left = taken;
      group->pc = next;
      while (left != 0) {
        const auto lane = static_cast<unsigned>(std::countr_zero(left));
        uint32_t same = 0;
        for (unsigned i = 0; i < kLanes; ++i) {
          if ((left >> i & 1) == 0)
            continue;
          if (!to.IsKnown(i)) {
            Unknown(one, "its target");
            return;
          }
          if (to.value[i] == to.value[lane])
            same |= uint32_t{1} << i;
        }
        left &= ~same;
        const uint64_t target = next + static_cast<uint64_t>(distance) + to.value[lane];
        if (target % kInstructionBytes != 0) {
          Stop(Outcome::Kind::kFault, "a target inside of an instruction");
          return;
        }
        // Move may enlarge groups_, which moves them.
        const size_t at = static_cast<size_t>(group - groups_.data());
        Move(group, same, target);
        group = &groups_[at];
      }
      return;
    }
    case Opcode::kCallAbs:
      CallAbsolute(one);
      return;
    case Opcode::kExit: {
      group->pc = next;
      Remove(taken);
      CheckConvergence();
      return;
    }
    case Opcode::kBssy:
      for (unsigned i = 0; i < kLanes; ++i)
        if ((taken >> i & 1) != 0)
          convergence_[barrier][i] = taken;
      group->pc = next;
      return;
    case Opcode::kBreak: {
      // Out of the sets that these lanes are in.
      const auto before = convergence_[barrier];
      for (unsigned i = 0; i < kLanes; ++i)
        for (unsigned lane = 0; lane < kLanes; ++lane)
          if ((alive_ >> i & 1) != 0 && (taken >> lane & 1) != 0 &&
              before[i] == before[lane])
            convergence_[barrier][i] &= ~(uint32_t{1} << lane);
      group->pc = next;
      CheckConvergence();
      return;
    }
    case Opcode::kBmov: {
      // A barrier register around a call; its bits 24 to 27 name it.
      Lanes masks = Lanes::Of(0);
      auto& from = convergence_[one.Bits(24, 4)];
      std::copy(from.begin(), from.end(), masks.value.begin());
      WriteResult(one, masks);
      if (one.Bit(84))  // .CLEAR
        for (unsigned i = 0; i < kLanes; ++i)
          from[i] = (taken >> i & 1) != 0 ? 0 : from[i];
      group->pc = next;
      return;
    }
    case Opcode::kBmovBack: {
      const Lanes masks =
          Read(one, {Operand::Kind::kRegister, static_cast<uint8_t>(one.Bits(32, 8))});
      for (unsigned i = 0; i < kLanes; ++i) {
        if ((taken >> i & 1) == 0)
          continue;
        if (!masks.IsKnown(i)) {
          Unknown(one, "its lanes");
          return;
        }
        convergence_[one.Bits(24, 4)][i] = masks.value[i];
      }
      group->pc = next;
      return;
    }
    case Opcode::kBsync: {
      if (taken != group->mask) {
        NotInterpreted(one, "by some lanes");
        return;
      }
      std::vector<Group> others;
      // Lanes of several sets may have come here together.
      for (uint32_t left = taken; left != 0;) {
        const uint32_t expected =
            convergence_[barrier][static_cast<unsigned>(std::countr_zero(left))];
        uint32_t same = 0;
        for (unsigned i = 0; i < kLanes; ++i)
          if ((left >> i & 1) != 0 && convergence_[barrier][i] == expected)
            same |= uint32_t{1} << i;
        left &= ~same;
        const Group waiting{next, same, Waits::kConvergence, 0, barrier};
        if (left == 0)
          *group = waiting;
        else
          others.push_back(waiting);
      }
      groups_.insert(groups_.end(), others.begin(), others.end());
      CheckConvergence();
      return;
    }
    case Opcode::kWarpsync: {
      if (taken != group->mask) {
        NotInterpreted(one, "by some lanes");
        return;
      }
      group->pc = next;
      group->for_mask = kAllLanes;
      if (one.form() == 1) {
        const Lanes mask = Read(
            one, {Operand::Kind::kRegister, static_cast<uint8_t>(one.Bits(24, 8))});
        const auto lane = static_cast<unsigned>(std::countr_zero(taken));
        if (!mask.IsKnown(lane)) {
          Unknown(one, "its lanes");
          return;
        }
        group->for_mask = mask.value[lane];
        if (one.Bit(86))  // .COLLECTIVE, on the way that is not taken
          NotInterpreted(one, "COLLECTIVE");
      }
      group->waits = Waits::kWarpSync;
      group->barrier = 0;
      CheckConvergence();
      return;
    }
    case Opcode::kBar: {
      constexpr uint32_t kSync = 0, kArrive = 1, kReduce = 2;
      const uint32_t mode = one.Bits(77, 2);
      if (one.form() != 5 || mode > kReduce) {
        NotInterpreted(one, "by a register");
        return;
      }
      const uint32_t number = one.Bits(54, 4);
      BlockState::Barrier& met = block_->barriers[number];
      const auto lanes = static_cast<uint32_t>(std::popcount(taken));
      met.arrived += lanes;
      met.expected = one.Bits(42, 12);
      if (mode == kReduce) {
        const Flags flags = ReadPredicate(one, 87, 90);
        met.reduces = true;
        met.reduction = one.Bits(74, 2);
        met.all_known = met.all_known && (taken & flags.Unknown()) == 0;
        met.true_count += static_cast<uint32_t>(std::popcount(taken & flags.True()));
      }
      group->pc = next;
      if (mode != kArrive) {
        if (taken != group->mask) {
          // The others go on.
          const uint32_t rest = group->mask & ~taken;
          group->mask = taken;
          group->waits = Waits::kBlock;
          group->barrier = static_cast<uint8_t>(number);
          groups_.push_back({.pc = next, .mask = rest});
          return;
        }
        group->waits = Waits::kBlock;
        group->barrier = static_cast<uint8_t>(number);
      }
      static_cast<void>(kSync);
      return;
    }
    default:
      NotInterpreted(one);
      return;
  }
}

// A text of the compiler's, by its address in a pair of registers.
std::string Warp::TextAt(unsigned pair, unsigned lane) const {
  const Lanes &low = registers_[pair], &high = registers_[pair + 1];
  const uint64_t address = low.value[lane] | uint64_t{high.value[lane]} << 32;
  const std::string& texts = launch_->code.tables;
  const uint64_t at = address - MachineCode::kTablesAddress;
  if (!low.IsKnown(lane) || !high.IsKnown(lane) || at >= texts.size())
    return "?";
  return texts.substr(at, texts.find('\0', at) - at);
}

// Of functions outside of the kernel, one is known: __assertfail(message, file, line,
// function, bytes of a character), with arguments from R4 on.
void Warp::CallAbsolute(const Instruction& one) {
  constexpr unsigned kMessage = 4, kFile = 6, kLine = 8, kFunction = 10;
  const auto target = static_cast<uint8_t>(one.Bits(24, 8));
  const Lanes low = Read(one, {Operand::Kind::kRegister, target}),
              high = ReadHigh(one, {Operand::Kind::kRegister, target});
  std::string lines;
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    if ((active_ >> lane & 1) == 0)
      continue;
    if (!low.IsKnown(lane) || !high.IsKnown(lane) ||
        (low.value[lane] | uint64_t{high.value[lane]} << 32) !=
            MachineCode::kAssertFail) {
      Unknown(one, "its target (printf, or another function)");
      return;
    }
    const uint32_t* const block = launch_->launch.block;
    const uint32_t thread = first_thread_ + lane;
    lines += TextAt(kFile, lane) + ':' + std::to_string(registers_[kLine].value[lane]) +
             ": " + TextAt(kFunction, lane) + ": block: [" +
             std::to_string(block_->index[0]) + ',' + std::to_string(block_->index[1]) +
             ',' + std::to_string(block_->index[2]) + "], thread: [" +
             std::to_string(thread % block[0]) + ',' +
             std::to_string(thread / block[0] % block[1]) + ',' +
             std::to_string(thread / block[0] / block[1]) + "] Assertion `" +
             TextAt(kMessage, lane) + "` failed.\n";
  }
  Stop(Outcome::Kind::kAssertion, std::move(lines));
}

// --- Operands
// --------------------------------------------------------------------------

bool Warp::ReadConstantBytes(uint32_t bank, int64_t offset, uint32_t bytes,
                             unsigned char* to, unsigned char* known) const {
  std::memset(to, 0, bytes);
  std::memset(known, 0, bytes);
  constexpr uint32_t kLaunch = 0, kAddresses = 4;
  if (bank == kLaunch || bank == kAddresses) {
    const KnownBytes& from = bank == kLaunch ? launch_->bank0 : launch_->code.bank4;
    for (uint32_t i = 0; i < bytes; ++i) {
      const int64_t at = offset + i;
      if (at < 0 || static_cast<uint64_t>(at) >= from.bytes.size())
        continue;
      to[i] = from.bytes[static_cast<size_t>(at)];
      known[i] = from.known[static_cast<size_t>(at)];
    }
  } else if (bank == 2) {
    const std::string& bank2 = launch_->code.bank2;
    for (uint32_t i = 0; i < bytes; ++i) {
      const int64_t at = offset + i;
      if (at < 0 || static_cast<uint64_t>(at) >= bank2.size())
        continue;
      to[i] = static_cast<unsigned char>(bank2[static_cast<size_t>(at)]);
      known[i] = 0xff;
    }
  }
  return true;
}

Lanes Warp::ReadConstant(uint32_t bank, uint32_t offset) const {
  uint32_t value, known;
  ReadConstantBytes(bank, offset, sizeof value,
                    reinterpret_cast<unsigned char*>(&value),
                    reinterpret_cast<unsigned char*>(&known));
  return Lanes::Of(value, known);
}

Lanes Warp::Read(const Instruction&, const Operand& operand) const {
  switch (operand.kind) {
    case Operand::Kind::kNone:
      return Lanes::Of(0);
    case Operand::Kind::kRegister:
      return operand.index == kZeroRegister ? Lanes::Of(0) : registers_[operand.index];
    case Operand::Kind::kUniform:
      return operand.index == kZeroUniform ? Lanes::Of(0) : uniforms_[operand.index];
    case Operand::Kind::kImmediate:
      return Lanes::Of(operand.value);
    case Operand::Kind::kConstant:
      return ReadConstant(operand.index, operand.value);
  }
  return Lanes::Of(0, 0);
}

Lanes Warp::ReadHigh(const Instruction& one, const Operand& operand) const {
  Operand high = operand;
  switch (operand.kind) {
    case Operand::Kind::kRegister:
      high.index += operand.index == kZeroRegister ? 0 : 1;
      break;
    case Operand::Kind::kUniform:
      high.index += operand.index == kZeroUniform ? 0 : 1;
      break;
    case Operand::Kind::kConstant:
      high.value += 4;
      break;
    default:
      return Lanes::Of(0, 0);
  }
  return Read(one, high);
}

Lanes Warp::ReadFloat(const Instruction& one, const Operand& operand) const {
  Lanes lanes = Read(one, operand);
  constexpr uint32_t kSign = 0x80000000;
  if (operand.absolute)
    for (uint32_t& value : lanes.value)
      value &= ~kSign;
  if (operand.negate)
    for (uint32_t& value : lanes.value)
      value ^= kSign;
  return lanes;
}

void Warp::Write(const Instruction& one, unsigned index, const Lanes& value) {
  if (WritesUniform(one)) {
    if (index >= kZeroUniform)
      return;
    const auto lane = static_cast<unsigned>(std::countr_zero(active_ | maybe_));
    Lanes& to = uniforms_[index];
    to = Lanes::Of(value.value[lane], maybe_ == 0 ? value.known[lane] : 0);
    return;
  }
  if (index >= kZeroRegister)
    return;
  Lanes& to = registers_[index];
  if (active_ == kAllLanes) {
    to = value;
    return;
  }
  for (unsigned i = 0; i < kLanes; ++i) {
    const uint32_t written = (active_ >> i & 1) != 0 ? kAllBits : 0;
    const uint32_t lost = (maybe_ >> i & 1) != 0 ? kAllBits : 0;
    to.value[i] = (value.value[i] & written) | (to.value[i] & ~written);
    to.known[i] = ((value.known[i] & written) | (to.known[i] & ~written)) & ~lost;
  }
}

Flags Warp::PredicateOf(bool uniform, unsigned index) const {
  return uniform ? uniform_predicates_[index] : predicates_[index];
}

Flags Warp::ReadPredicate(const Instruction& one, unsigned at, unsigned not_at) const {
  const Flags flags = PredicateOf(one.uniform, one.Bits(at, 3));
  return one.Bit(not_at) ? !flags : flags;
}

void Warp::WritePredicate(const Instruction& one, unsigned at, const Flags& flags) {
  const uint32_t index = one.Bits(at, 3);
  if (index == kTruePredicate)
    return;
  if (WritesUniform(one)) {
    const auto lane = static_cast<unsigned>(std::countr_zero(active_ | maybe_));
    Flags all = Flags::Of((flags.value >> lane & 1) != 0);
    if (maybe_ != 0 || (flags.known >> lane & 1) == 0)
      all.known = 0;
    uniform_predicates_[index] = all;
    return;
  }
  Flags& to = predicates_[index];
  to.value = (to.value & ~active_) | (flags.value & active_);
  to.known = ((to.known & ~active_) | (flags.known & active_)) & ~maybe_;
}

}  // namespace vrank::gpu
