// Interposed: barriers.
//
// The C library's wait in the kernel, and whoever comes last lets all others go on at
// once. These are made of a mutex and conditions, whose waiters are known and go on one
// at a time, in the order in which they came (interpose/condition.cc).
//
// Left alone are those that processes share.

#include <pthread.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <new>

#include "base/guest/export.h"
#include "virtual_host/process/process.h"
#include "virtual_host/system/real_calls.h"

namespace vrank::host {
namespace {

class Barrier {
 public:
  explicit Barrier(unsigned threads) : threads_(threads) {}
  // Once all have left it.
  ~Barrier() {
    pthread_mutex_lock(&mutex_);
    while (inside_ != 0)
      pthread_cond_wait(&empty_, &mutex_);
    pthread_mutex_unlock(&mutex_);
  }
  Barrier(const Barrier&) = delete;
  Barrier& operator=(const Barrier&) = delete;

  // Whether the calling thread came last. It is not cancelled here, which POSIX rules
  // out.
  bool Wait() {
    int cancels = 0;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancels);
    pthread_mutex_lock(&mutex_);
    ++inside_;
    const uint64_t round = round_;
    const bool last = ++arrived_ == threads_;
    if (last) {
      arrived_ = 0;
      ++round_;
      pthread_cond_broadcast(&complete_);
    }
    while (round == round_)
      pthread_cond_wait(&complete_, &mutex_);
    if (--inside_ == 0)
      pthread_cond_signal(&empty_);
    pthread_mutex_unlock(&mutex_);
    pthread_setcancelstate(cancels, nullptr);
    return last;
  }

 private:
  const unsigned threads_;
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t complete_ = PTHREAD_COND_INITIALIZER;
  pthread_cond_t empty_ = PTHREAD_COND_INITIALIZER;
  unsigned arrived_ = 0, inside_ = 0;
  uint64_t round_ = 0;
};

// What the program's barrier holds where it is one of ours: the C library's own begins
// with a count of arrivals and a number of rounds (struct pthread_barrier in glibc's
// sysdeps/nptl/internaltypes.h), which are both small.
constexpr uint64_t kMark = 0x7652'616e'6b42'6172;
struct Held {
  uint64_t mark;
  Barrier* barrier;
};
static_assert(sizeof(Held) <= sizeof(pthread_barrier_t));

void Hold(pthread_barrier_t* barrier, const Held& held) {
  memcpy(static_cast<void*>(barrier), &held, sizeof held);
}

// nullptr: it is the C library's.
Barrier* Ours(const pthread_barrier_t* barrier) {
  Held held;
  memcpy(&held, static_cast<const void*>(barrier), sizeof held);
  return held.mark == kMark ? held.barrier : nullptr;
}

bool IsShared(const pthread_barrierattr_t* attributes) {
  int shared = PTHREAD_PROCESS_PRIVATE;
  return attributes != nullptr &&
         pthread_barrierattr_getpshared(attributes, &shared) == 0 &&
         shared != PTHREAD_PROCESS_PRIVATE;
}

}  // namespace
}  // namespace vrank::host

using namespace vrank::host;

extern "C" {

VRANK_EXPORT int pthread_barrier_init(pthread_barrier_t* barrier,
                                      const pthread_barrierattr_t* attributes,
                                      unsigned threads) noexcept {
  const int result = Real().pthread_barrier_init(barrier, attributes, threads);
  if (result != 0 || ProcessChannel() == nullptr || IsShared(attributes))
    return result;
  auto* const ours = new (std::nothrow) Barrier(threads);
  if (ours == nullptr)
    return ENOMEM;
  Hold(barrier, {kMark, ours});
  return 0;
}

VRANK_EXPORT int pthread_barrier_destroy(pthread_barrier_t* barrier) noexcept {
  Barrier* const ours = Ours(barrier);
  if (ours == nullptr)
    return Real().pthread_barrier_destroy(barrier);
  delete ours;
  Hold(barrier, {});
  return 0;
}

VRANK_EXPORT int pthread_barrier_wait(pthread_barrier_t* barrier) noexcept {
  Barrier* const ours = Ours(barrier);
  if (ours == nullptr)
    return Real().pthread_barrier_wait(barrier);
  return ours->Wait() ? PTHREAD_BARRIER_SERIAL_THREAD : 0;
}

}  // extern "C"
