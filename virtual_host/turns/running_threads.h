// Threads that this process has created and that have not come to their end, for those
// that wait for it: the kernel would let whoever joins one go on once it is gone,
// beside whoever runs by then.
//
// Thread rule: every method may be called from any thread.

#ifndef VRANK_VIRTUAL_HOST_TURNS_RUNNING_THREADS_H_
#define VRANK_VIRTUAL_HOST_TURNS_RUNNING_THREADS_H_

#include <pthread.h>

#include <algorithm>
#include <vector>

#include "virtual_host/turns/futex.h"

namespace vrank::host {

class RunningThreads {
 public:
  // Adds what `create(pthread_t*)` creates where it returns 0, before it can end.
  template <typename Create>
  int Add(pthread_t* thread, Create create) {
    LockGuard guard(&lock_);
    const int result = create(thread);
    if (result == 0)
      All().push_back(*thread);
    return result;
  }
  void Remove(pthread_t thread) {
    LockGuard guard(&lock_);
    std::erase(All(), thread);
  }
  bool Has(pthread_t thread) {
    LockGuard guard(&lock_);
    return std::find(All().begin(), All().end(), thread) != All().end();
  }
  // In the child after fork. Another thread may have been changing the list.
  void ForgetAll() {
    lock_.ResetAfterFork();
    all_ = nullptr;
  }

  // What those wait for that wait for its end.
  static const void* End(pthread_t thread) {
    return reinterpret_cast<const void*>(thread);
  }

 private:
  // REQUIRES: the lock.
  std::vector<pthread_t>& All() {
    if (all_ == nullptr)
      all_ = new std::vector<pthread_t>;
    return *all_;
  }

  FutexLock lock_;
  // Leaked: threads may still end while the process's static objects are destroyed.
  std::vector<pthread_t>* all_ = nullptr;
};

// Of this process.
extern constinit RunningThreads running_threads;

}  // namespace vrank::host

#endif  // VRANK_VIRTUAL_HOST_TURNS_RUNNING_THREADS_H_
