#include "virtual_host/turns/thread_team.h"

#include "virtual_host/system/raw_syscall.h"
#include "virtual_host/turns/kernel_thread.h"

namespace vrank::host {

void ThreadTeam::Join() {
  threads_.push_back(static_cast<pid_t>(RawSyscall(SYS_gettid)));
  starts_.fetch_sub(1);
}

bool ThreadTeam::Runs(Duration* cpu) {
  bool any = starts_.load() > 0;
  std::erase_if(threads_, [&](pid_t tid) {
    const char state = KernelState(tid);
    if (state != 0)
      *cpu += CpuTime(tid);
    any |= state != 0 && !Waits(state);
    return state == 0;
  });
  return any;
}

void ThreadTeam::ForgetAll() {
  threads_.clear();
  starts_ = 0;
}

}  // namespace vrank::host
