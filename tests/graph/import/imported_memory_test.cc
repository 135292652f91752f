// Totals of the allocator that a profile holds.

#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include "graph/import/kineto_import.h"
#include "tests/graph/import/hand_profile.h"
#include "tests/graph/import/profile_files.h"

namespace vrank::graph {
namespace {

RankMemory Import(const HandProfile& profile) {
  const ProfileFiles files;
  auto import = ImportKineto({{files.Write("0.json", profile.Text())}, {}});
  EXPECT_TRUE(import.ok()) << import.status();
  if (!import.ok())
    return {};
  // The program holds what is reserved.
  const Program& program = *import->graph.programs.at(0);
  int64_t reserved = 0, peak = 0;
  for (uint64_t i = 0; i < program.size(); ++i)
    if (program.op(i).kind == OpKind::kMemory)
      peak = std::max(peak, reserved += program.op(i).value);
  EXPECT_EQ(peak, import->memory.at(0).whole.reserved_bytes);
  return import->memory.at(0);
}

HandProfile TwoSteps() {
  HandProfile profile;
  for (int step = 0; step < 2; ++step) {
    profile.Step(step, 1000 + 1000 * step, 1000);
    profile.Kernel("gemm", 1100 + 1000 * step, 1110 + 1000 * step, 300);
  }
  return profile;
}

TEST(ImportedMemoryTest, IsUnknownWhereNoTotalWasRecorded) {
  EXPECT_EQ(Import(TwoSteps()).whole.reserved_bytes, 0);
}

TEST(ImportedMemoryTest, StatesPeaksByStepWithWhatIsHeldAtItsBegin) {
  HandProfile profile = TwoSteps();
  profile.Memory(500, 100, 700, 1000);
  profile.Memory(1200, 100, 900, 4000);
  profile.Memory(1300, -500, 400, 4000);
  profile.Memory(2500, 100, 500, 4000);
  profile.Memory(3100, 100, 600, 4500);
  const RankMemory memory = Import(profile);
  EXPECT_EQ(memory.whole.allocated_bytes, 900);
  EXPECT_EQ(memory.whole.reserved_bytes, 4500);
  ASSERT_EQ(memory.steps.size(), 2u);
  EXPECT_EQ(memory.steps[0].allocated_bytes, 900);
  EXPECT_EQ(memory.steps[0].reserved_bytes, 4000);
  EXPECT_EQ(memory.steps[1].allocated_bytes, 500);
  EXPECT_EQ(memory.steps[1].reserved_bytes, 4000);
}

// Totals of the host's allocator are not device memory.
TEST(ImportedMemoryTest, IsOfGpusAlone) {
  HandProfile profile = TwoSteps();
  profile.Memory(1200, 100, 900, 4000, /*device_type=*/0);
  EXPECT_EQ(Import(profile).whole.reserved_bytes, 0);
}

}  // namespace
}  // namespace vrank::graph
