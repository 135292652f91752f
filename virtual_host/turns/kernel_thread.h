// What the kernel says about a thread of this process, or of one that it has started.
//
// Thread rule: pure functions (they read /proc and clocks).

#ifndef VRANK_VIRTUAL_HOST_TURNS_KERNEL_THREAD_H_
#define VRANK_VIRTUAL_HOST_TURNS_KERNEL_THREAD_H_

#include <sys/types.h>

#include "base/guest/units.h"

namespace vrank::host {

// What the thread does, as in /proc/PID/stat: 'R', 'S', ...; 0 where it is gone. One
// that only looks whether it has to sleep, which is 'S' there for a moment, is 'R'.
char KernelState(pid_t tid);
// ... of any process: `folder` is /proc/PID/task/TID.
char KernelState(const char* folder);
// Whether a thread in this state waits for somebody: a lock, a file, a time. One that
// has been woken but has not got a core yet does not, and neither does one whose page
// is being read.
inline bool Waits(char state) {
  return state != 'R' && state != 'D' && state != 0;
}
// CPU time that it has used so far.
Duration CpuTime(pid_t tid);

}  // namespace vrank::host

#endif  // VRANK_VIRTUAL_HOST_TURNS_KERNEL_THREAD_H_
