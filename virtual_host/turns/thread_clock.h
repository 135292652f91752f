// What a CpuMeter reads of the calling thread.
//
// Thread rule: one thread.

#ifndef VRANK_VIRTUAL_HOST_TURNS_THREAD_CLOCK_H_
#define VRANK_VIRTUAL_HOST_TURNS_THREAD_CLOCK_H_

#include <time.h>

#include <cstdint>

#include "base/guest/time_stamp.h"
#include "virtual_host/system/preemption_mark.h"
#include "virtual_host/system/raw_syscall.h"

namespace vrank::host {

class ThreadClock {
 public:
  // protocol::Settings::ns_per_2_32_ticks.
  explicit ThreadClock(uint64_t ns_per_2_32_ticks)
      : ns_per_2_32_ticks_(ns_per_2_32_ticks), mark_(PreemptionMark::OfThisThread()) {}

  int64_t Now() const {
    __extension__ using Wide = unsigned __int128;
    return static_cast<int64_t>(Wide{TimeStampCount()} * ns_per_2_32_ticks_ >> 32);
  }
  void Mark() { mark_.Set(); }
  bool Kept() const { return ns_per_2_32_ticks_ != 0 && mark_.Kept(); }
  static int64_t Cpu() {
    timespec time{};
    RawSyscall(SYS_clock_gettime, CLOCK_THREAD_CPUTIME_ID, &time);
    return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
  }

 private:
  uint64_t ns_per_2_32_ticks_;
  PreemptionMark mark_;
};

}  // namespace vrank::host

#endif  // VRANK_VIRTUAL_HOST_TURNS_THREAD_CLOCK_H_
