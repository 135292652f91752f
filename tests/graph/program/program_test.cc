// Storage of programs.

#include "graph/program/program.h"

#include <gtest/gtest.h>

namespace vrank::graph {
namespace {

Op Numbered(uint64_t n) {
  Op op;
  op.value = static_cast<int64_t>(n);
  return op;
}

TEST(ProgramTest, EqualCallsShareAnIndex) {
  Program program(true);
  const CollectiveCall call{.count = 5}, other{.count = 6};
  EXPECT_EQ(program.AddCollective(call), program.AddCollective(call));
  EXPECT_NE(program.AddCollective(call), program.AddCollective(other));
  EXPECT_EQ(program.AddTransfers({{8, 1, 1}}), program.AddTransfers({{8, 1, 1}}));
  EXPECT_NE(program.AddTransfers({{8, 1, 1}}), program.AddTransfers({{8, 1, 0}}));
  EXPECT_EQ(program.AddName(""), 0u);
  EXPECT_EQ(program.AddName("step"), program.AddName("step"));
  EXPECT_EQ(program.details().names[program.AddName("step")], "step");
}

TEST(ProgramTest, OpsStayWhereTheyAreWhileTheProgramGrows) {
  Program program(true);
  program.Append(Numbered(0));
  const Op* first = &program.op(0);
  for (uint64_t i = 1; i < 3 * Program::kChunkOps; ++i)
    program.Append(Numbered(i));
  EXPECT_EQ(first, &program.op(0));
  EXPECT_EQ(program.op(2 * Program::kChunkOps + 7).value,
            static_cast<int64_t>(2 * Program::kChunkOps + 7));
  EXPECT_EQ(program.ChunkEnd(1), Program::kChunkOps);
}

TEST(ProgramTest, TheSlowestReaderKeepsChunks) {
  Program program(false);
  const size_t fast = program.AddReader(), slow = program.AddReader();
  for (uint64_t i = 0; i < 3 * Program::kChunkOps; ++i)
    program.Append(Numbered(i));
  program.ReaderPassed(fast, 2 * Program::kChunkOps);
  EXPECT_EQ(program.Released(), 0u);
  program.ReaderPassed(slow, Program::kChunkOps);
  EXPECT_EQ(program.Released(), Program::kChunkOps);
  EXPECT_EQ(program.op(Program::kChunkOps).value,
            static_cast<int64_t>(Program::kChunkOps));
}

TEST(ProgramTest, CountsWhatTheSlowestReaderHasNotRead) {
  for (const bool retain : {false, true}) {
    Program program(retain);
    for (uint64_t i = 0; i < 3 * Program::kChunkOps; ++i)
      program.Append(Numbered(i));
    EXPECT_EQ(program.Unread(), 3 * Program::kChunkOps);
    const size_t fast = program.AddReader(), slow = program.AddReader();
    program.ReaderPassed(fast, 2 * Program::kChunkOps);
    EXPECT_EQ(program.Unread(), 3 * Program::kChunkOps);
    program.ReaderPassed(slow, Program::kChunkOps);
    EXPECT_EQ(program.Unread(), 2 * Program::kChunkOps);
    program.ReaderPassed(slow, 3 * Program::kChunkOps);
    EXPECT_EQ(program.Unread(), Program::kChunkOps);
  }
}

TEST(ProgramTest, RetainedProgramsKeepEverything) {
  Program program(true);
  const size_t reader = program.AddReader();
  for (uint64_t i = 0; i < 2 * Program::kChunkOps; ++i)
    program.Append(Numbered(i));
  program.ReaderPassed(reader, 2 * Program::kChunkOps);
  EXPECT_EQ(program.Released(), 0u);
  EXPECT_EQ(program.op(0).value, 0);
}

}  // namespace
}  // namespace vrank::graph
