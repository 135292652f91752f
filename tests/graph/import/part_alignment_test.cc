// Which parts of two ranks belong together, and when none do.

#include "graph/import/part_alignment.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vrank::graph {
namespace {

using testing::Each;
using testing::ElementsAre;

constexpr int64_t kMs = 1'000'000;

// A collective of every rank that ends at `end_ms`; its part lasts `ms`.
RecordedPart Part(int64_t end_ms, int64_t ms = 1) {
  RecordedPart part;
  part.time = {(end_ms - ms) * kMs, end_ms * kMs};
  part.meeting = Meeting::kMutual;
  return part;
}

std::vector<RecordedPart> Parts(const std::vector<int64_t>& ends_ms) {
  std::vector<RecordedPart> parts;
  for (const int64_t end_ms : ends_ms)
    parts.push_back(Part(end_ms));
  return parts;
}

std::vector<RecordedPart> Shifted(std::vector<RecordedPart> parts, int64_t ms) {
  for (RecordedPart& part : parts)
    part.time = {part.time.begin_ns + ms * kMs, part.time.end_ns + ms * kMs};
  return parts;
}

constexpr size_t kNo = kNoPart;

TEST(PartAlignmentTest, SkipsWhatOneRankLacks) {
  const auto all = Parts({10, 20, 35, 50});
  EXPECT_THAT(AlignParts(all, Parts({10, 35, 50})), ElementsAre(0, kNo, 1, 2));
  EXPECT_THAT(AlignParts(Parts({10, 35, 50}), all), ElementsAre(0, 2, 3));
  EXPECT_THAT(AlignParts(all, Parts({20, 35, 50})), ElementsAre(kNo, 0, 1, 2));
  // Each lacks another one: equal counts, and still not the n-th with the n-th.
  EXPECT_THAT(AlignParts(Parts({10, 20, 35}), Parts({20, 35, 50})),
              ElementsAre(kNo, 0, 1));
}

// A difference of clocks that is longer than the collectives are apart.
TEST(PartAlignmentTest, IgnoresAConstantDifferenceOfClocks) {
  const auto all = Parts({10, 20, 35, 50});
  for (const int64_t ms : {-3000, -10, 7, 15, 3000}) {
    EXPECT_THAT(AlignParts(all, Shifted(all, ms)), ElementsAre(0, 1, 2, 3)) << ms;
    EXPECT_THAT(AlignParts(all, Shifted(Parts({10, 35, 50}), ms)),
                ElementsAre(0, kNo, 1, 2))
        << ms;
  }
}

TEST(PartAlignmentTest, TellsCallsApart) {
  auto a = Parts({10, 20, 30}), b = Parts({10, 30});
  for (auto member : {&RecordedPart::operation, &RecordedPart::type}) {
    auto of_a = a, of_b = b;
    of_a[1].*member = 7;
    EXPECT_THAT(AlignParts(of_a, of_b), ElementsAre(0, kNo, 1));
    of_b[1].*member = 7;
    EXPECT_THAT(AlignParts(of_a, Shifted(of_b, 0))[2], kNo);
  }
  b[1].count = 9;
  EXPECT_THAT(AlignParts(a, b), Each(kNo));  // one of three is no run in common
}

TEST(PartAlignmentTest, NumbersDecideWhereAllHaveThem) {
  auto a = Parts({10, 20, 30}), b = Parts({10, 20, 30});
  for (size_t i = 0; i < 3; ++i) {
    a[i].sequence = static_cast<int64_t>(1 + i);
    b[i].sequence = static_cast<int64_t>(2 + i);
  }
  EXPECT_THAT(AlignParts(a, b), ElementsAre(kNo, 0, 1));
  b[2].sequence = -1;
  EXPECT_THAT(AlignParts(a, b), ElementsAre(0, 1, 2));
  b[2].sequence = b[1].sequence;
  EXPECT_THAT(AlignParts(a, b), ElementsAre(0, 1, 2));
}

TEST(PartAlignmentTest, StepsDecideWithoutNumbers) {
  auto a = Parts({10, 20, 30}), b = Parts({20, 30, 40});
  const char* const names[] = {"ProfilerStep#1", "ProfilerStep#2", "ProfilerStep#3",
                               "ProfilerStep#4"};
  for (size_t i = 0; i < 3; ++i) {
    a[i].step = names[i];
    b[i].step = names[i + 1];
  }
  EXPECT_THAT(AlignParts(a, Shifted(b, 500)), ElementsAre(kNo, 0, 1));
  // Names that the ranks do not share decide nothing.
  for (size_t i = 0; i < 3; ++i)
    b[i].step = "ProfilerStep#77";
  EXPECT_THAT(AlignParts(a, Shifted(b, -10)), ElementsAre(0, 1, 2));
}

// No clock difference explains more than a few of these.
TEST(PartAlignmentTest, PairsNothingOfTwoRuns) {
  const auto a = Parts({10, 13, 29, 50, 58});
  EXPECT_THAT(AlignParts(a, Parts({4, 19, 27, 33, 46, 63, 71, 80, 94, 99, 120})),
              Each(kNo));
}

// A receive does not end before its send begins; a send may end before its receive
// begins.
TEST(PartAlignmentTest, SendsMayEndBeforeTheirReceivesBegin) {
  auto sends = Parts({10, 20, 30, 40}), receives = Parts({12, 22, 45, 46});
  for (RecordedPart& part : sends)
    part.meeting = Meeting::kForward;
  EXPECT_THAT(AlignParts(sends, receives), ElementsAre(0, 1, 2, 3));
}

TEST(PartAlignmentTest, ManyPartsOfWhichOneIsMissing) {
  std::vector<RecordedPart> a;
  for (int64_t i = 0; i < 6'000; ++i)
    a.push_back(Part(10 + 3 * i + i % 2));
  auto b = a;
  b.erase(b.begin() + 2'345);
  const auto partner = AlignParts(a, b);
  size_t right = 0;
  for (size_t i = 0; i < a.size(); ++i)
    right += partner[i] == (i < 2'345 ? i : i == 2'345 ? kNo : i - 1);
  EXPECT_EQ(right, a.size());
}

}  // namespace
}  // namespace vrank::graph
