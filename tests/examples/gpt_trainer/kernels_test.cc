// Every kernel has its costs described, and nothing else is.

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>

#include <gtest/gtest.h>

namespace gpt {
namespace {

std::set<std::string> FirstGroups(const std::filesystem::path& path,
                                  const std::regex& pattern) {
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file),
                         std::istreambuf_iterator<char>()};
  std::set<std::string> found;
  for (std::sregex_iterator match(text.begin(), text.end(), pattern), end; match != end;
       ++match) {
    found.insert((*match)[1]);
  }
  return found;
}

TEST(KernelsTest, AreDescribedOneByOne) {
  const std::filesystem::path folder = GPT_TRAINER_SOURCES;
  std::set<std::string> kernels;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "kernels")) {
    if (entry.path().extension() == ".cu") {
      kernels.merge(
          FirstGroups(entry.path(), std::regex(R"(GPT_KERNEL\s+void\s+(\w+))")));
    }
  }
  EXPECT_FALSE(kernels.empty());
  EXPECT_EQ(FirstGroups(folder / "kernels.textproto",
                        std::regex(R"re(name:\s*"gpt::(\w+)")re")),
            kernels);
}

}  // namespace
}  // namespace gpt
