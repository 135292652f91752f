#include "tools/terminal/terminal_text.h"

#include <cstdint>

#include <fmt/format.h>

namespace vrank::tools {
namespace {

constexpr char kEscape = '\x1b';
constexpr char kBell = '\x07';
constexpr std::string_view kColoursOff = "\x1b[m";

bool IsIn(char c, char low, char high) {
  return c >= low && c <= high;
}

// The last part that shows something, up to the carriage returns behind it.
std::string_view LastPart(std::string_view line) {
  const size_t end = line.find_last_not_of('\r');
  if (end == std::string_view::npos)
    return {};
  line = line.substr(0, end + 1);
  const size_t begin = line.rfind('\r');
  return begin == std::string_view::npos ? line : line.substr(begin + 1);
}

// The length of the escape sequence at the beginning of `text` (ECMA-48, 5.3 to 5.6);
// one that is not finished reaches to the end.
size_t EscapeLength(std::string_view text) {
  if (text.size() < 2)
    return text.size();
  const char kind = text[1];
  size_t at = 2;
  if (kind == '[') {  // control sequence: parameters, intermediates, a final byte
    while (at < text.size() && IsIn(text[at], ' ', '?'))
      ++at;
    return at < text.size() && IsIn(text[at], '@', '~') ? at + 1 : at;
  }
  if (std::string_view("]PX^_").find(kind) != std::string_view::npos) {
    // A string, up to its terminator; xterm also ends it at a bell.
    for (; at < text.size(); ++at) {
      if (text[at] == kBell)
        return at + 1;
      if (text[at] == kEscape)
        return at + 1 < text.size() && text[at + 1] == '\\' ? at + 2 : at;
    }
    return text.size();
  }
  at = 1;  // intermediates and a final byte
  while (at < text.size() && IsIn(text[at], ' ', '/'))
    ++at;
  return at < text.size() && IsIn(text[at], '0', '~') ? at + 1 : at;
}

bool IsColour(std::string_view escape) {
  return escape.size() >= 3 && escape[1] == '[' && escape.back() == 'm' &&
         escape.substr(2, escape.size() - 3).find_first_not_of("0123456789;:") ==
             std::string_view::npos;
}

// The length of the character at the beginning of `text` where it is well-formed UTF-8
// and no control character, else 0.
size_t CharacterLength(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte(0);
  if (first < 0x80)
    return first >= 0x20 && first != 0x7f ? 1 : 0;
  const size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length)
    return 0;
  uint32_t code = first & (0x7fu >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80)
      return 0;
    code = code << 6 | (byte(i) & 0x3fu);
  }
  constexpr uint32_t kSmallest[] = {0, 0, 0xa0, 0x800, 0x10000};  // 80 to 9f control
  const bool surrogate = code >= 0xd800 && code < 0xe000;
  return code < kSmallest[length] || code > 0x10ffff || surrogate ? 0 : length;
}

}  // namespace

std::string TerminalText(std::string_view line) {
  std::string text;
  bool coloured = false;
  for (std::string_view rest = LastPart(line); !rest.empty();) {
    size_t length = 1;
    if (rest[0] == kEscape) {
      length = EscapeLength(rest);
      if (IsColour(rest.substr(0, length))) {
        text += rest.substr(0, length);
        coloured = true;
      }
    } else if (rest[0] == '\t') {
      text += '\t';
    } else if (length = CharacterLength(rest); length != 0) {
      text += rest.substr(0, length);
    } else {
      length = 1;
      text += fmt::format("\\x{:02x}", static_cast<uint8_t>(rest[0]));
    }
    rest.remove_prefix(length);
  }
  if (coloured)
    text += kColoursOff;
  return text;
}

}  // namespace vrank::tools
