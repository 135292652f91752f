// Waiting on a word of memory, and a lock made of one.
//
// Made of raw system calls, because the library interposes the C library's waits, and
// because pthread mutexes may not be used where clock_gettime may be called from.
//
// Thread rule: everything here may be called from any thread.

#ifndef VRANK_VIRTUAL_HOST_TURNS_FUTEX_H_
#define VRANK_VIRTUAL_HOST_TURNS_FUTEX_H_

#include <linux/futex.h>
#include <time.h>

#include <atomic>
#include <climits>
#include <cstdint>

#include "base/guest/units.h"
#include "schedule/policy.h"
#include "virtual_host/system/raw_syscall.h"
#include "virtual_host/turns/thread_state.h"

namespace vrank::host {

inline timespec ToTimespec(Duration d) {
  constexpr int64_t kPerSecond = 1'000'000'000;
  return {static_cast<time_t>(d.nanoseconds() / kPerSecond),
          static_cast<long>(d.nanoseconds() % kPerSecond)};
}

inline Duration FromTimespec(const timespec& t) {
  return Duration::Seconds(t.tv_sec) + Duration::Nanoseconds(t.tv_nsec);
}

// Sleeps while *word == expected, at most `slice` of real time. Words in the segment
// are shared with other processes; `shared` is false for words of this process alone.
// 0, or what the kernel says: -EINTR where a signal ended the wait.
inline long FutexWait(std::atomic<uint32_t>* word, uint32_t expected, Duration slice,
                      bool shared) {
  const timespec timeout = ToTimespec(slice);
  return RawSyscall(SYS_futex, word, FUTEX_WAIT | (shared ? 0 : FUTEX_PRIVATE_FLAG),
                    expected, &timeout, nullptr, 0);
}

// Sleeps likewise, for a moment, to look again at somebody. The emulator is told so by
// `nappers` (SegmentHeader): all threads of the rank asleep would mean that none can
// run.
inline void Nap(std::atomic<uint32_t>* nappers, std::atomic<uint32_t>* word,
                uint32_t expected, Duration slice, bool shared) {
  nappers->fetch_add(1);
  FutexWait(word, expected, slice, shared);
  nappers->fetch_sub(1);
}

inline void FutexWake(std::atomic<uint32_t>* word, int threads, bool shared) {
  RawSyscall(SYS_futex, word, FUTEX_WAKE | (shared ? 0 : FUTEX_PRIVATE_FLAG), threads,
             nullptr, nullptr, 0);
}

inline void CpuRelax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  asm volatile("" ::: "memory");
#endif
}

// A mutex of one word: 0 free, 1 held, 2 held and somebody sleeps. Who waits for one
// is inside this library for as long (thread_state.h), whoever calls.
class FutexLock {
 public:
  void Lock() {
    uint32_t free = 0;
    if (word_.compare_exchange_strong(free, 1, std::memory_order_acquire))
      return;
    InsideScope inside;
    while (word_.exchange(2, std::memory_order_acquire) != 0)
      FutexWait(&word_, 2, schedule::kFutexSlice, false);
  }
  bool TryLock() {
    uint32_t free = 0;
    return word_.compare_exchange_strong(free, 1, std::memory_order_acquire);
  }
  void Unlock() {
    if (word_.exchange(0, std::memory_order_release) == 2)
      FutexWake(&word_, 1, false);
  }
  // In the child after fork, whose other threads are gone.
  void ResetAfterFork() { word_.store(0, std::memory_order_relaxed); }

 private:
  std::atomic<uint32_t> word_{0};
};

class LockGuard {
 public:
  explicit LockGuard(FutexLock* lock) : lock_(lock) { lock_->Lock(); }
  ~LockGuard() { lock_->Unlock(); }
  LockGuard(const LockGuard&) = delete;
  LockGuard& operator=(const LockGuard&) = delete;

 private:
  FutexLock* const lock_;
};

// Real time, for bounding real waits; never shown to the program.
inline Duration RealNow(clockid_t clock) {
  timespec now{};
  RawSyscall(SYS_clock_gettime, clock, &now);
  return FromTimespec(now);
}

}  // namespace vrank::host

#endif  // VRANK_VIRTUAL_HOST_TURNS_FUTEX_H_
