// What a file of /proc says.
//
// Thread rule: may be called from anywhere, signal handlers included: takes no memory.

#ifndef VRANK_VIRTUAL_HOST_SYSTEM_PROC_TEXT_H_
#define VRANK_VIRTUAL_HOST_SYSTEM_PROC_TEXT_H_

#include <fcntl.h>

#include <cstddef>
#include <cstdio>

#include "virtual_host/system/raw_syscall.h"

namespace vrank::host {

// The beginning of a file in a folder, as a string; empty where there is none.
template <size_t kBytes>
struct ProcText {
  char text[kBytes];
  size_t bytes = 0;  // without the 0 byte behind them

  ProcText(const char* folder, const char* file) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    text[0] = '\0';
    const long fd = RawSyscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
      return;
    const long got = RawSyscall(SYS_read, fd, text, sizeof text - 1);
    bytes = got > 0 ? static_cast<size_t>(got) : 0;
    text[bytes] = '\0';
    RawSyscall(SYS_close, fd);
  }
};

}  // namespace vrank::host

#endif  // VRANK_VIRTUAL_HOST_SYSTEM_PROC_TEXT_H_
