#include "graph/import/decimal_time.h"

#include <random>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace vrank::graph {
namespace {

TEST(DecimalTimeTest, KeepsEveryNanosecond) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 10'000; ++i) {
    const auto ns = static_cast<int64_t>(random() % 2'000'000'000'000'000'000);
    EXPECT_EQ(ParseMicroseconds(fmt::format("{}.{:03}", ns / 1000, ns % 1000)), ns);
    EXPECT_EQ(ParseMicroseconds(fmt::format("-{}.{:03}", ns / 1000, ns % 1000)), -ns);
    EXPECT_EQ(ParseMicroseconds(fmt::format("{}", ns / 1000)), ns / 1000 * 1000);
  }
  EXPECT_EQ(ParseMicroseconds("1.5"), 1'500);
  EXPECT_EQ(ParseMicroseconds("1.23456789"), 1'234);
  EXPECT_EQ(ParseMicroseconds("1.5e3"), 1'500'000);
}

TEST(DecimalTimeTest, RefusesWhatIsNoTime) {
  for (const char* text : {"", "-", ".", "x", "1x", "1.x", "--1", "1e99", "NaN", "Inf",
                           "-Infinity", "99999999999999999999", "1.5.5", "0x10"})
    EXPECT_FALSE(ParseMicroseconds(text).has_value()) << text;
}

}  // namespace
}  // namespace vrank::graph
