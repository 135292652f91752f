#include "virtual_host/turns/kernel_thread.h"

#include <cstdio>
#include <cstring>

#include "virtual_host/system/proc_text.h"
#include "virtual_host/turns/futex.h"

namespace vrank::host {
namespace {

// The kernel waits until a thread that is about to sleep does so, or goes on after all
// (task_current_syscall in lib/syscall.c). Some kernels have no such file, and not
// every process may read another one's.
bool GoesOn(const char* folder) {
  constexpr char kRunning[] = "running";
  const ProcText<sizeof kRunning> call(folder, "syscall");
  return strcmp(call.text, kRunning) == 0;
}

}  // namespace

char KernelState(const char* folder) {
  const ProcText<128> stat(folder, "stat");
  // The name in parentheses has at most 16 bytes and may hold anything.
  const char* const name_end = strrchr(stat.text, ')');
  const char state = name_end == nullptr || name_end[1] == '\0' ? char{0} : name_end[2];
  return Waits(state) && GoesOn(folder) ? 'R' : state;
}

char KernelState(pid_t tid) {
  char folder[64];
  snprintf(folder, sizeof folder, "/proc/self/task/%d", tid);
  return KernelState(folder);
}

// MAKE_THREAD_CPUCLOCK of the kernel (include/linux/posix-timers.h).
Duration CpuTime(pid_t tid) {
  return RealNow(static_cast<clockid_t>((~static_cast<unsigned>(tid) << 3) | 6));
}

}  // namespace vrank::host
