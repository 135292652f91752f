// The lock of the virtual GPU, held by a call of the API.
//
// When a thread has let go of it altogether the call is over for everybody else: a safe
// point, at which threads that issue no work (watchdogs, which may want the same lock)
// get their turn before virtual time goes on. See Channel::LetHelpersRun.
//
// Thread rule: on the stack of one thread.

#ifndef VRANK_VIRTUAL_GPU_CORE_API_LOCK_H_
#define VRANK_VIRTUAL_GPU_CORE_API_LOCK_H_

#include <mutex>

#include "base/guest/channel.h"
#include "virtual_gpu/core/thread_state.h"

namespace vrank::gpu {

class ApiLock : public std::unique_lock<std::recursive_mutex> {
 public:
  explicit ApiLock(std::recursive_mutex& mutex) : unique_lock(mutex) {
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
};

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_API_LOCK_H_
