// Objects addressed by a 32-bit index, recycled, at stable addresses.
//
// What is pending in the engine refers to each other by index (half the size of a
// pointer) and is created and dropped millions of times per second, so nothing is ever
// given back to the allocator: a dropped object keeps what it holds (vectors' capacity)
// for its next life.
//
// Thread rule: one thread.

#ifndef VRANK_GRAPH_PROGRAM_POOL_H_
#define VRANK_GRAPH_PROGRAM_POOL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace vrank::graph {

// "No object", for every index in the engine.
inline constexpr uint32_t kNone = 0xffffffff;

template <class T>
class Pool {
 public:
  // An object in the state in which it was dropped; the taker sets it up.
  uint32_t Take() {
    if (!free_.empty()) {
      const uint32_t index = free_.back();
      free_.pop_back();
      return index;
    }
    if (size_ % kChunk == 0)
      chunks_.push_back(std::make_unique<T[]>(kChunk));
    return size_++;
  }
  void Drop(uint32_t index) { free_.push_back(index); }

  T& operator[](uint32_t index) { return chunks_[index / kChunk][index % kChunk]; }
  const T& operator[](uint32_t index) const {
    return chunks_[index / kChunk][index % kChunk];
  }
  uint32_t taken() const { return size_; }  // ever: indices are below
  size_t in_use() const { return size_ - free_.size(); }

 private:
  static constexpr uint32_t kChunk = 256;
  std::vector<std::unique_ptr<T[]>> chunks_;
  std::vector<uint32_t> free_;
  uint32_t size_ = 0;
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_PROGRAM_POOL_H_
