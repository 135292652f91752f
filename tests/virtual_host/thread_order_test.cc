// Threads that are woken together go on in the order in which they had begun to wait,
// one at a time.

#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/virtual_host/rank_session.h"

namespace vrank::host {
namespace {

using testing::ElementsAre;

class ThreadOrderTest : public testing::TestWithParam<const char*> {};

TEST_P(ThreadOrderTest, PassesFromInside) {
  const std::string folder =
      std::filesystem::read_symlink("/proc/self/exe").parent_path().string();
  RankSession session;
  ASSERT_TRUE(
      session
          .Start({folder + "/thread_order_guest", GetParam()}, folder + "/../lib/vrank")
          .ok());
  ASSERT_TRUE(session.RunToEnd());
  EXPECT_THAT(session.lines, ElementsAre(std::string("passed ") + GetParam()));
  EXPECT_THAT(session.errors, ElementsAre());
  EXPECT_EQ(session.exit, "exit code 0");
}

INSTANTIATE_TEST_SUITE_P(All, ThreadOrderTest,
                         testing::Values("signals", "signals_one_by_one", "broadcasts",
                                         "posts", "limits", "cancels", "shares",
                                         "crosses", "hidden", "joins", "joins_any_end",
                                         "barriers", "shares_a_barrier"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace vrank::host
