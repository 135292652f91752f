// Threads that wait on an epoll set in turns, and others that wait for a turn.
//
// Who takes a descriptor out of a set may have to wait until the thread that waits on
// the set has come round, since that one may be at work on the descriptor: Gloo does so
// for each connection it ends (gloo/transport/tcp/loop.cc, unregisterDescriptor), and a
// turn comes when the wait's limit of 10 ms has passed. So does the end of the waiting
// thread. That is nothing of the job's: after a descriptor was taken out, by whomever
// (of two ranks that end a connection one is told by the other), turns come in real
// time for a while, and take no virtual time, however many there are.
//
// Thread rule: thread-safe.

#ifndef VRANK_VIRTUAL_HOST_WAIT_EPOLL_TURNS_H_
#define VRANK_VIRTUAL_HOST_WAIT_EPOLL_TURNS_H_

#include <pthread.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "schedule/policy.h"

namespace vrank::host {

class EpollTurns {
 public:
  // The calling thread begins to wait on the set, and `event` (an eventfd) ends that.
  void Begin(int event) {
    waiter_.store(pthread_self(), std::memory_order_relaxed);
    event_.store(event, std::memory_order_seq_cst);
  }
  void End() { event_.store(-1, std::memory_order_relaxed); }
  // Whether the next turn is to come in real time.
  bool IsDue() const { return left_.load(std::memory_order_seq_cst) > 0; }
  // How long it is to take, in ms.
  int Take() {
    return left_.fetch_sub(1, std::memory_order_relaxed) > schedule::kLongEpollTurns
               ? 1
               : schedule::kLongestEpollTurn;
  }

  // The set is new: what was due on one that had its number before is over.
  void Forget() { left_.store(0, std::memory_order_seq_cst); }
  // The calling thread took a descriptor out.
  void OnRemoval() {
    left_.store(schedule::kShortEpollTurns + schedule::kLongEpollTurns,
                std::memory_order_seq_cst);
    if (pthread_equal(waiter_.load(std::memory_order_relaxed), pthread_self()) != 0)
      return;
    const uint64_t one = 1;
    if (const int event = event_.load(std::memory_order_seq_cst); event >= 0)
      (void)!write(event, &one, sizeof one);
  }

 private:
  std::atomic<int> left_{0};
  std::atomic<int> event_{-1};
  std::atomic<pthread_t> waiter_{};
};

// Of the set with that descriptor. nullptr for high ones, of which none are kept.
inline EpollTurns* TurnsOf(int epoll) {
  static std::array<EpollTurns, 1024> all;
  return epoll >= 0 && static_cast<size_t>(epoll) < all.size()
             ? &all[static_cast<size_t>(epoll)]
             : nullptr;
}

}  // namespace vrank::host

#endif  // VRANK_VIRTUAL_HOST_WAIT_EPOLL_TURNS_H_
