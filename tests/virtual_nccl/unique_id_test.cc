#include "virtual_nccl/core/unique_id.h"

#include <cstring>
#include <string>

#include <gtest/gtest.h>

#include "base/guest/shared_id.h"

namespace vrank::nccl {
namespace {

TEST(UniqueIdTest, IsTheSameInEveryRunAndDifferentWithinAJob) {
  auto bytes = [](const ncclUniqueId& id) {
    return std::string(id.internal, sizeof id.internal);
  };
  EXPECT_EQ(bytes(MakeUniqueId(nullptr, 3, 1)), bytes(MakeUniqueId(nullptr, 3, 1)));
  EXPECT_NE(bytes(MakeUniqueId(nullptr, 3, 1)), bytes(MakeUniqueId(nullptr, 3, 2)));
  EXPECT_NE(bytes(MakeUniqueId(nullptr, 3, 1)), bytes(MakeUniqueId(nullptr, 1, 3)));
  EXPECT_EQ(HashOf(MakeUniqueId("127.0.0.1:5000", 3, 1)),
            HashOf(MakeUniqueId("127.0.0.1:5000", 0, 1)));
  EXPECT_NE(bytes(MakeUniqueId("127.0.0.1:5000", 3, 1)),
            bytes(MakeUniqueId("127.0.0.1:5000", 3, 2)));
  EXPECT_EQ(bytes(MakeUniqueId("", 3, 1)), bytes(MakeUniqueId(nullptr, 3, 1)));
}

TEST(UniqueIdTest, SharedIdsDifferInTheirMakerOnly) {
  ncclUniqueId id = MakeUniqueId("127.0.0.1:5000", 70'000, 1);
  ncclUniqueId other = MakeUniqueId("127.0.0.1:5000", 0, 1);
  ASSERT_TRUE(IsSharedId(&id));
  EXPECT_FALSE(IsSharedId(MakeUniqueId(nullptr, 3, 1).internal));
  EXPECT_EQ(MakerOfSharedId(&id), 70'000);
  EXPECT_EQ(MakerOfSharedId(&other), 0);
  SetMakerOfSharedId(&id, -1);
  EXPECT_EQ(MakerOfSharedId(&id), -1);
  EXPECT_NE(memcmp(&id, &other, sizeof id), 0);
  SetMakerOfSharedId(&other, -1);
  EXPECT_EQ(memcmp(&id, &other, sizeof id), 0);
}

TEST(UniqueIdTest, HashesChildrenByParentSplitAndColor) {
  EXPECT_NE(HashOfChild(1, 0, 0), HashOfChild(2, 0, 0));
  EXPECT_NE(HashOfChild(1, 0, 0), HashOfChild(1, 1, 0));
  EXPECT_NE(HashOfChild(1, 0, 0), HashOfChild(1, 0, 1));
}

}  // namespace
}  // namespace vrank::nccl
