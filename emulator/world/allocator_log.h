// The most that PyTorch's caching allocator has held of a rank's GPU, by op of its
// program: what PyTorch's users call memory, beside what the GPU has given out.
//
// Memory: 24 bytes a point, at most kMostPoints.
//
// Thread rule: one thread (the session's).

#ifndef VRANK_EMULATOR_WORLD_ALLOCATOR_LOG_H_
#define VRANK_EMULATOR_WORLD_ALLOCATOR_LOG_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace vrank::emulator {

// In bytes, each by itself the most so far.
struct AllocatorBytes {
  uint64_t allocated = 0;  // given to tensors
  uint64_t reserved = 0;   // taken from CUDA
  friend bool operator==(const AllocatorBytes&, const AllocatorBytes&) = default;
};

class AllocatorLog {
 public:
  static constexpr size_t kMostPoints = size_t{1} << 14;

  // Before the op number `op`. Ops ascend, and so do the bytes of each GPU.
  void Add(uint64_t op, uint32_t device, AllocatorBytes peak);

  // Of the GPU of which the most is allocated, once all ops before the number `op` were
  // issued. Of the past, every second point may be missing: its growth then shows at
  // the next one.
  AllocatorBytes Before(uint64_t op) const;
  // Of the whole run. {0, 0}: the program has no such allocator.
  AllocatorBytes Peak() const { return Before(UINT64_MAX); }

 private:
  struct Point {
    uint64_t op = 0;
    AllocatorBytes bytes;
  };
  std::map<uint32_t, std::vector<Point>> devices_;
};

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_WORLD_ALLOCATOR_LOG_H_
