#include "emulator/launch/command_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/emulator/launch/temporary_folder.h"

namespace vrank::emulator {
namespace {

using testing::HasSubstr;

std::string ErrorOf(const std::string& command) {
  return ResolveCommand(command).status().ToString();
}

TEST(CommandCheckTest, FindsProgramsOnPath) {
  EXPECT_EQ(ResolveCommand("/bin/sh").value(), "/bin/sh");
  EXPECT_THAT(ResolveCommand("sh").value(), HasSubstr("/sh"));
}

TEST(CommandCheckTest, NamesWhatIsNotThere) {
  EXPECT_THAT(ErrorOf("no-such-program-anywhere"),
              HasSubstr("no such program on PATH"));
  EXPECT_THAT(ErrorOf("./no-such-file"), HasSubstr("No such file"));
  EXPECT_THAT(ErrorOf(""), HasSubstr("name a program"));
}

TEST(CommandCheckTest, RefusesFilesThatAreNoPrograms) {
  TemporaryFolder folder;
  EXPECT_THAT(ErrorOf(folder.Write("data", "x")), HasSubstr("not an executable file"));
  EXPECT_THAT(ErrorOf(folder.path()), HasSubstr("not an executable file"));
  EXPECT_THAT(ErrorOf(folder.Write("text", "echo", true)),
              HasSubstr("neither a program"));
  EXPECT_THAT(ErrorOf(folder.Write("empty", "", true)), HasSubstr("neither a program"));
}

TEST(CommandCheckTest, JudgesAScriptByItsInterpreter) {
  TemporaryFolder folder;
  EXPECT_TRUE(ResolveCommand(folder.Write("good", "#! /bin/sh -e\n:\n", true)).ok());
  EXPECT_THAT(ErrorOf(folder.Write("bad", "#!/no/such/shell\n", true)),
              HasSubstr("'/no/such/shell' is not there"));
}

TEST(CommandCheckTest, RefusesStaticBinaries) {
  const auto own_folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  EXPECT_THAT(ErrorOf((own_folder / "static_program").string()),
              HasSubstr("static binary"));
}

TEST(CommandCheckTest, RefusesFilesCutShort) {
  TemporaryFolder folder;
  const std::string shell = [] {
    std::stringstream text;
    text << std::ifstream("/bin/sh", std::ios::binary).rdbuf();
    return text.str();
  }();
  for (size_t length : {4u, 63u, 64u, 100u, 500u, 5000u})
    (void)ResolveCommand(folder.Write("cut", shell.substr(0, length), true));
  EXPECT_THAT(ErrorOf(folder.Write("cut", shell.substr(0, 20), true)),
              HasSubstr("another processor"));
}

}  // namespace
}  // namespace vrank::emulator
