#include "virtual_gpu/api/cupti/buffers.h"

#include <cstring>
#include <utility>

namespace vrank::cupti {
namespace {

// The calling thread is inside the client's completion callback.
thread_local bool delivering = false;

size_t RoundUp(size_t bytes) {
  return (bytes + kRecordAlignment - 1) / kRecordAlignment * kRecordAlignment;
}

}  // namespace

void ActivityBuffers::SetCallbacks(CUpti_BuffersCallbackRequestFunc request,
                                   CUpti_BuffersCallbackCompleteFunc complete) {
  std::lock_guard guard(mutex_);
  request_ = request;
  complete_ = complete;
}

bool ActivityBuffers::has_callbacks() {
  std::lock_guard guard(mutex_);
  return request_ != nullptr;
}

void ActivityBuffers::Add(const void* record, size_t bytes) {
  const size_t room = RoundUp(bytes);
  std::lock_guard guard(mutex_);
  if (current_.bytes != nullptr && !current_.Takes(room))
    Retire();
  if (current_.bytes == nullptr && !Request(room)) {
    dropped_.fetch_add(1);
    return;
  }
  std::memcpy(current_.bytes + current_.used, record, bytes);
  current_.used += room;
  ++current_.records;
}

bool ActivityBuffers::Request(size_t bytes) {
  if (request_ == nullptr)
    return false;
  Buffer fresh;
  request_(&fresh.bytes, &fresh.size, &fresh.max_records);
  if (fresh.bytes == nullptr)
    return false;
  current_ = fresh;
  const bool aligned = reinterpret_cast<uintptr_t>(fresh.bytes) % kRecordAlignment == 0;
  if (!aligned || !fresh.Takes(bytes)) {
    Retire();  // given back empty: it stays the client's
    return false;
  }
  if (clears_.load())
    std::memset(fresh.bytes, 0, fresh.size);
  return true;
}

void ActivityBuffers::Retire() {
  full_.push_back(current_);
  current_ = {};
  has_full_.store(true);
}

void ActivityBuffers::DeliverFull() {
  if (has_full_.load() && !delivering)
    Deliver();
}

bool ActivityBuffers::InCallback() {
  return delivering;
}

bool ActivityBuffers::DeliverAll() {
  if (delivering)
    return false;
  {
    std::lock_guard guard(mutex_);
    if (current_.records > 0)
      Retire();
  }
  Deliver();
  return true;
}

void ActivityBuffers::Deliver() {
  std::lock_guard turn(delivery_);
  std::vector<Buffer> ready;
  CUpti_BuffersCallbackCompleteFunc complete;
  {
    std::lock_guard guard(mutex_);
    ready = std::exchange(full_, {});
    has_full_.store(false);
    complete = complete_;
  }
  delivering = true;
  for (const Buffer& buffer : ready)
    if (complete != nullptr)  // else the client has finished with CUPTI
      complete(nullptr, 0, buffer.bytes, buffer.size, buffer.used);
  delivering = false;
}

}  // namespace vrank::cupti
