// Interposed: mutexes.
//
// Helpers that wait for a mutex are known, and so are those that issue work, where
// several do. They get it in the order in which they came: whoever gives it back ends
// its turn there. Seen by the kernel's word alone, the next one would run beside it
// until its next safe point.
//
// Left alone are those that processes share, robust and priority-inheriting ones, and
// those that report a deadlock.

#include <pthread.h>

#include <atomic>
#include <cerrno>

#include "base/guest/export.h"
#include "virtual_host/process.h"
#include "virtual_host/real_calls.h"
#include "virtual_host/thread_state.h"
#include "virtual_host/timed_wait.h"

namespace vrank::host {
namespace {

// Threads of this process that wait in LockInTurn.
constinit std::atomic<uint32_t> waiting{0};

// It may be tried for as long as it takes (__kind in
// bits/struct_mutex.h: the low bits are the type, the others say that it is special).
bool IsPlain(const pthread_mutex_t* mutex) {
  const int kind = mutex->__data.__kind;
  return kind == PTHREAD_MUTEX_NORMAL || kind == PTHREAD_MUTEX_RECURSIVE ||
         kind == PTHREAD_MUTEX_ADAPTIVE_NP;
}

int LockInTurn(GuestChannel* channel, Helper* helper, pthread_mutex_t* mutex) {
  int result = EBUSY;
  waiting.fetch_add(1);
  WaitByWord(channel, helper, mutex, TimePoint::Max(), [&] {
    result = pthread_mutex_trylock(mutex);
    return result != EBUSY;
  });
  waiting.fetch_sub(1);
  return result;
}

}  // namespace
}  // namespace vrank::host

using namespace vrank::host;

extern "C" {

VRANK_EXPORT int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  GuestChannel* const channel = ConnectedChannel();
  if (channel == nullptr || !channel->helpers().any() || thread_state.inside != 0)
      [[likely]]
    return Real().pthread_mutex_lock(mutex);
  const int result = pthread_mutex_trylock(mutex);
  if (result != EBUSY || !IsPlain(mutex))
    return result != EBUSY ? result : Real().pthread_mutex_lock(mutex);
  Helper* const helper = channel->WaiterHere();
  return helper == nullptr ? Real().pthread_mutex_lock(mutex)
                           : LockInTurn(channel, helper, mutex);
}

// A driver that has called a helper with the mutex that both want would take it again
// before that one has got a core, or not: Python gives up its interpreter lock so.
VRANK_EXPORT int pthread_mutex_unlock(pthread_mutex_t* mutex) noexcept {
  const bool awaited = waiting.load(std::memory_order_relaxed) != 0;
  const bool alone = (!awaited && !thread_state.owes_stop) || thread_state.inside != 0;
  GuestChannel* const channel = alone ? nullptr : ConnectedChannel();
  if (channel == nullptr) [[likely]]
    return Real().pthread_mutex_unlock(mutex);
  int result = 0;
  const bool called =
      CallByWord(channel, mutex, [&] { result = Real().pthread_mutex_unlock(mutex); });
  if (called || thread_state.owes_stop)
    channel->LetHelpersRun();
  return result;
}

}  // extern "C"
