#include "emulator/launch/line_relay.h"

#include <fcntl.h>
#include <unistd.h>

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/emulator/launch/temporary_folder.h"

namespace vrank::emulator {
namespace {

using testing::ElementsAre;

class LineRelayTest : public testing::Test {
 protected:
  LineRelayTest() { EXPECT_EQ(pipe2(pipe_, O_CLOEXEC | O_NONBLOCK), 0); }
  ~LineRelayTest() override { CloseInput(); }

  void Write(const std::string& text) {
    ASSERT_EQ(write(pipe_[1], text.data(), text.size()),
              static_cast<ssize_t>(text.size()));
  }
  void CloseInput() {
    if (pipe_[1] >= 0)
      close(pipe_[1]);
    pipe_[1] = -1;
  }
  LineRelay::Sink Sink() {
    return [this](std::string_view line) { lines_.emplace_back(line); };
  }

  int pipe_[2];
  std::vector<std::string> lines_;
};

TEST_F(LineRelayTest, CutsOutputIntoLines) {
  LineRelay relay(pipe_[0], -1, "", Sink());
  Write("one\ntw");
  EXPECT_TRUE(relay.Read().value());
  EXPECT_THAT(lines_, ElementsAre("one"));
  Write("o\r\n\nthree");
  EXPECT_TRUE(relay.Read().value());
  EXPECT_THAT(lines_, ElementsAre("one", "two", ""));
  CloseInput();
  EXPECT_FALSE(relay.Read().value());
  EXPECT_THAT(lines_, ElementsAre("one", "two", "", "three"));
  EXPECT_FALSE(relay.open());
}

TEST_F(LineRelayTest, DeliversEndlessLinesInPieces) {
  LineRelay relay(pipe_[0], -1, "", Sink());
  Write(std::string(LineRelay::kLongestLine + 5, 'x') + "\n");
  EXPECT_TRUE(relay.Read().value());
  ASSERT_EQ(lines_.size(), 2u);
  EXPECT_EQ(lines_[0].size(), LineRelay::kLongestLine);
  EXPECT_EQ(lines_[1], "xxxxx");
}

TEST_F(LineRelayTest, CopiesEveryByteIntoTheLog) {
  TemporaryFolder folder;
  std::string path;
  const int log = OpenLog(folder.path(), 7, "out", &path).value();
  EXPECT_EQ(path, folder.File("rank7.out"));
  LineRelay relay(pipe_[0], log, path, Sink());
  Write("a\r\nb");
  CloseInput();
  EXPECT_FALSE(relay.Read().value());
  EXPECT_EQ(folder.Read("rank7.out"), "a\r\nb");
}

TEST_F(LineRelayTest, NamesALogThatIsFull) {
  LineRelay relay(pipe_[0], open("/dev/full", O_WRONLY), "/dev/full", Sink());
  Write("still shown\n");
  const absl::Status status = relay.Read().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(status.ToString(), testing::HasSubstr("No space left"));
  EXPECT_THAT(lines_, ElementsAre("still shown"));
  Write("and goes on\n");
  EXPECT_TRUE(relay.Read().value());
}

}  // namespace
}  // namespace vrank::emulator
