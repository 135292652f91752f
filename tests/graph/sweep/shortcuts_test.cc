// What the vector code may leave out.

#include "graph/sweep/shortcuts.h"

#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "graph/sweep/code.h"

namespace vrank::graph {
namespace {

SweepOp Make(SweepKind kind, uint16_t slot, uint32_t issue, uint32_t x,
             uint8_t ledger = 0) {
  SweepOp op;
  op.kind = kind;
  op.slot = slot;
  op.issue = issue;
  op.x = x;
  op.ledger = ledger;
  return op;
}

SweepCode CodeOf(std::vector<SweepOp> ops) {
  SweepCode code;
  ops.push_back(Make(SweepKind::kEnd, SweepOp::kNoSlot, 0, 0));
  for (uint32_t i = 0; i < ops.size(); ++i) {
    code.ledgers.push_back(100 + i);
    code.places.push_back(i);
  }
  code.ops = std::move(ops);
  code.slots = 8;
  return code;
}

TEST(SweepShortcutsTest, SaysHowFarTheHostMayBeAheadOfARun) {
  // The third work is issued 70 after the first, which takes 50 with the second.
  SweepCode code =
      CodeOf({Make(SweepKind::kWork, 1, 10, 20), Make(SweepKind::kWork, 1, 40, 30),
              Make(SweepKind::kWork, 1, 80, 5), Make(SweepKind::kWork, 2, 90, 7)});
  FindShortcuts(&code);
  ASSERT_EQ(code.ops.size(), 7u);
  EXPECT_EQ(code.ops[0].kind, SweepKind::kRun);
  EXPECT_EQ(code.ops[0].x, 3u);
  EXPECT_EQ(code.runs[code.ops[0].y].slack, -30);
  EXPECT_EQ(code.runs[code.ops[0].y].lowest, 55);
  EXPECT_EQ(code.ops[4].kind, SweepKind::kRun);
  EXPECT_EQ(code.runs[code.ops[4].y].slack, -90);
  // What belongs to the ops has moved with them.
  EXPECT_EQ(code.ledgers, (std::vector<uint32_t>{100, 100, 101, 102, 103, 103, 104}));
  EXPECT_EQ(code.places, (std::vector<uint32_t>{0, 0, 1, 2, 3, 3, 4}));
}

TEST(SweepShortcutsTest, TellsWorksOfSeveralLedgersApart) {
  SweepCode code = CodeOf(
      {Make(SweepKind::kWork, 1, 0, 20, 1), Make(SweepKind::kWork, 1, 0, 20, 2)});
  FindShortcuts(&code);
  EXPECT_LT(code.runs[0].slack, -(int64_t{1} << 60));
}

TEST(SweepShortcutsTest, KeepsEndsThatSomebodyElseLooksAt) {
  for (const bool released : {false, true}) {
    SweepOp await = Make(SweepKind::kAwait, 1, 0, 0);
    await.y = 5;
    std::vector<SweepOp> ops = {Make(SweepKind::kCollective, 1, 0, 0), await,
                                Make(SweepKind::kCollective, 1, 0, 1), await};
    if (released)
      ops.push_back(Make(SweepKind::kHostWait, 5, 0, 0));
    SweepCode code = CodeOf(ops);
    code.meetings.resize(2);
    code.meeting_slots = {{0, 5, false}, {0, 5, false}};
    FindShortcuts(&code);
    EXPECT_FALSE(code.meeting_slots[code.ops[0].x].is_kept);
    EXPECT_EQ(code.meeting_slots[code.ops[2].x].is_kept, released);
  }
  // The next one, on another lane, comes after it.
  SweepCode code = CodeOf(
      {Make(SweepKind::kCollective, 1, 0, 0), Make(SweepKind::kCollective, 2, 0, 1)});
  code.meetings.resize(2);
  code.meeting_slots = {{0, 5, false}, {0, 5, true}};
  FindShortcuts(&code);
  EXPECT_TRUE(code.meeting_slots[code.ops[0].x].is_kept);
}

TEST(SweepShortcutsTest, SharesMeetingsOfOneKind) {
  SweepCode code = CodeOf({Make(SweepKind::kCollective, 1, 0, 0),
                           Make(SweepKind::kCollective, 1, 0, 1),
                           Make(SweepKind::kCollective, 1, 0, 2)});
  code.meetings = {{.details = 7}, {.details = 8}, {.details = 7}};
  code.meeting_slots = {{0, 5, false}, {0, 5, false}, {0, 5, false}};
  FindShortcuts(&code);
  ASSERT_EQ(code.meetings.size(), 2u);
  EXPECT_EQ(code.ops[0].x, code.ops[2].x);
  EXPECT_NE(code.ops[0].x, code.ops[1].x);
  EXPECT_EQ(code.meetings[code.ops[0].x].times, 2u);
  EXPECT_EQ(code.meetings[code.ops[1].x].details, 8u);
}

}  // namespace
}  // namespace vrank::graph
