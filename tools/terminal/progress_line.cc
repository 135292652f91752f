#include "tools/terminal/progress_line.h"

#include <unistd.h>

#include <cstdio>

#include <fmt/format.h>

#include "tools/terminal/say.h"

namespace vrank::tools {

ProgressLine::ProgressLine(bool quiet) : shows_(!quiet && isatty(STDERR_FILENO) == 1) {}

void ProgressLine::Show(const std::string& text) {
  if (!shows_)
    return;
  Say("\r\033[K{}", text);
  std::fflush(stderr);
  shown_ = true;
}

void ProgressLine::Clear() {
  if (shown_)
    Say("\r\033[K");
  shown_ = false;
}

}  // namespace vrank::tools
