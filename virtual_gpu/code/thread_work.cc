// Walks the instructions once.

#include "virtual_gpu/code/thread_work.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>

namespace vrank::gpu {
namespace {

constexpr size_t kInstructionBytes = 16;
constexpr uint32_t kArchitectures[] = {80, 86, 87, 89, 90, 100, 103};
constexpr uint32_t kHopper = 90;      // branches have another form from here on
constexpr uint32_t kBlackwell = 100;  // asynchronous copies have another form

// Bits 0 to 8.
enum : uint32_t {
  kImma = 0x037,
  kHmma = 0x03c,
  kBmma = 0x03d,
  kDmma = 0x03f,
  kFence = 0x140,
  kBsync = 0x141,
  kBreak = 0x142,
  kBssy = 0x145,
  kYield = 0x146,
  kBranch = 0x147,
  kWarpSync = 0x148,
  kExit = 0x14d,
  kControlLast = 0x15c,  // the sleep after it is harmless
  kTextureFirst = 0x160,
  kTextureLast = 0x16f,
  kMemoryFirst = 0x180,
  kLdg = 0x181,
  kLdc = 0x182,
  kLdl = 0x183,
  kLds = 0x184,
  kStg = 0x186,
  kStl = 0x187,
  kSts = 0x188,
  kShfl = 0x189,
  kCctl = 0x18f,
  kMembar = 0x192,
  kErrbar = 0x1ab,
  kLdcu = 0x1ac,
  kLdgsts = 0x1ae,
  kLdgdepbar = 0x1af,
  kMemoryLast = 0x1bf,
  kWideMmaFirst = 0x1e0,  // warp-group and tensor-memory products
};

struct Instruction {
  uint64_t low, high;
  uint32_t operation() const { return low & 0x1ff; }
};

bool IsControl(uint32_t operation) {
  return operation >= kFence && operation <= kControlLast;
}
bool IsMemory(uint32_t operation) {
  return operation >= kMemoryFirst && operation <= kMemoryLast;
}

// Control flow that only goes on, and memory that is not global.
bool IsHarmless(uint32_t operation) {
  constexpr uint32_t kHarmless[] = {
      kFence, kBsync, kBreak, kBssy, kYield, kWarpSync, kExit,   kLdc,  kLdl,
      kLds,   kStl,   kSts,   kShfl, kCctl,  kMembar,   kErrbar, kLdcu, kLdgdepbar};
  return std::find(std::begin(kHarmless), std::end(kHarmless), operation) !=
         std::end(kHarmless);
}

bool IsOpaque(uint32_t operation) {
  return operation == kImma || operation == kHmma || operation == kBmma ||
         operation == kDmma ||
         (operation >= kTextureFirst && operation <= kTextureLast) ||
         operation >= kWideMmaFirst ||
         ((IsControl(operation) || IsMemory(operation)) && !IsHarmless(operation));
}

// From the instruction behind the branch, in bytes.
int64_t Distance(const Instruction& branch, uint32_t architecture) {
  if (architecture < kHopper) {
    const uint64_t bits = branch.low >> 32 | (branch.high & 0x3ffff) << 32;
    return static_cast<int64_t>(bits << 14) >> 14;
  }
  // Words of 4 bytes: 8 bits, and 48 above them.
  const uint64_t above = branch.low >> 34 | (branch.high & 0x3ffff) << 30;
  const uint64_t words = (branch.low >> 16 & 0xff) | above << 8;
  return static_cast<int64_t>(words << 8) >> 6;
}

// 0: no width that loads and stores have.
uint32_t Width(const Instruction& access, uint32_t architecture) {
  constexpr std::array<uint32_t, 8> kWidths = {1, 1, 2, 2, 4, 8, 16, 0};
  const bool higher = access.operation() == kLdgsts && architecture >= kBlackwell;
  return kWidths[access.high >> (higher ? 10 : 9) & 7];
}

}  // namespace

ThreadWork ReadThreadWork(std::string_view code, uint32_t architecture) {
  if (std::find(std::begin(kArchitectures), std::end(kArchitectures), architecture) ==
      std::end(kArchitectures))
    return {};
  ThreadWork work;
  for (size_t at = 0; at + kInstructionBytes <= code.size(); at += kInstructionBytes) {
    Instruction one;
    std::memcpy(&one.low, code.data() + at, sizeof one.low);
    std::memcpy(&one.high, code.data() + at + sizeof one.low, sizeof one.high);
    const uint32_t operation = one.operation();
    if (operation == kBranch) {
      const int64_t distance = Distance(one, architecture);
      // A branch to itself ends the code; what follows fills the section.
      if (distance == -static_cast<int64_t>(kInstructionBytes))
        return work;
      if (distance < 0)
        return {};
    } else if (operation == kLdg || operation == kStg || operation == kLdgsts) {
      const uint32_t width = Width(one, architecture);
      if (width == 0)
        return {};
      work.bytes += width;
    } else if (IsOpaque(operation)) {
      return {};
    }
    ++work.instructions;
  }
  return {};  // no end: damaged, or not what we know
}

}  // namespace vrank::gpu
