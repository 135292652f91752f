// Naps of a thread that must wake on time: Linux rounds them up by 50 us otherwise.
//
// Thread rule: for the calling thread.

#ifndef VRANK_GPU_HOLD_PROMPT_THREAD_H_
#define VRANK_GPU_HOLD_PROMPT_THREAD_H_

#include <sys/prctl.h>

namespace vrank::hold {

inline void NapOnTime() {
  constexpr unsigned long kSlackNs = 1000;
  prctl(PR_SET_TIMERSLACK, kSlackNs, 0, 0, 0);
}

}  // namespace vrank::hold

#endif  // VRANK_GPU_HOLD_PROMPT_THREAD_H_
