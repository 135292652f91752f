#include "tools/terminal/terminal_text.h"

#include <random>
#include <string>

#include <gtest/gtest.h>

namespace vrank::tools {
namespace {

TEST(TerminalTextTest, LeavesTextAndColours) {
  EXPECT_EQ(TerminalText("loss 1.5\tgr\xc3\xbc\xc3\x9f \xe2\x9c\x93 \xf0\x9f\x9a\x80"),
            "loss 1.5\tgr\xc3\xbc\xc3\x9f \xe2\x9c\x93 \xf0\x9f\x9a\x80");
  EXPECT_EQ(TerminalText("\x1b[1;31mred\x1b[0m plain"),
            "\x1b[1;31mred\x1b[0m plain\x1b[m");
  EXPECT_EQ(TerminalText("\x1b[38:2::1:2:3mcolour"), "\x1b[38:2::1:2:3mcolour\x1b[m");
}

TEST(TerminalTextTest, ShowsTheLastStateOfAProgressBar) {
  EXPECT_EQ(TerminalText(" 10 %\r 50 %\r100 %"), "100 %");
  EXPECT_EQ(TerminalText("\r100 %\r"), "100 %");
  EXPECT_EQ(TerminalText("a line of Windows\r"), "a line of Windows");
  EXPECT_EQ(TerminalText("\r\r"), "");
}

TEST(TerminalTextTest, DropsWhatMovesTheCursorOrSetsTheTitle) {
  for (const char* escape :
       {"\x1b[2J", "\x1b[10;20H", "\x1b[?25l", "\x1b[1A", "\x1b[K", "\x1b]0;title\x07",
        "\x1b]8;;http://x\x1b\\", "\x1bP1;2|data\x1b\\", "\x1b(B",
        "\x1b"
        "c",
        "\x1b=", "\x1b[>4;1m"})
    EXPECT_EQ(TerminalText(std::string("a") + escape + "b"), "ab") << escape + 1;
  EXPECT_EQ(TerminalText("a\x1b[12"), "a");
  EXPECT_EQ(TerminalText("a\x1b]0;title"), "a");
  EXPECT_EQ(TerminalText("a\x1b"), "a");
}

TEST(TerminalTextTest, SpellsOutOtherBytes) {
  EXPECT_EQ(TerminalText(std::string_view("a\0b\x07\x08\x7f", 6)),
            "a\\x00b\\x07\\x08\\x7f");
  // U+009B begins a control sequence, too; then bytes that are no UTF-8.
  EXPECT_EQ(TerminalText("\xc2\x9b"
                         "2J"),
            "\\xc2\\x9b2J");
  EXPECT_EQ(TerminalText("\xff\xc3(\xe2\x82"), "\\xff\\xc3(\\xe2\\x82");
  EXPECT_EQ(TerminalText("\xed\xa0\x80 \xc0\x80"), "\\xed\\xa0\\x80 \\xc0\\x80");
}

// Whatever comes, nothing but tabs, text and colours leaves.
TEST(TerminalTextTest, NoOtherControlCharacterLeaves) {
  std::mt19937 random(1);
  const std::string alphabet("\x1b\x1b[]m;0?\x07\\PaH\r\t\xc2\x9b\x80\xff\0", 21);
  for (int i = 0; i < 20000; ++i) {
    std::string line;
    for (unsigned length = random() % 12; length > 0; --length)
      line += alphabet[random() % alphabet.size()];
    const std::string text = TerminalText(line);
    for (size_t at = 0; at < text.size(); ++at) {
      const auto byte = static_cast<unsigned char>(text[at]);
      if (byte == 0x1b) {
        const size_t end = text.find_first_not_of("[0123456789;:", at + 1);
        ASSERT_TRUE(end != std::string::npos && text[end] == 'm') << text;
        at = end;
      } else {
        ASSERT_TRUE(byte == '\t' || (byte >= 0x20 && byte != 0x7f)) << text;
        ASSERT_FALSE(byte >= 0x80) << text;  // the alphabet makes no whole character
      }
    }
  }
}

}  // namespace
}  // namespace vrank::tools
