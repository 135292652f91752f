#include "graph/what_if/what_if.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vrank::graph {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

WhatIf Parsed(const std::string& text) {
  const auto edit = ParseWhatIf(text);
  EXPECT_TRUE(edit.ok()) << edit.status();
  return edit.ok() ? *edit : WhatIf();
}

std::string ErrorOf(const std::string& text) {
  const auto edit = ParseWhatIf(text);
  EXPECT_FALSE(edit.ok()) << text;
  return std::string(edit.status().message());
}

TEST(ParseWhatIfTest, ReadsEveryForm) {
  const WhatIf kernel = Parsed("kernel  *softmax<float, 4>* x0.5");
  EXPECT_EQ(kernel.subject, WhatIf::Subject::kKernel);
  EXPECT_EQ(kernel.name, "*softmax<float, 4>*");
  EXPECT_EQ(kernel.factor, 0.5);
  EXPECT_EQ(kernel.text, "kernel *softmax<float, 4>* x0.5");

  const WhatIf operation = Parsed("reduce_scatter x2");
  EXPECT_EQ(operation.subject, WhatIf::Subject::kCommunication);
  EXPECT_EQ(operation.name, "reduce_scatter");
  EXPECT_EQ(operation.factor, 2);
  EXPECT_TRUE(operation.ChangesCommunication());

  for (const std::string all : {"network", "communication"}) {
    const WhatIf network = Parsed(all + " free");
    EXPECT_EQ(network.subject, WhatIf::Subject::kCommunication);
    EXPECT_EQ(network.name, "");
    EXPECT_EQ(network.factor, 0);
  }

  const WhatIf rank = Parsed("rank 3 host as median");
  EXPECT_EQ(rank.subject, WhatIf::Subject::kHost);
  EXPECT_EQ(rank.rank, 3);
  EXPECT_EQ(rank.change, WhatIf::Change::kMedian);
  EXPECT_EQ(Parsed("rank 3 host as mean").change, WhatIf::Change::kMean);
  EXPECT_EQ(Parsed("rank 0 host x0").factor, 0);
  EXPECT_EQ(Parsed("host free").rank, -1);
  EXPECT_EQ(Parsed("busiest stream x2").subject, WhatIf::Subject::kBusiestStream);
  EXPECT_EQ(Parsed("busiest stream x2").factor, 2);
  EXPECT_EQ(Parsed("gaps free").subject, WhatIf::Subject::kGaps);
  EXPECT_EQ(Parsed("launch_latency x0.1").subject, WhatIf::Subject::kLaunchLatency);
  EXPECT_EQ(Parsed("no stragglers").subject, WhatIf::Subject::kStragglers);
  EXPECT_EQ(Parsed("no stragglers").change, WhatIf::Change::kMedian);
  EXPECT_EQ(Parsed("no stragglers as mean").change, WhatIf::Change::kMean);
}

TEST(ParseWhatIfTest, RefusesWhatItDoesNotKnow) {
  EXPECT_THAT(ErrorOf(""), HasSubstr("states no change"));
  EXPECT_THAT(ErrorOf("all_reduce"), HasSubstr("states no change"));
  EXPECT_THAT(ErrorOf("all_reduc x0.5"), HasSubstr("nearest: all_reduce"));
  for (const std::string factor : {"0.5", "x", "x-1", "xnan", "xinf", "x0.5s", "x1001"})
    EXPECT_THAT(ErrorOf("all_reduce " + factor), HasSubstr("'" + factor + "'"));
  for (const char* const rank : {"rank -1 host free", "rank x host free", "rank 3 free",
                                 "rank 99999999999 host free", "rank host free"})
    EXPECT_THAT(ErrorOf(rank), HasSubstr("nothing is named"));
  EXPECT_THAT(ErrorOf("kernel x0.5"), HasSubstr("nothing is named 'kernel'"));
  EXPECT_THAT(ErrorOf("kernel a* as median"), HasSubstr("`no stragglers`"));
  EXPECT_THAT(ErrorOf("busiest streams x2"), HasSubstr("nearest: busiest stream"));
  EXPECT_THAT(ErrorOf("as median"), HasSubstr("nothing is named"));
  EXPECT_THAT(ErrorOf("no stragglers x2"),
              HasSubstr("nothing is named 'no stragglers'"));
  // The command takes it for a wrong command line.
  EXPECT_EQ(ErrorOf("x y").rfind("--what-if 'x y': ", 0), 0u);
}

TEST(GlobMatchesTest, MatchesWholeTexts) {
  EXPECT_TRUE(GlobMatches("*soft*max*", "at::softmax_softmax_kernel"));
  EXPECT_TRUE(GlobMatches("a?c", "abc"));
  EXPECT_TRUE(GlobMatches("*", ""));
  EXPECT_TRUE(GlobMatches("a*b*c", "a-b-b-c"));
  EXPECT_FALSE(GlobMatches("softmax", "softmax_kernel"));
  EXPECT_FALSE(GlobMatches("?", ""));
  EXPECT_FALSE(GlobMatches("a*c", "ab"));
  EXPECT_FALSE(GlobMatches("", "a"));
}

TEST(NearestNamesTest, SortsByTheFewestEditsToAPart) {
  EXPECT_THAT(NearestNames("*sofmax*", {"gemm", "at::softmax_warp_forward", "copy"}, 1),
              ElementsAre("at::softmax_warp_forward"));
  EXPECT_EQ(NearestNames("a", {"b", "c"}, 5).size(), 2u);
}

}  // namespace
}  // namespace vrank::graph
