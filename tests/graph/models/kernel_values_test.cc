// What a file of values says to the guests, and what is wrong with one.

#include "graph/models/kernel_values.h"

#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vrank::graph {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<std::string> Read(const std::string& text) {
  const std::string path = testing::TempDir() + "/kernel_values_test.textproto";
  std::ofstream(path) << text;
  auto rules = ReadKernelValues(path);
  std::filesystem::remove(path);
  return rules;
}

TEST(KernelValuesTest, ElementsAreWrittenAsInMemory) {
  const auto rules = Read(R"(
    rule { kernel: "*all*" type: BOOL value: 1 }
    rule { kernel: "a b" type: FLOAT32 value: 2.5 }
    rule { kernel: "c" type: BFLOAT16 value: 1 }
    rule { kernel: "d" type: FLOAT16 value: -2 }
    rule { kernel: "e" type: INT64 value: -2 }
    rule { kernel: "f" type: INT16 value: 258 })");
  ASSERT_TRUE(rules.ok()) << rules.status();
  EXPECT_EQ(*rules,
            "01 *all*\n00002040 a b\n803f c\n00c0 d\nfeffffffffffffff e\n0201 f\n");
}

TEST(KernelValuesTest, WhatIsWrongIsNamedByRule) {
  const auto rules = Read(R"(
    rule { kernel: "a" type: UINT8 value: 256 }
    rule { type: INT32 value: 1.5 }
    rule { kernel: "b" value: 1 })");
  const std::string told(rules.status().message());
  EXPECT_THAT(told, HasSubstr("rule 1: UINT8 has no value 256"));
  EXPECT_THAT(told, HasSubstr("rule 2: `kernel` must be a name"));
  EXPECT_THAT(told, HasSubstr("rule 2: INT32 has no value 1.5"));
  EXPECT_THAT(told, HasSubstr("rule 3: `type` must be"));
}

}  // namespace
}  // namespace vrank::graph
