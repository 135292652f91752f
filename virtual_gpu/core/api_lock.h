// The lock of the virtual GPU, held by a call of the API.
//
// Before a thread takes it, and when it has let go of it altogether, no call is under
// way for everybody else: safe points, at which threads that issue no work (watchdogs,
// which may want the same lock) get their turn before virtual time goes on. See
// Channel::LetHelpersRun.
//
// Thread rule: on the stack of one thread.

#ifndef VRANK_VIRTUAL_GPU_CORE_API_LOCK_H_
#define VRANK_VIRTUAL_GPU_CORE_API_LOCK_H_

#include <mutex>

#include "base/guest/channel.h"
#include "base/guest/program_call.h"
#include "virtual_gpu/core/thread_state.h"

namespace vrank::gpu {

// Before a call: what this thread has woken up comes first, since it may be about to
// make calls, too.
inline void LetWokenRun(Channel* channel) {
  if (ThisThread().calls == 0)
    channel->LetHelpersRun();
}

class ApiLock : private ProgramCall, public std::unique_lock<std::recursive_mutex> {
 public:
  explicit ApiLock(std::recursive_mutex& mutex)
      : ProgramCall(FindChannel(), "a library's call"), unique_lock(Ready(mutex)) {
    ++ThisThread().calls;
  }
  ~ApiLock() {
    if (owns_lock())
      unlock();
    if (--ThisThread().calls > 0)
      return;
    if (Channel* const channel = FindChannel())
      channel->LetHelpersRun();
  }

 private:
  static std::recursive_mutex& Ready(std::recursive_mutex& mutex) {
    if (Channel* const channel = FindChannel())
      LetWokenRun(channel);
    return mutex;
  }
};

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_API_LOCK_H_
