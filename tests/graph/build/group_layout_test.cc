#include "graph/build/group_layout.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vrank::graph {
namespace {

using ::testing::HasSubstr;

// A job as its ranks show it: one communicator per split of the world, and a collective
// whose size tells the stages apart.
class SeenJob {
 public:
  // `splits`: the dimensions that each groups by. Beyond them the ends of each pipeline
  // share a communicator, where there are more than two stages.
  SeenJob(const std::string& layout, const std::vector<std::string>& splits)
      : layout_(*Layout::Parse(layout, 8)) {
    for (int32_t rank = 0; rank < layout_.world_size(); ++rank) {
      programs_.push_back(std::make_unique<Program>(/*retain=*/true));
      seen_.emplace_back();
      seen_.back().program = programs_.back().get();
      Create(rank, 0, "world", layout_.Group(rank, layout_.all()));
      for (size_t i = 0; i < splits.size(); ++i) {
        const std::vector<int32_t> group =
            layout_.Group(rank, *layout_.ParseSet(splits[i]));
        Create(rank, 1, "world/" + std::to_string(i) + std::to_string(group.front()),
               group);
      }
      if (layout_.classes() > 2)
        CreateForEnds(rank);
      CollectiveCall call;
      call.count = 1 + static_cast<uint64_t>(layout_.ClassOf(rank));
      Op op{.kind = OpKind::kCollective, .a = 1};
      op.b = programs_.back()->AddCollective(call);
      programs_.back()->Append(op);
      seen_.back().end = programs_.back()->size();
    }
  }

  std::vector<SeenRank>& seen() { return seen_; }
  std::string layout() const { return layout_.ToString(); }

 private:
  void Create(int32_t rank, uint32_t parent, const std::string& identity,
              const std::vector<int32_t>& members, int32_t color = 0) {
    Creation call;
    call.parent = parent;
    call.color = color;
    SeenRank& seen = seen_[static_cast<size_t>(rank)];
    Program& program = *programs_[static_cast<size_t>(rank)];
    const auto number = static_cast<uint32_t>(program.size() + 1);
    Op op{.kind = OpKind::kCreateCommunicator, .a = number};
    op.b = program.AddCreation(call);
    program.Append(op);
    if (!members.empty())
      seen.communicators[number] = {identity, members};
  }

  void CreateForEnds(int32_t rank) {
    std::vector<int32_t> ends;
    for (const int32_t member : layout_.Group(rank, *layout_.ParseSet("pp")))
      if (layout_.ClassOf(member) == 0 ||
          layout_.ClassOf(member) + 1 == layout_.classes())
        ends.push_back(member);
    const bool joins = std::find(ends.begin(), ends.end(), rank) != ends.end();
    Create(rank, 1, "ends" + std::to_string(ends.front()),
           joins ? ends : std::vector<int32_t>(), joins ? 0 : protocol::kNoColor);
  }

  Layout layout_;
  std::vector<std::unique_ptr<Program>> programs_;
  std::vector<SeenRank> seen_;
};

TEST(GroupLayoutTest, FindsTheLayoutThatMadeTheCommunicators) {
  // Groups do not tell what a dimension is called: the only one beside pp is dp.
  const std::vector<std::pair<std::string, std::vector<std::string>>> jobs = {
      {"tp=2,pp=2,dp=2", {"tp", "dp", "pp"}},
      {"tp=2,dp=2,pp=2,order=tp-pp-dp", {"tp", "dp", "pp"}},
      {"dp=2,pp=4", {"dp", "none", "pp"}},
      {"dp=4,pp=2", {"dp", "none", "pp"}},
      {"tp=2,dp=4", {"tp", "dp", "none"}},
      {"pp=8", {"none", "none", "pp"}},
      {"dp=8", {"none", "dp", "none"}},
      {"dp=2,pp=4", {"none", "dp", "pp"}}};
  for (const auto& [layout, splits] : jobs) {
    SeenJob job(layout, splits);
    const absl::StatusOr<Layout> found = LayoutOfCommunicators(job.seen());
    ASSERT_TRUE(found.ok()) << layout << ": " << found.status();
    EXPECT_EQ(found->ToString(), job.layout());
  }
}

TEST(GroupLayoutTest, WhatComesAfterTheCommonPointDoesNotCount) {
  SeenJob job("dp=8", {"none", "dp", "none"});
  // Rank 3 is ahead of the others by one collective more.
  auto* program = const_cast<Program*>(job.seen()[3].program);
  Op op{.kind = OpKind::kCollective, .a = 1};
  op.b = program->AddCollective(CollectiveCall{});
  program->Append(op);
  EXPECT_TRUE(LayoutOfCommunicators(job.seen()).ok());
  job.seen()[3].end = program->size();
  // Ranks that do different things are of different stages, and only one is left.
  const auto found = LayoutOfCommunicators(job.seen());
  EXPECT_TRUE(!found.ok() || found->classes() > 1);
}

TEST(GroupLayoutTest, RefusesCommunicatorsThatNoLayoutArranges) {
  SeenJob job("tp=2,dp=4", {"tp", "dp"});
  for (SeenRank& rank : job.seen())  // of the first split: neither tp nor anything else
    rank.communicators[2] = {"odd", {0, 1, 2}};
  const auto found = LayoutOfCommunicators(job.seen());
  ASSERT_FALSE(found.ok());
  EXPECT_THAT(found.status().ToString(), HasSubstr("state --layout"));
}

}  // namespace
}  // namespace vrank::graph
