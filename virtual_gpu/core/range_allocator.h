// Hands out ranges of numbers, the lowest one that fits first.
//
// Lowest fit makes addresses a function of the order of calls alone, which byte-exact
// memory figures need: allocators in programs order their blocks by address.
//
// Not thread-safe: the GPU's lock guards it.

#ifndef VRANK_VIRTUAL_GPU_CORE_RANGE_ALLOCATOR_H_
#define VRANK_VIRTUAL_GPU_CORE_RANGE_ALLOCATOR_H_

#include <cstdint>
#include <map>
#include <optional>

namespace vrank::gpu {

constexpr uint64_t RoundUp(uint64_t value, uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

class RangeAllocator {
 public:
  // Adds [begin, end) to what can be taken, joined with its neighbours.
  void Add(uint64_t begin, uint64_t end) {
    auto next = free_.lower_bound(begin);
    if (next != free_.end() && next->first == end) {
      end = next->second;
      next = free_.erase(next);
    }
    if (next != free_.begin()) {
      auto before = std::prev(next);
      if (before->second == begin) {
        before->second = end;
        return;
      }
    }
    free_.emplace_hint(next, begin, end);
  }

  // Takes `bytes` at a multiple of `alignment`; nullopt where nothing fits.
  std::optional<uint64_t> Take(uint64_t bytes, uint64_t alignment) {
    for (auto it = free_.begin(); it != free_.end(); ++it) {
      uint64_t at = RoundUp(it->first, alignment);
      if (at > it->second || it->second - at < bytes)
        continue;
      TakeAt(it, at, at + bytes);
      return at;
    }
    return std::nullopt;
  }

  // Takes exactly [begin, end) if all of it is free.
  bool TakeExactly(uint64_t begin, uint64_t end) {
    auto it = free_.upper_bound(begin);
    if (it == free_.begin() || (--it)->second < end)
      return false;
    TakeAt(it, begin, end);
    return true;
  }

  bool empty() const { return free_.empty(); }
  // begin -> end of what is free.
  const std::map<uint64_t, uint64_t>& free_ranges() const { return free_; }

 private:
  void TakeAt(std::map<uint64_t, uint64_t>::iterator it, uint64_t begin, uint64_t end) {
    const uint64_t range_end = it->second;
    if (it->first == begin)
      it = free_.erase(it);
    else
      (it++)->second = begin;
    if (end < range_end)
      free_.emplace_hint(it, end, range_end);
  }

  std::map<uint64_t, uint64_t> free_;
};

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_RANGE_ALLOCATOR_H_
