// What each thread of this process waits for, and who took a semaphore last: for the
// report about a job that is stuck (process/thread_report.h). Nothing else depends on
// it.
//
// An entry's place is a hash. Of two threads, or of two semaphores, with one place only
// the later one is known.
//
// Thread rule: every method may be called from any thread; no locks.

#ifndef VRANK_VIRTUAL_HOST_WAIT_THREAD_WAITS_H_
#define VRANK_VIRTUAL_HOST_WAIT_THREAD_WAITS_H_

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstdint>

#include "virtual_host/system/raw_syscall.h"

namespace vrank::host {

enum class WaitKind : uint32_t {
  kUnknown,
  kMutex,
  kReadWriteLock,
  kSemaphore,
  kCondition,
  kThreadEnd,  // its object is the pthread_t
  kTime,       // it has none
};

struct KnownWait {
  WaitKind kind = WaitKind::kUnknown;
  const void* object = nullptr;
};

class ThreadWaits {
 public:
  // The calling thread begins or ends a wait.
  void Begin(KnownWait wait) {
    const pid_t self = Self();
    Entry& entry = threads_[static_cast<uint32_t>(self) % threads_.size()];
    entry.tid.store(0, std::memory_order_relaxed);
    entry.kind.store(wait.kind, std::memory_order_relaxed);
    entry.object.store(wait.object, std::memory_order_relaxed);
    entry.tid.store(self, std::memory_order_release);
  }
  void End() {
    const pid_t self = Self();
    Entry& entry = threads_[static_cast<uint32_t>(self) % threads_.size()];
    if (entry.tid.load(std::memory_order_relaxed) == self)
      entry.tid.store(0, std::memory_order_relaxed);
  }
  KnownWait Of(pid_t tid) const {
    const Entry& entry = threads_[static_cast<uint32_t>(tid) % threads_.size()];
    if (entry.tid.load(std::memory_order_acquire) != tid)
      return {};
    return {entry.kind.load(std::memory_order_relaxed),
            entry.object.load(std::memory_order_relaxed)};
  }

  // The calling thread has taken the semaphore, as Python does with its locks.
  void Took(const void* semaphore) {
    Semaphore& entry = semaphores_[PlaceOf(semaphore)];
    entry.taker.store(Self(), std::memory_order_relaxed);
    entry.object.store(semaphore, std::memory_order_relaxed);
  }
  // 0: not known.
  pid_t LastTaker(const void* semaphore) const {
    const Semaphore& entry = semaphores_[PlaceOf(semaphore)];
    return entry.object.load(std::memory_order_relaxed) == semaphore
               ? entry.taker.load(std::memory_order_relaxed)
               : 0;
  }

  // In the child after fork: the thread has another number.
  static void ForgetSelf() { self_ = 0; }

 private:
  struct Entry {
    std::atomic<pid_t> tid{0};
    std::atomic<WaitKind> kind{WaitKind::kUnknown};
    std::atomic<const void*> object{nullptr};
  };
  struct Semaphore {
    std::atomic<const void*> object{nullptr};
    std::atomic<pid_t> taker{0};
  };

  static pid_t Self() {
    if (self_ == 0)
      self_ = static_cast<pid_t>(RawSyscall(SYS_gettid));
    return self_;
  }
  // Semaphores of a program lie 32 bytes apart at least.
  size_t PlaceOf(const void* semaphore) const {
    return reinterpret_cast<uintptr_t>(semaphore) / 32 % semaphores_.size();
  }

  static inline constinit thread_local pid_t self_ = 0;
  std::array<Entry, 1021> threads_;
  std::array<Semaphore, 4093> semaphores_;
};

// Of this process.
extern constinit ThreadWaits thread_waits;

// While one exists, the calling thread waits for the object.
class ThreadWaitScope {
 public:
  explicit ThreadWaitScope(WaitKind kind, const void* object) {
    thread_waits.Begin({kind, object});
  }
  ~ThreadWaitScope() { thread_waits.End(); }
  ThreadWaitScope(const ThreadWaitScope&) = delete;
  ThreadWaitScope& operator=(const ThreadWaitScope&) = delete;
};

}  // namespace vrank::host

#endif  // VRANK_VIRTUAL_HOST_WAIT_THREAD_WAITS_H_
