#include "tools/commands/compare_command.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/scratch_folder.h"
#include "tests/tools/replay_result.h"

namespace vrank::tools {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using Json = nlohmann::ordered_json;

class CompareCommandTest : public testing::Test {
 protected:
  void SetUp() override {
    Write("base.json", Replay(1000, 600, 300, 64).dump());
    Write("new.json", Replay(1050, 600, 350, 64).dump());
  }

  std::string At(const std::string& name) const { return folder_ / name; }
  void Write(const std::string& name, const std::string& text) {
    std::ofstream(At(name)) << text;
  }
  std::string Text(const std::string& name) const {
    std::ifstream file(At(name));
    return {std::istreambuf_iterator<char>(file), {}};
  }
  int Run(std::vector<std::string> more) {
    std::vector<std::string> arguments = {At("base.json"), At("new.json")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    testing::internal::CaptureStdout();
    const int code = RunCompareCommand(SplitAtDashes(arguments));
    fflush(stdout);
    out_ = testing::internal::GetCapturedStdout();
    return code;
  }

  ScratchFolder folder_;
  std::string out_;
};

TEST_F(CompareCommandTest, PassesFailsAndReports) {
  EXPECT_EQ(Run({}), kExitFine);
  EXPECT_THAT(out_, AllOf(HasSubstr("+5.00 %"), HasSubstr("all_gather"),
                          Not(HasSubstr("FAILS"))));
  EXPECT_EQ(Run({"--fail-if", "iteration_time > +5%"}), kExitFine);
  EXPECT_THAT(out_, HasSubstr("holds: iteration_time > +5%"));
  EXPECT_EQ(Run({"--fail-if", "iteration_time > +4%", "--fail-if", "peak_memory > +0%",
                 "--markdown", At("c.md"), "--junit", At("c.xml"), "--json"}),
            3);
  const Json json = Json::parse(out_);
  EXPECT_EQ(json["schema"], "vrank.compare/1");
  EXPECT_EQ(json["verdict"], "failed");
  EXPECT_EQ(json["findings"][0]["change"], 0.05);
  EXPECT_EQ(json["limits"][0]["holds"], false);
  EXPECT_EQ(json["limits"][1]["holds"], true);
  EXPECT_THAT(Text("c.md"), HasSubstr("**`iteration_time > +4%` fails**"));
  EXPECT_THAT(Text("c.xml"), AllOf(HasSubstr("tests=\"2\" failures=\"1\""),
                                   HasSubstr("name=\"iteration_time &gt; +4%\"")));
}

TEST_F(CompareCommandTest, RefusesBadCommandLinesAndFiles) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(Run({"--fail-if", "nonsense"}), kExitUsage);
  EXPECT_EQ(Run({"--markdown", At("none/c.md")}), kExitFailed);
  std::filesystem::remove(At("new.json"));
  EXPECT_EQ(Run({}), kExitFailed);
  const std::string error = testing::internal::GetCapturedStderr();
  EXPECT_THAT(error, AllOf(HasSubstr("nonsense"), HasSubstr("--markdown"),
                           HasSubstr("new.json")));
}

}  // namespace
}  // namespace vrank::tools
