// Words of a command line that a reader may copy into a shell.
//
// Thread rule: pure function.

#ifndef VRANK_TOOLS_TERMINAL_SHELL_WORD_H_
#define VRANK_TOOLS_TERMINAL_SHELL_WORD_H_

#include <string>

namespace vrank::tools {

// The word as a POSIX shell reads it back: as it is where every character is a letter,
// a digit or one of the harmless ones, else in single quotes.
inline std::string ShellWord(const std::string& word) {
  constexpr char kHarmless[] =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";
  if (!word.empty() && word.find_first_not_of(kHarmless) == std::string::npos)
    return word;
  std::string quoted = "'";
  for (const char c : word)
    quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_TERMINAL_SHELL_WORD_H_
