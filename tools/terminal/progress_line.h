// What a command that runs no ranks says on stderr while it works: one line, rewritten
// on a terminal, left out elsewhere.
//
// Thread rule: one thread.

#ifndef VRANK_TOOLS_TERMINAL_PROGRESS_LINE_H_
#define VRANK_TOOLS_TERMINAL_PROGRESS_LINE_H_

#include <string>

namespace vrank::tools {

class ProgressLine {
 public:
  explicit ProgressLine(bool quiet);
  ~ProgressLine() { Clear(); }

  void Show(const std::string& text);
  void Clear();

 private:
  const bool shows_;
  bool shown_ = false;
};

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_TERMINAL_PROGRESS_LINE_H_
