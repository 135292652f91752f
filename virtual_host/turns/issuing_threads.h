// The threads of this process that issue work, and whether they do so at the same time.
//
// They share one host clock and take turns (thread_scheduler.h). What a run says is
// exact where they hand over to each other: whoever issued last waits (for a lock, a
// signal, the end of a thread) by the time another one goes on. They issue at the same
// time where a thread issues again after another one did and has not waited in between,
// or waits for the GPU meanwhile. Such threads are counted, each of them once.
//
// Thread rule: under the channel's lock, but for any_uncounted.

#ifndef VRANK_VIRTUAL_HOST_TURNS_ISSUING_THREADS_H_
#define VRANK_VIRTUAL_HOST_TURNS_ISSUING_THREADS_H_

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "virtual_host/turns/thread_scheduler.h"

namespace vrank::host {

struct Issuer {
  bool used = true;  // false: its thread has ended, another may have its place
  HostThread* turn = nullptr;  // nullptr: it takes no turns
  bool counted = false;
};

class IssuingThreads {
 public:
  // `own_time`: the threads' time is their own, not a host clock that they share; they
  // take no turns, and how they hand over to each other is not looked at.
  IssuingThreads(ThreadScheduler* scheduler, bool own_time)
      : scheduler_(scheduler), own_time_(own_time) {}

  bool own_time() const { return own_time_; }

  // For the calling thread. `helper`: as what it was known so far, or nullptr.
  Issuer* Add(HostThread* helper);
  void Remove(Issuer* issuer);
  // In the child after fork.
  void ForgetAll();

  // `self` has issued.
  void Issued(Issuer* self) {
    if (last_ != self) [[unlikely]]
      TakeOver(self);
  }
  // How many threads are known by now to issue at the same time that were not at the
  // call before.
  int TakeUncounted() { return uncounted_.exchange(0); }
  bool any_uncounted() const { return uncounted_.load(std::memory_order_relaxed) > 0; }

 private:
  void TakeOver(Issuer* self);

  ThreadScheduler* const scheduler_;
  const bool own_time_;
  std::vector<std::unique_ptr<Issuer>> issuers_;
  Issuer* last_ = nullptr;  // who issued last
  std::atomic<int> uncounted_{0};
};

}  // namespace vrank::host

#endif  // VRANK_VIRTUAL_HOST_TURNS_ISSUING_THREADS_H_
