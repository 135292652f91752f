// Who waits for which condition variable, in the order in which they came.
//
// The C library wakes some waiter, and which one differs from run to run; and to get
// one helper out at its limit, all would have to be woken. So each waiting thread
// sleeps on a condition of its own. A signal calls the one that has waited longest. A
// broadcast calls all, one after the other: the next is woken once the one before has
// got the mutex that they share, so they hold it in the order in which they came.
//
// Waiters that do not come here (of a condition that processes share, of C11's
// cnd_wait) wait on the real condition, which is signalled where nobody waits here.
//
// Thread rule: every method may be called from any thread, holding the program's mutex
// or not.

#ifndef VRANK_VIRTUAL_HOST_WAIT_CONDITION_QUEUE_H_
#define VRANK_VIRTUAL_HOST_WAIT_CONDITION_QUEUE_H_

#include <pthread.h>

#include <atomic>
#include <cstdint>

#include "base/guest/units.h"
#include "virtual_host/turns/futex.h"
#include "virtual_host/turns/thread_scheduler.h"

namespace vrank::host {

// One per thread: it waits for one condition at a time.
struct ConditionWaiter {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t wake = PTHREAD_COND_INITIALIZER;
  bool called = false;  // guarded by `mutex`
  // It is to look at its limit. Set without the mutex: a kick may be lost, and is
  // repeated (helper_turns.cc).
  std::atomic<bool> kicked{false};

  // Guarded by the queue's lock.
  const void* condition = nullptr;
  const pthread_mutex_t* program_mutex = nullptr;
  HostThread* helper = nullptr;
  uint64_t broadcast = 0;  // the one that it is to be called by; 0: none
  TimePoint clock;         // of who calls it
  ConditionWaiter* before = nullptr;
  ConditionWaiter* behind = nullptr;
};

class ConditionQueue {
 public:
  // `helper`: the calling thread, where it is one.
  void Add(ConditionWaiter* waiter, const void* condition, const pthread_mutex_t* mutex,
           HostThread* helper);
  // It goes: its limit has come, or it has been called and holds the program's mutex,
  // which lets the next one of a broadcast come. False: a signal was, or is going to
  // be, for it.
  bool Remove(ConditionWaiter* waiter, ThreadScheduler* scheduler);

  // The clock of the calling thread goes to whom it calls. kNobody: nobody waits here.
  // kKept: whoever it has called cannot go on before it gives back the mutex.
  enum class Called { kNobody, kFree, kKept };
  Called CallFirst(const void* condition, ThreadScheduler* scheduler, TimePoint clock);
  Called CallAll(const void* condition, ThreadScheduler* scheduler, TimePoint clock);

  // In the child after fork.
  void ForgetAll();

 private:
  // REQUIRES: the lock, for all of these.
  static Called Call(ConditionWaiter* waiter, ThreadScheduler* scheduler,
                     TimePoint clock);
  Called CallNextOf(uint64_t broadcast, ThreadScheduler* scheduler);

  FutexLock lock_;
  std::atomic<uint32_t> waiting_{0};
  ConditionWaiter* first_ = nullptr;
  ConditionWaiter* last_ = nullptr;
  uint64_t broadcasts_ = 0;
};

// Of this process.
extern constinit ConditionQueue condition_queue;

}  // namespace vrank::host

#endif  // VRANK_VIRTUAL_HOST_WAIT_CONDITION_QUEUE_H_
