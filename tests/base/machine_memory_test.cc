#include "base/machine_memory.h"

#include <gtest/gtest.h>

namespace vrank {
namespace {

TEST(MachineMemoryTest, TheMachineHasSome) {
  const MachineMemory memory = ReadMachineMemory();
  EXPECT_GT(memory.total, uint64_t{1} << 26);
  EXPECT_GT(memory.available, 0u);
  EXPECT_LE(memory.available, memory.total);
  EXPECT_LE(memory.least(), memory.available);
}

TEST(MachineMemoryTest, TheLeastOfAllLimitsCounts) {
  MachineMemory memory;
  memory.available = 50;
  EXPECT_EQ(memory.least(), 50u);
  memory.of_container = 70;
  EXPECT_EQ(memory.least(), 50u);
  memory.of_process = 20;
  EXPECT_EQ(memory.least(), 20u);
  memory.of_container = 0;
  EXPECT_EQ(memory.least(), 0u);
}

}  // namespace
}  // namespace vrank
