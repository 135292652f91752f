// Keys of gaps are made of the calls before them.

#include "base/guest/anchor_history.h"

#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace vrank {
namespace {

const uint64_t kLaunch = MakeAnchor("cudaLaunchKernel");
const uint64_t kCopy = MakeAnchor("cudaMemcpyAsync");

GapKeys PassAll(AnchorHistory* history, const std::vector<uint64_t>& anchors) {
  GapKeys keys{};
  for (const uint64_t anchor : anchors)
    keys = history->Pass(anchor);
  return keys;
}

TEST(AnchorHistoryTest, TheSameCallsGiveTheSameKeys) {
  AnchorHistory one(1), other(1);
  for (int i = 0; i < 100; ++i) {
    const uint64_t anchor = i % 3 == 0 ? kCopy : kLaunch;
    EXPECT_EQ(one.Pass(anchor).keys, other.Pass(anchor).keys);
  }
}

TEST(AnchorHistoryTest, ShorterKeysForgetWhatIsFurtherBack) {
  AnchorHistory one(1), other(1);
  const GapKeys a = PassAll(&one, {kCopy, kLaunch, kCopy, kLaunch});
  const GapKeys b = PassAll(&other, {kLaunch, kLaunch, kCopy, kLaunch});
  EXPECT_NE(a.keys[0], b.keys[0]);
  EXPECT_EQ(a.keys[1], b.keys[1]);
  EXPECT_EQ(a.keys[2], b.keys[2]);
  EXPECT_EQ(a.keys[3], b.keys[3]);
}

TEST(AnchorHistoryTest, TheShortestKeyIsOfTheKindAlone) {
  AnchorHistory one(1), other(1);
  const GapKeys a = one.Pass(RefineAnchor(kLaunch, HashText("gemm")));
  const GapKeys b = other.Pass(RefineAnchor(kLaunch, HashText("softmax")));
  EXPECT_NE(a.keys[2], b.keys[2]);
  EXPECT_EQ(a.keys[3], b.keys[3]);
  EXPECT_NE(other.Pass(kCopy).keys[3], b.keys[3]);
}

TEST(AnchorHistoryTest, NamesThatEndDifferentlyAreOfDifferentKinds) {
  std::set<uint64_t> kinds;
  for (const char* name : {"a", "b", "cudaMalloc", "cudaMallod", "cudaEventQuery",
                           "cudaEventQuerx", "cublasGemmEx", "cublasGemmEy"})
    kinds.insert(MakeAnchor(name) & kAnchorKind);
  EXPECT_EQ(kinds.size(), 8u);
}

TEST(AnchorHistoryTest, TheFirstTimeIsAnotherGap) {
  AnchorHistory history(1);
  std::vector<GapKeys> keys;
  for (int i = 0; i < 24; ++i) {
    history.Pass(kCopy);
    keys.push_back(history.Pass(kLaunch));
  }
  EXPECT_NE(keys[3].keys, keys[4].keys);  // eight alike for the first time
  EXPECT_EQ(keys[5].keys, keys[23].keys);
}

// The gap behind the last of many launches has another key than those between them. A
// loop that polls has a bounded number of keys.
TEST(AnchorHistoryTest, AStretchOfOneCallIsCounted) {
  AnchorHistory history(1);
  std::set<uint64_t> longest, shorter;
  for (int iteration = 0; iteration < 10; ++iteration) {
    history.Pass(kCopy);
    for (int i = 0; i < 20; ++i) {
      const GapKeys each = history.Pass(kLaunch);
      if (iteration > 4) {
        longest.insert(each.keys[0]);
        shorter.insert(each.keys[1]);
      }
    }
  }
  EXPECT_EQ(longest.size(), 20u);
  EXPECT_EQ(shorter.size(), 1u);
  std::set<uint64_t> polling;
  for (int i = 0; i < 10'000; ++i)
    polling.insert(history.Pass(kLaunch).keys[0]);
  EXPECT_LT(polling.size(), 2100u);
}

TEST(AnchorHistoryTest, AnotherRoleHasOtherKeys) {
  AnchorHistory one(1), other(2);
  const GapKeys a = one.Pass(kLaunch), b = other.Pass(kLaunch);
  for (size_t i = 0; i < a.keys.size(); ++i)
    EXPECT_NE(a.keys[i], b.keys[i]);
}

TEST(AnchorHistoryTest, NoKeyIsZeroAndFewCollide) {
  AnchorHistory history(1);
  std::set<uint64_t> keys;
  uint64_t anchor = 1;
  constexpr int kPassed = 20'000;
  for (int i = 0; i < kPassed; ++i) {
    anchor = MixHash(anchor, static_cast<uint64_t>(i));
    const GapKeys each = history.Pass(anchor);
    for (const uint64_t key : each.keys)
      EXPECT_NE(key, 0u);
    keys.insert(each.keys[0]);
  }
  EXPECT_EQ(keys.size(), static_cast<size_t>(kPassed));
}

}  // namespace
}  // namespace vrank
