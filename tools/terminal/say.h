// Messages to the user, on stderr.
//
// A message that cannot be written (a log on a full disk) is dropped: it must not end
// the job that it is about. Results go to stdout, where a failure is an error.
//
// Thread rule: any thread; a message is written in one piece.

#ifndef VRANK_TOOLS_TERMINAL_SAY_H_
#define VRANK_TOOLS_TERMINAL_SAY_H_

#include <cstdio>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace vrank::tools {

template <typename... T>
void Say(fmt::format_string<T...> format, T&&... values) {
  const std::string text = fmt::format(format, std::forward<T>(values)...);
  (void)fwrite(text.data(), 1, text.size(), stderr);
}

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_TERMINAL_SAY_H_
