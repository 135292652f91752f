// Device memory for activations without a cudaMalloc per tensor.
//
// A transformer asks for the same few sizes again and again, so blocks are cached in
// one free list per size class (a size rounded up) and never split. A request takes a
// cached block of its class or else cudaMalloc; if the device is full, all cached
// blocks are given back and the request is tried once more.
//
// Reuse follows the order of one stream: free a buffer when the compute stream holds
// all work that uses it, and use new buffers on that stream only. Not thread-safe.

#ifndef EXAMPLES_GPT_TRAINER_CACHING_ALLOCATOR_H_
#define EXAMPLES_GPT_TRAINER_CACHING_ALLOCATOR_H_

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>
#include <vector>

namespace gpt {

struct AllocatorStatistics {
  size_t allocated_bytes = 0;  // handed out now, as rounded
  size_t peak_allocated_bytes = 0;
  size_t reserved_bytes = 0;  // taken from the device now: allocated + cached
  size_t peak_reserved_bytes = 0;
  long long allocations = 0;
  long long device_allocations = 0;  // of those, how many reached cudaMalloc
  long long retries = 0;             // times the cache was emptied to make room
};

class CachingAllocator {
  struct SizeClass {
    size_t bytes = 0;
    std::vector<void*> free;
  };

 public:
  // Owns one block until destroyed or reset.
  class Block {
   public:
    Block() = default;
    Block(Block&& other) noexcept
        : owner_(std::exchange(other.owner_, nullptr)),
          class_(std::exchange(other.class_, nullptr)),
          data_(std::exchange(other.data_, nullptr)) {}
    Block& operator=(Block&& other) noexcept {
      std::swap(owner_, other.owner_);
      std::swap(class_, other.class_);
      std::swap(data_, other.data_);
      other.Reset();
      return *this;
    }
    ~Block() { Reset(); }

    void* data() const { return data_; }
    void Reset();

   private:
    friend class CachingAllocator;
    Block(CachingAllocator* owner, SizeClass* size_class, void* data)
        : owner_(owner), class_(size_class), data_(data) {}

    CachingAllocator* owner_ = nullptr;
    SizeClass* class_ = nullptr;
    void* data_ = nullptr;
  };

  CachingAllocator() = default;
  // REQUIRES: all blocks were given back.
  ~CachingAllocator();
  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;

  // Ends the process with a message where even an emptied cache leaves too little.
  Block Allocate(size_t bytes);

  // Returns all cached blocks to the device.
  void EmptyCache();

  const AllocatorStatistics& statistics() const { return statistics_; }

  // What a request of `bytes` really takes: 512-byte steps up to 1 MiB (cudaMalloc's
  // own alignment is 256), 2 MiB steps above (the device's page).
  static size_t RoundUp(size_t bytes) {
    constexpr size_t kSmallStep = 512;
    constexpr size_t kLargeStep = size_t{2} << 20;
    constexpr size_t kLargestSmall = size_t{1} << 20;
    const size_t step = bytes <= kLargestSmall ? kSmallStep : kLargeStep;
    return std::max<size_t>((bytes + step - 1) / step, 1) * step;
  }

 private:
  void Free(SizeClass* size_class, void* data);
  void* TakeFromDevice(size_t bytes);

  std::map<size_t, SizeClass> classes_;  // nodes stay where they are
  AllocatorStatistics statistics_;
};

// A typed array in device memory.
template <typename T>
class DeviceArray {
 public:
  DeviceArray() = default;
  DeviceArray(CachingAllocator& allocator, long long elements)
      : block_(allocator.Allocate(static_cast<size_t>(elements) * sizeof(T))) {}

  T* data() const { return static_cast<T*>(block_.data()); }
  bool empty() const { return block_.data() == nullptr; }
  void Reset() { block_.Reset(); }

 private:
  CachingAllocator::Block block_;
};

}  // namespace gpt

#endif  // EXAMPLES_GPT_TRAINER_CACHING_ALLOCATOR_H_
