// A look-up in a map of about a dozen size classes, then a push or a pop.

#include "examples/gpt_trainer/caching_allocator.h"

#include <algorithm>
#include <string>

#include "examples/gpt_trainer/device/checks.h"
#include "examples/gpt_trainer/device/device.h"

namespace gpt {

void CachingAllocator::Block::Reset() {
  if (data_ != nullptr) {
    owner_->Free(class_, data_);
    data_ = nullptr;
  }
}

CachingAllocator::~CachingAllocator() {
  EmptyCache();
  GPT_CHECK(statistics_.reserved_bytes == 0);
}

CachingAllocator::Block CachingAllocator::Allocate(size_t bytes) {
  const size_t rounded = RoundUp(bytes);
  SizeClass& size_class = classes_[rounded];
  size_class.bytes = rounded;
  void* data = nullptr;
  if (size_class.free.empty()) {
    data = TakeFromDevice(rounded);
  } else {
    data = size_class.free.back();
    size_class.free.pop_back();
  }
  ++statistics_.allocations;
  statistics_.allocated_bytes += rounded;
  statistics_.peak_allocated_bytes =
      std::max(statistics_.peak_allocated_bytes, statistics_.allocated_bytes);
  return Block(this, &size_class, data);
}

void CachingAllocator::Free(SizeClass* size_class, void* data) {
  size_class->free.push_back(data);
  statistics_.allocated_bytes -= size_class->bytes;
}

void* CachingAllocator::TakeFromDevice(size_t bytes) {
  void* data = AllocateOnDevice(bytes);
  if (data == nullptr) {
    ++statistics_.retries;
    EmptyCache();
    data = AllocateOnDevice(bytes);
  }
  if (data == nullptr) {
    const std::string call = "allocating " + std::to_string(bytes) + " bytes with " +
                             std::to_string(statistics_.allocated_bytes) + " in use";
    Fail(__FILE__, __LINE__, call.c_str(), "the device is full");
  }
  ++statistics_.device_allocations;
  statistics_.reserved_bytes += bytes;
  statistics_.peak_reserved_bytes =
      std::max(statistics_.peak_reserved_bytes, statistics_.reserved_bytes);
  return data;
}

void CachingAllocator::EmptyCache() {
  for (auto& [bytes, size_class] : classes_) {
    for (void* data : size_class.free) {
      FreeOnDevice(data);
      statistics_.reserved_bytes -= bytes;
    }
    size_class.free.clear();
  }
}

}  // namespace gpt
