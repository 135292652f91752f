// Interposed: mutexes and reader-writer locks.
//
// Helpers that wait for one are known, and so are those that issue work, where several
// do. They get it in the order in which they came: whoever gives it back ends its turn
// there. Seen by the kernel's word alone, the next one would run beside it until its
// next safe point.
//
// What the thread that takes no part in virtual time holds is awaited in real time:
// whether it holds it just now must not be seen in who goes on.
//
// Left alone are those that processes share, robust and priority-inheriting mutexes,
// and those that would report a deadlock.

#include <pthread.h>

#include <atomic>
#include <cerrno>

#include "base/guest/export.h"
#include "schedule/policy.h"
#include "virtual_host/channel/timed_wait.h"
#include "virtual_host/process/process.h"
#include "virtual_host/system/raw_syscall.h"
#include "virtual_host/system/real_calls.h"
#include "virtual_host/turns/futex.h"
#include "virtual_host/turns/thread_state.h"
#include "virtual_host/wait/thread_waits.h"

namespace vrank::host {
namespace {

// Threads of this process that wait in Lock.
constinit std::atomic<uint32_t> waiting{0};

// It may be tried for as long as it takes (__kind in
// bits/struct_mutex.h: the low bits are the type, the others say that it is special).
bool IsPlain(const pthread_mutex_t* mutex) {
  const int kind = mutex->__data.__kind;
  return kind == PTHREAD_MUTEX_NORMAL || kind == PTHREAD_MUTEX_RECURSIVE ||
         kind == PTHREAD_MUTEX_ADAPTIVE_NP;
}
bool IsPlain(const pthread_rwlock_t* lock) {
  return lock->__data.__shared == 0 &&
         lock->__data.__cur_writer != static_cast<int>(RawSyscall(SYS_gettid));
}

// The thread that has it for itself; 0: none, or one that is about to get it or to give
// it back.
pid_t HolderOf(const pthread_mutex_t* mutex) {
  return mutex->__data.__owner;
}
pid_t HolderOf(const pthread_rwlock_t* lock) {
  return lock->__data.__cur_writer;
}

constexpr WaitKind KindOf(const pthread_mutex_t*) {
  return WaitKind::kMutex;
}
constexpr WaitKind KindOf(const pthread_rwlock_t*) {
  return WaitKind::kReadWriteLock;
}

// Takes it with `attempt`, unless a thread has it that may have to run first.
template <typename AnyLock>
int TryBesideHidden(GuestChannel* channel, AnyLock* lock, int (*attempt)(AnyLock*)) {
  const pid_t hidden = channel->hidden_tid();
  int result = attempt(lock);
  std::atomic<uint32_t> nothing{0};
  for (int looks = 0; result == EBUSY && hidden != 0; result = attempt(lock)) {
    const pid_t holder = HolderOf(lock);
    if (holder != hidden && (holder != 0 || ++looks == schedule::kLockLooks))
      break;
    InsideScope inside;
    FutexWait(&nothing, 0, schedule::kInsideLook, /*shared=*/false);
  }
  return result;
}

// `real` waits for it; `attempt` gives EBUSY where another thread has it.
template <typename AnyLock, typename Wait>
int Lock(AnyLock* lock, Wait real, int (*attempt)(AnyLock*)) {
  GuestChannel* const channel = ConnectedChannel();
  if (channel == nullptr || !channel->scheduler().any() || thread_state.inside != 0)
      [[likely]]
    return real(lock);
  int result = TryBesideHidden(channel, lock, attempt);
  if (result != EBUSY)
    return result;
  const ThreadWaitScope waits(KindOf(lock), lock);
  if (!IsPlain(lock))
    return real(lock);
  HostThread* const helper = channel->WaiterHere();
  if (helper == nullptr)
    return real(lock);
  waiting.fetch_add(1);
  WaitByWord(channel, helper, lock, TimePoint::Max(), [&] {
    result = attempt(lock);
    return result != EBUSY;
  });
  waiting.fetch_sub(1);
  return result;
}

// A driver that has called a helper with the mutex that both want would take it again
// before that one has got a core, or not: Python gives up its interpreter lock so.
template <typename AnyLock>
int Unlock(AnyLock* lock, int (*real)(AnyLock*)) {
  const bool awaited = waiting.load(std::memory_order_relaxed) != 0;
  const bool alone = (!awaited && !thread_state.owes_stop) || thread_state.inside != 0;
  GuestChannel* const channel = alone ? nullptr : ConnectedChannel();
  if (channel == nullptr) [[likely]]
    return real(lock);
  int result = 0;
  const bool called = CallByWord(channel, lock, [&] { result = real(lock); });
  if (called || thread_state.owes_stop)
    channel->LetHelpersRun();
  return result;
}

}  // namespace
}  // namespace vrank::host

using namespace vrank::host;

extern "C" {

VRANK_EXPORT int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  return Lock(
      mutex, [](auto* it) { return Real().pthread_mutex_lock(it); },
      pthread_mutex_trylock);
}

VRANK_EXPORT int pthread_mutex_unlock(pthread_mutex_t* mutex) noexcept {
  return Unlock(mutex, Real().pthread_mutex_unlock);
}

VRANK_EXPORT int pthread_rwlock_rdlock(pthread_rwlock_t* lock) noexcept {
  return Lock(
      lock, [](auto* it) { return Real().pthread_rwlock_rdlock(it); },
      pthread_rwlock_tryrdlock);
}

VRANK_EXPORT int pthread_rwlock_wrlock(pthread_rwlock_t* lock) noexcept {
  return Lock(
      lock, [](auto* it) { return Real().pthread_rwlock_wrlock(it); },
      pthread_rwlock_trywrlock);
}

VRANK_EXPORT int pthread_rwlock_unlock(pthread_rwlock_t* lock) noexcept {
  return Unlock(lock, Real().pthread_rwlock_unlock);
}

}  // extern "C"
