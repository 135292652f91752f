// Words of shipped code, as nvdisasm (CUDA 13.0) shows them.

#include "virtual_gpu/code/decoder.h"

#include <gtest/gtest.h>

namespace vrank::gpu {
namespace {

bool IsUnderstood(uint64_t low, uint64_t high, uint32_t architecture) {
  return Decode(low, high, architecture).opcode != Opcode::kOther;
}

// Bits 81-83 name a predicate in LDG. In LD they name nothing, and compilers leave 0
// there: LD.E.128.STRONG.GPU R12, desc[UR8][R32.64+0x200], of CUB's scan.
TEST(DecoderTest, GenericLoadsHaveNoPredicate) {
  constexpr uint64_t kLow = 0x00020008200c7980, kHigh = 0x000ea2000c10fd00;
  constexpr uint64_t kLdg = 1, kNoPredicate = uint64_t{7} << 17;
  for (const uint32_t architecture : {80u, 90u}) {
    EXPECT_TRUE(IsUnderstood(kLow, kHigh, architecture));
    EXPECT_TRUE(IsUnderstood(kLow, kHigh | kNoPredicate, architecture));
    // LDG.E.128.STRONG.GPU P0, R12, ...: whether what was loaded is zero.
    EXPECT_FALSE(IsUnderstood(kLow | kLdg, kHigh, architecture));
    EXPECT_TRUE(IsUnderstood(kLow | kLdg, kHigh | kNoPredicate, architecture));
  }
}

}  // namespace
}  // namespace vrank::gpu
