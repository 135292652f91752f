// The one way out after a failed call.

#include "examples/gpt_trainer/device/checks.h"

#include <cstdio>
#include <cstdlib>

namespace gpt {

void Fail(const char* file, int line, const char* call, const char* text) {
  const char* rank = std::getenv("RANK");
  std::fflush(stdout);
  std::fprintf(stderr, "gpt_trainer: rank %s: %s:%d: %s: %s\n", rank ? rank : "0", file,
               line, call, text);
  std::_Exit(EXIT_FAILURE);
}

}  // namespace gpt
