// Turns objects into the opaque handles that programs hold, and back.
//
// A handle is a number, not an address: kind, generation and index. Programs sort and
// hash by handle (PyTorch's allocator orders blocks by stream), so handles must be the
// same in every run; and a handle that was destroyed, or never was one, is recognised
// instead of followed. The value is no canonical address: dereferencing it faults at
// once.
//
// Not thread-safe: the GPU's lock guards it.

#ifndef VRANK_VIRTUAL_GPU_CORE_HANDLE_TABLE_H_
#define VRANK_VIRTUAL_GPU_CORE_HANDLE_TABLE_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace vrank::gpu {

// `kKind` tells streams from events from pools: each kind has its own number, 1 to 127.
template <typename T, uint8_t kKind>
class HandleTable {
 public:
  // Takes the object in; its address stays the same until Remove.
  void* Add(std::unique_ptr<T> object) {
    uint32_t index;
    if (free_.empty()) {
      index = static_cast<uint32_t>(slots_.size());
      slots_.emplace_back();
    } else {
      index = free_.back();
      free_.pop_back();
    }
    slots_[index].object = std::move(object);
    return Encode(index, slots_[index].generation);
  }

  // nullptr where the handle is none of this table's living ones.
  T* Find(const void* handle) const {
    uint32_t index;
    return Decode(handle, &index) ? slots_[index].object.get() : nullptr;
  }

  std::unique_ptr<T> Remove(const void* handle) {
    uint32_t index;
    if (!Decode(handle, &index))
      return nullptr;
    ++slots_[index].generation;
    free_.push_back(index);
    return std::move(slots_[index].object);
  }

  // Calls `visit(handle, object)` for every living object, in order of index.
  template <typename Visit>
  void ForEach(Visit visit) const {
    for (uint32_t i = 0; i < slots_.size(); ++i)
      if (slots_[i].object != nullptr)
        visit(Encode(i, slots_[i].generation), *slots_[i].object);
  }

 private:
  struct Slot {
    std::unique_ptr<T> object;
    uint32_t generation = 0;
  };

  // kind:8 | generation:20 | index:32 | 0:4. A kind below 128 in the top byte is no
  // canonical x86-64 or AArch64 user address. NVIDIA's handles are addresses of
  // objects, and so aligned, on which programs rely: PyTorch takes a stream with an odd
  // handle for a number of one of its own (c10::StreamId).
  static constexpr int kAlignment = 4, kGenerationBits = 20;
  static constexpr uint64_t kGenerations = (uint64_t{1} << kGenerationBits) - 1;
  static void* Encode(uint32_t index, uint32_t generation) {
    return reinterpret_cast<void*>(uint64_t{kKind} << 56 |
                                   (generation & kGenerations) << (32 + kAlignment) |
                                   uint64_t{index} << kAlignment);
  }
  bool Decode(const void* handle, uint32_t* index) const {
    const auto value = reinterpret_cast<uint64_t>(handle);
    *index = static_cast<uint32_t>(value >> kAlignment);
    return *index < slots_.size() && slots_[*index].object != nullptr &&
           Encode(*index, slots_[*index].generation) == handle;
  }

  std::vector<Slot> slots_;
  std::vector<uint32_t> free_;
};

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_HANDLE_TABLE_H_
