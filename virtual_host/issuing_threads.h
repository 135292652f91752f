// The threads of this process that issue work, and whether they take turns.
//
// They share one host clock, so what a run says is a function of the program only where
// they hand over to each other: whoever issued last waits (for a lock, a signal, the
// end of a thread) by the time another one goes on. At the end of its first call a
// thread that took over looks at the one that issued before it:
//
//   it waits or has ended                              they handed over
//   it issues again, waits for the GPU, or sleeps      they issue at the same time
//   it runs                                            looked at again; after 100 ms of
//                                                      its CPU time: at the same time
//
// Threads that issue at the same time are counted, each of them once, so the figure
// does not depend on how often the scheduler let them meet. Not seen is a thread that
// ends before another one begins, without either having waited for the other.
//
// Thread rule: Add and Issued under the channel's lock; Settle on the thread itself,
// which holds no lock that another issuing thread may want.

#ifndef VRANK_VIRTUAL_HOST_ISSUING_THREADS_H_
#define VRANK_VIRTUAL_HOST_ISSUING_THREADS_H_

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/guest/protocol.h"

namespace vrank::host {

struct Issuer {
  std::atomic<pid_t> tid{0};  // 0: it has ended, and another thread may take its place
  std::atomic<uint64_t> issued{0};  // records so far
  // It waits for the emulator, or sleeps: that hands over to nobody.
  std::atomic<bool> occupied{false};
  std::atomic<bool> counted{false};
  // Whom it took over from, as that stood then. Only for the thread itself.
  struct Turn {
    Issuer* issuer = nullptr;
    pid_t tid = 0;
    uint64_t issued = 0;
  } before;
};

class IssuingThreads {
 public:
  // `own_time`: the threads' time is their own, not a host clock that they share; how
  // they hand over to each other is not looked at.
  IssuingThreads(const protocol::SegmentHeader* header, bool own_time)
      : header_(*header), own_time_(own_time) {}

  // For the calling thread.
  Issuer* Add();
  static void Remove(Issuer* issuer) { issuer->tid.store(0); }
  // In the child after fork.
  void ForgetAll();

  // `self` has issued.
  void Issued(Issuer* self) {
    // Nobody else writes it.
    self->issued.store(self->issued.load(std::memory_order_relaxed) + 1,
                       std::memory_order_release);
    if (last_ != self) [[unlikely]]
      TakeOver(self);
  }
  // At the end of a call. REQUIRES: self->before.issuer is set. Returns how many
  // threads are now known to issue at the same time that were not before.
  int Settle(Issuer* self);

 private:
  void TakeOver(Issuer* self);

  const protocol::SegmentHeader& header_;
  const bool own_time_;
  std::vector<std::unique_ptr<Issuer>> issuers_;
  Issuer* last_ = nullptr;  // who issued last
};

// The calling thread waits for the emulator or sleeps. `issuer` may be nullptr.
class OccupiedScope {
 public:
  explicit OccupiedScope(Issuer* issuer) : issuer_(issuer) {
    if (issuer_ != nullptr)
      issuer_->occupied.store(true);
  }
  ~OccupiedScope() {
    if (issuer_ != nullptr)
      issuer_->occupied.store(false);
  }
  OccupiedScope(const OccupiedScope&) = delete;
  OccupiedScope& operator=(const OccupiedScope&) = delete;

 private:
  Issuer* const issuer_;
};

}  // namespace vrank::host

#endif  // VRANK_VIRTUAL_HOST_ISSUING_THREADS_H_
