// What tables show of figures and names.

#include "tools/output_style.h"

#include <gtest/gtest.h>

namespace vrank::tools {
namespace {

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
