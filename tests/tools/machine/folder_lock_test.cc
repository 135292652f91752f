// One run of vrank per folder.

#include "tools/machine/folder_lock.h"

#include <filesystem>
#include <optional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vrank::tools {
namespace {

using testing::HasSubstr;

TEST(FolderLockTest, HasOneHolderAtATime) {
  const std::string folder = testing::TempDir() + "/folder_lock";
  std::filesystem::create_directories(folder);
  {
    absl::StatusOr<FolderLock> first = FolderLock::Take(folder);
    ASSERT_TRUE(first.ok()) << first.status();
    const FolderLock moved = *std::move(first);
    EXPECT_THAT(FolderLock::Take(folder).status().ToString(),
                HasSubstr("another vrank is tracing into this folder"));
  }
  EXPECT_TRUE(FolderLock::Take(folder).ok());
  std::filesystem::remove(folder);
  EXPECT_FALSE(FolderLock::Take(folder).ok());
}

}  // namespace
}  // namespace vrank::tools
