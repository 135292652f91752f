// What tables show of figures and names.

#include "tools/terminal/output_style.h"

#include <gtest/gtest.h>

namespace vrank::tools {
namespace {

TEST(OutputStyleTest, FormatsNumbers) {
  EXPECT_EQ(FormatTime(999), "999 ns");
  EXPECT_EQ(FormatTime(12'345'678), "12.346 ms");
  EXPECT_EQ(FormatBytes(1536), "1.50 KiB");
  EXPECT_EQ(FormatCount(1), "1");
  EXPECT_EQ(FormatCount(123), "123");
  EXPECT_EQ(FormatCount(1234567), "1,234,567");
  EXPECT_EQ(FormatPercent(0.0001), "< 0.1 %");
}

TEST(OutputStyleTest, LeavesShortNamesAlone) {
  EXPECT_EQ(Shortened("void scale<float>(float*, int)"),
            "void scale<float>(float*, int)");
  EXPECT_EQ(Shortened("Memcpy HtoD (Pageable -> Device)"),
            "Memcpy HtoD (Pageable -> Device)");
}

TEST(OutputStyleTest, ShowsWhatTellsLongNamesApart) {
  const std::string begin =
      "void at::native::vectorized_elementwise_kernel<4, "
      "at::native::(anonymous namespace)::";
  const std::string end =
      ", std::array<char*, 1ul> >(int, at::native::FillFunctor<float>, "
      "std::array<char*, 1ul>)";
  EXPECT_EQ(Shortened(begin + "Fill<int>" + end),
            "vectorized_elementwise_kernel<4, Fill...:array<char*, 1ul> >");
  EXPECT_NE(Shortened(begin + "Fill<int>" + end), Shortened(begin + "Add<int>" + end));
  const std::string long_name(200, 'x');
  EXPECT_EQ(Shortened(long_name + "end").size(), 60u);
  EXPECT_TRUE(Shortened(long_name + "end").ends_with("xend"));
}

TEST(OutputStyleTest, APartIsNeverNothing) {
  EXPECT_EQ(FormatPercent(0), "0.0 %");
  EXPECT_EQ(FormatPercent(1e-9), "< 0.1 %");
}

}  // namespace
}  // namespace vrank::tools
