#include "virtual_host/kernel_thread.h"

#include <fcntl.h>

#include <cstdio>
#include <cstring>

#include "virtual_host/futex.h"
#include "virtual_host/raw_syscall.h"

namespace vrank::host {

char KernelState(pid_t tid) {
  char path[64];
  snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
  const int fd =
      static_cast<int>(RawSyscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0));
  if (fd < 0)
    return 0;
  char text[128] = {};
  const long got = RawSyscall(SYS_read, fd, text, sizeof text - 1);
  RawSyscall(SYS_close, fd);
  // The name in parentheses has at most 16 bytes and may hold anything.
  const char* name_end = got > 0 ? strrchr(text, ')') : nullptr;
  return name_end == nullptr || name_end[1] == '\0' ? char{0} : name_end[2];
}

// MAKE_THREAD_CPUCLOCK of the kernel (include/linux/posix-timers.h).
Duration CpuTime(pid_t tid) {
  return RealNow(static_cast<clockid_t>((~static_cast<unsigned>(tid) << 3) | 6));
}

}  // namespace vrank::host
