#include "virtual_nccl/core/unique_id.h"

#include <string>

#include <gtest/gtest.h>

namespace vrank::nccl {
namespace {

TEST(UniqueIdTest, IsTheSameInEveryRunAndDifferentWithinAJob) {
  auto bytes = [](const ncclUniqueId& id) {
    return std::string(id.internal, sizeof id.internal);
  };
  EXPECT_EQ(bytes(MakeUniqueId(nullptr, 3, 1)), bytes(MakeUniqueId(nullptr, 3, 1)));
  EXPECT_NE(bytes(MakeUniqueId(nullptr, 3, 1)), bytes(MakeUniqueId(nullptr, 3, 2)));
  EXPECT_NE(bytes(MakeUniqueId(nullptr, 3, 1)), bytes(MakeUniqueId(nullptr, 1, 3)));
  EXPECT_EQ(bytes(MakeUniqueId("127.0.0.1:5000", 3, 1)),
            bytes(MakeUniqueId("127.0.0.1:5000", 0, 1)));
  EXPECT_NE(bytes(MakeUniqueId("127.0.0.1:5000", 3, 1)),
            bytes(MakeUniqueId("127.0.0.1:5000", 3, 2)));
  EXPECT_EQ(bytes(MakeUniqueId("", 3, 1)), bytes(MakeUniqueId(nullptr, 3, 1)));
}

TEST(UniqueIdTest, HashesChildrenByParentSplitAndColor) {
  EXPECT_NE(HashOfChild(1, 0, 0), HashOfChild(2, 0, 0));
  EXPECT_NE(HashOfChild(1, 0, 0), HashOfChild(1, 1, 0));
  EXPECT_NE(HashOfChild(1, 0, 0), HashOfChild(1, 0, 1));
}

}  // namespace
}  // namespace vrank::nccl
