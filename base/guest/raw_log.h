// Log lines from inside somebody else's process.
//
// One write(2) per line to stderr, a buffer on the stack, no allocation, no locale:
// legal in a static constructor and between fork and exec. Lines read
//   vrank [rank 3] virtual_nccl: message
//
// Thread rule: may be called from anywhere, signal handlers included.

#ifndef VRANK_BASE_GUEST_RAW_LOG_H_
#define VRANK_BASE_GUEST_RAW_LOG_H_

#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>

namespace vrank {

// `library` is the guest library that speaks. Cut off at 1,000 bytes.
__attribute__((format(printf, 2, 3))) inline void RawLog(const char* library,
                                                         const char* format, ...) {
  char line[1024];
  const char* rank = getenv("VRANK_RANK");
  int used = rank != nullptr
                 ? snprintf(line, sizeof line, "vrank [rank %.8s] %s: ", rank, library)
                 : snprintf(line, sizeof line, "vrank %s: ", library);
  if (used < 0)
    return;
  va_list arguments;
  va_start(arguments, format);
  int more = vsnprintf(line + used, sizeof line - used - 1, format, arguments);
  va_end(arguments);
  if (more < 0)
    return;
  size_t length = static_cast<size_t>(used) + static_cast<size_t>(more);
  if (length > sizeof line - 2)
    length = sizeof line - 2;
  line[length] = '\n';
  [[maybe_unused]] ssize_t ignored = write(STDERR_FILENO, line, length + 1);
}

}  // namespace vrank

#endif  // VRANK_BASE_GUEST_RAW_LOG_H_
