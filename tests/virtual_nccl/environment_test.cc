#include "virtual_nccl/core/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vrank::nccl {
namespace {

using ::testing::ElementsAre;

TEST(EnvironmentTest, TellsHonouredIgnoredAndForeignVariablesApart) {
  const char* const environment[] = {
      "PATH=/bin",       "NCCL_TESTS_DEVICE=1",  "NCCL_NVLS_ENABLE=0",
      "NCCL_DEBUG=INFO", "NCCL_ALGO=Ring",       "NCCL_VERSION=2.28",
      "XNCCL_ALGO=Ring", "NCCL_COMM_BLOCKING=0", nullptr};
  const NcclVariables found = FindNcclVariables(environment);
  EXPECT_THAT(found.honoured, ElementsAre("NCCL_COMM_BLOCKING", "NCCL_DEBUG"));
  EXPECT_THAT(found.ignored, ElementsAre("NCCL_ALGO", "NCCL_NVLS_ENABLE"));
  EXPECT_TRUE(FindNcclVariables(nullptr).honoured.empty());
}

TEST(EnvironmentTest, NamesValuesThatNcclDoesNotTake) {
  const char* const environment[] = {"NCCL_COMM_BLOCKING=7",  "NCCL_DEBUG=loud",
                                     "NCCL_COMM_BLOCKING=-1", "NCCL_CHECK_POINTERS=yes",
                                     "NCCL_LOCAL_REGISTER=2", nullptr};
  EXPECT_THAT(
      FindNcclVariables(environment).unusable,
      ElementsAre("NCCL_CHECK_POINTERS=yes (a number)",
                  "NCCL_COMM_BLOCKING=-1 (0 or 1)", "NCCL_COMM_BLOCKING=7 (0 or 1)",
                  "NCCL_DEBUG=loud (VERSION, WARN, INFO, ABORT or TRACE)"));
  const char* const fine[] = {"NCCL_COMM_BLOCKING=1",
                              "NCCL_COMM_BLOCKING=", "NCCL_DEBUG=info",
                              "NCCL_CHECK_POINTERS=0", nullptr};
  EXPECT_TRUE(FindNcclVariables(fine).unusable.empty());
}

}  // namespace
}  // namespace vrank::nccl
