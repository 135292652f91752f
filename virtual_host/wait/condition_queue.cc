#include "virtual_host/wait/condition_queue.h"

#include "virtual_host/system/raw_syscall.h"
#include "virtual_host/system/real_calls.h"
#include "virtual_host/turns/thread_state.h"

namespace vrank::host {

constinit ConditionQueue condition_queue;

namespace {

// glibc keeps the owner in __owner (bits/struct_mutex.h).
bool HoldsHere(const pthread_mutex_t* mutex) {
  return mutex->__data.__owner == static_cast<int>(RawSyscall(SYS_gettid));
}

}  // namespace

void ConditionQueue::Add(ConditionWaiter* waiter, const void* condition,
                         const pthread_mutex_t* mutex, HostThread* helper) {
  InsideScope inside;
  LockGuard guard(&lock_);
  waiter->called = false;
  waiter->kicked = false;
  waiter->condition = condition;
  waiter->program_mutex = mutex;
  waiter->helper = helper;
  waiter->broadcast = 0;
  waiter->before = last_;
  waiter->behind = nullptr;
  (last_ == nullptr ? first_ : last_->behind) = waiter;
  last_ = waiter;
  waiting_.fetch_add(1);
}

bool ConditionQueue::Remove(ConditionWaiter* waiter, ThreadScheduler* scheduler) {
  InsideScope inside;
  LockGuard guard(&lock_);
  (waiter->before == nullptr ? first_ : waiter->before->behind) = waiter->behind;
  (waiter->behind == nullptr ? last_ : waiter->behind->before) = waiter->before;
  waiting_.fetch_sub(1);
  if (waiter->called && waiter->broadcast != 0)
    CallNextOf(waiter->broadcast, scheduler);
  return !waiter->called && waiter->broadcast == 0;
}

// The lock of the queue keeps it from going meanwhile.
ConditionQueue::Called ConditionQueue::Call(ConditionWaiter* waiter,
                                            ThreadScheduler* scheduler,
                                            TimePoint clock) {
  ThreadScheduler::WakeScope waking(scheduler);
  Real().pthread_mutex_lock(&waiter->mutex);
  if (waiter->helper != nullptr)
    scheduler->SignalOne(waiter->helper, waiter->condition, clock);
  waiter->called = true;
  waiter->clock = clock;
  Real().pthread_cond_signal(&waiter->wake);
  Real().pthread_mutex_unlock(&waiter->mutex);
  return HoldsHere(waiter->program_mutex) ? Called::kKept : Called::kFree;
}

ConditionQueue::Called ConditionQueue::CallNextOf(uint64_t broadcast,
                                                  ThreadScheduler* scheduler) {
  for (ConditionWaiter* each = first_; each != nullptr; each = each->behind)
    if (each->broadcast == broadcast && !each->called)
      return Call(each, scheduler, each->clock);
  return Called::kNobody;
}

ConditionQueue::Called ConditionQueue::CallFirst(const void* condition,
                                                 ThreadScheduler* scheduler,
                                                 TimePoint clock) {
  if (waiting_.load() == 0)
    return Called::kNobody;
  LockGuard guard(&lock_);
  for (ConditionWaiter* each = first_; each != nullptr; each = each->behind) {
    if (each->condition != condition || each->called || each->broadcast != 0)
      continue;
    return Call(each, scheduler, clock);
  }
  return Called::kNobody;
}

ConditionQueue::Called ConditionQueue::CallAll(const void* condition,
                                               ThreadScheduler* scheduler,
                                               TimePoint clock) {
  if (waiting_.load() == 0)
    return Called::kNobody;
  LockGuard guard(&lock_);
  ++broadcasts_;
  for (ConditionWaiter* each = first_; each != nullptr; each = each->behind) {
    if (each->condition != condition || each->called || each->broadcast != 0)
      continue;
    each->broadcast = broadcasts_;
    each->clock = clock;
  }
  return CallNextOf(broadcasts_, scheduler);
}

void ConditionQueue::ForgetAll() {
  lock_.ResetAfterFork();
  waiting_ = 0;
  first_ = last_ = nullptr;
}

}  // namespace vrank::host
