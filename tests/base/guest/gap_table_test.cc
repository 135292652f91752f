// What is put in is found, and nothing else, also where keys collide.

#include "base/guest/gap_table.h"

#include <memory>

#include <gtest/gtest.h>

namespace vrank {
namespace {

TEST(GapTableTest, FindsWhatIsThere) {
  const auto gaps = std::make_unique<protocol::RecordedGaps>();
  EXPECT_EQ(FindGap(gaps.get(), 7), nullptr);
  // The last place of the table: the second one goes around its end.
  const uint64_t last = protocol::kRecordedGaps - 1;
  for (const uint64_t key : {last, last + protocol::kRecordedGaps, uint64_t{7}})
    *FindGapEntry(gaps.get(), key) = {key, static_cast<int64_t>(key) * 2};
  EXPECT_EQ(FindGap(gaps.get(), last)->ns, static_cast<int64_t>(last) * 2);
  EXPECT_EQ(FindGap(gaps.get(), last + protocol::kRecordedGaps)->ns,
            static_cast<int64_t>(last + protocol::kRecordedGaps) * 2);
  EXPECT_EQ(FindGap(gaps.get(), 7)->ns, 14);
  EXPECT_EQ(FindGap(gaps.get(), 8), nullptr);
  EXPECT_EQ(FindGap(gaps.get(), last + 2 * protocol::kRecordedGaps), nullptr);
}

}  // namespace
}  // namespace vrank
