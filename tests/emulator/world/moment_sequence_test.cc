#include "emulator/world/moment_sequence.h"

#include <gtest/gtest.h>

namespace vrank::emulator {
namespace {

TEST(MomentSequenceTest, FindsTheMomentsOfOpsInOrder) {
  const Moment moments[] = {
      {.op = 0, .host = {.ns = 5}, .completed = {}},
      {.op = 3,
       .host = {.ns = 9, .assumed_host = 2},
       .completed = {.ns = 1000, .assumed = 1, .recorded = 2, .measured = 3}},
      // Device work that is over before the host gets there, and less assumed.
      {.op = 1000,
       .host = {.ns = int64_t{1} << 60, .assumed = 7},
       .completed = {.ns = 1000, .recorded = 1, .measured = 3}}};
  MomentSequence sequence;
  for (const Moment& moment : moments)
    sequence.Append(moment);
  MomentSequence::Reader reader(sequence);
  for (const Moment& moment : moments) {
    const Moment* const found = reader.Find(moment.op);
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found->host, moment.host);
    EXPECT_EQ(found->completed, moment.completed);
    EXPECT_EQ(reader.Find(moment.op + 1), nullptr);
  }
  EXPECT_EQ(MomentSequence::Reader(sequence).Find(1), nullptr);
  EXPECT_NE(MomentSequence::Reader(sequence).Find(1000), nullptr);
}

TEST(MomentSequenceTest, TakesFewBytes) {
  MomentSequence sequence;
  for (uint64_t i = 0; i < 1000; ++i) {
    const int64_t ns = static_cast<int64_t>(i) * 10'000;
    sequence.Append({.op = i * 2, .host = {.ns = ns}, .completed = {.ns = ns + 5000}});
  }
  EXPECT_LE(sequence.bytes(), 9'000u);
}

}  // namespace
}  // namespace vrank::emulator
