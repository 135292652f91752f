// What of a program's output a terminal gets to see.
//
// Programs write for a terminal of their own: they move its cursor, clear it, set its
// title. Here many share one, line by line, so only what stays within a line passes:
// text and colours.
//
// Thread rule: pure function.

#ifndef VRANK_TOOLS_TERMINAL_TERMINAL_TEXT_H_
#define VRANK_TOOLS_TERMINAL_TERMINAL_TEXT_H_

#include <string>
#include <string_view>

namespace vrank::tools {

// `line`, without its line break, as it may be written to a terminal:
//   - of parts that overwrite each other (a progress bar: "10 %\r20 %") the last one;
//   - colours (ESC [ ... m) as they are, switched off at the end;
//   - no other escape sequences;
//   - tabs as they are; other control characters and bytes that are no UTF-8 as \xHH.
std::string TerminalText(std::string_view line);

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_TERMINAL_TERMINAL_TEXT_H_
