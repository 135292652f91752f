// What PyTorch's caching allocator has given out and taken back since the last launch.
//
// The allocator reports with its own lock held, from any thread. So blocks are kept
// here, and the thread that launches next writes them into the ring.
//
// Memory: 24 bytes a change, at most kMost changes.
//
// Thread rule: Note() by any thread; Take() by one at a time.

#ifndef VRANK_VIRTUAL_HOST_CHANNEL_ALLOCATOR_BLOCKS_H_
#define VRANK_VIRTUAL_HOST_CHANNEL_ALLOCATOR_BLOCKS_H_

#include <atomic>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "base/guest/protocol.h"
#include "virtual_host/turns/futex.h"

namespace vrank::host {

class AllocatorBlocks {
 public:
  // Between two launches. What comes then is left out, until they are taken.
  static constexpr size_t kMost = size_t{1} << 16;
  // 96 KiB: far below half a ring.
  static constexpr size_t kMostPerRecord = size_t{1} << 12;

  void Note(const protocol::AllocatorBlock& block) {
    const LockGuard guard(&lock_);
    if (noted_.size() < kMost)
      noted_.push_back(block);
    else
      incomplete_ = true;
    pending_.store(true, std::memory_order_release);
  }

  bool pending() const { return pending_.load(std::memory_order_relaxed); }

  struct Taken {
    std::span<const protocol::AllocatorBlock> blocks;  // in order
    bool incomplete = false;                           // others were left out
  };
  // Valid until the next call. One thread at a time.
  Taken Take() {
    const LockGuard guard(&lock_);
    pending_.store(false, std::memory_order_relaxed);
    taken_.clear();
    taken_.swap(noted_);
    return {taken_, std::exchange(incomplete_, false)};
  }

  void ResetAfterFork() { lock_.ResetAfterFork(); }

 private:
  FutexLock lock_;
  std::atomic<bool> pending_{false};
  std::vector<protocol::AllocatorBlock> noted_, taken_;
  bool incomplete_ = false;
};

}  // namespace vrank::host

#endif  // VRANK_VIRTUAL_HOST_CHANNEL_ALLOCATOR_BLOCKS_H_
