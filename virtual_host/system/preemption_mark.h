// Whether the calling thread has left its core since a moment.
//
// Linux clears a thread's rseq_cs whenever it takes the thread off its core, unless the
// thread is inside of the section of code that the descriptor names (rseq(2)). Ours
// names code that never runs, so a mark costs a store to set and a load to look at. The
// C library registers the memory for each thread (glibc 2.35 and later). Somebody else
// who uses rseq overwrites the mark, which then counts as lost.
//
// Thread rule: each thread has its own mark; legal in a signal handler.

#ifndef VRANK_VIRTUAL_HOST_SYSTEM_PREEMPTION_MARK_H_
#define VRANK_VIRTUAL_HOST_SYSTEM_PREEMPTION_MARK_H_

#include <cstdint>

namespace vrank::host {

class PreemptionMark {
 public:
  // Of the calling thread. Without rseq no mark is ever kept.
  static PreemptionMark OfThisThread();

  void Set() {
    if (word_ != nullptr)
      *word_ = ours_;
  }
  bool Kept() const { return word_ != nullptr && *word_ == ours_; }

 private:
  volatile uint64_t* word_ = nullptr;  // struct rseq's rseq_cs
  uint64_t ours_ = 0;
};

}  // namespace vrank::host

#endif  // VRANK_VIRTUAL_HOST_SYSTEM_PREEMPTION_MARK_H_
