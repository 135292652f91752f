#include "virtual_host/activity_reader.h"

#include <algorithm>
#include <climits>

#include "virtual_host/futex.h"

namespace vrank::host {

size_t ActivityReader::Read(protocol::ActivityEntry* out, size_t capacity,
                            Duration patience) {
  // Read before looking: a wake-up in between makes the wait return at once.
  const uint32_t wakes = ring_->wakes.load(std::memory_order_seq_cst);
  if (const size_t taken = Take(out, capacity); taken != 0)
    return taken;
  ring_->reader_sleeps.store(1, std::memory_order_seq_cst);
  size_t taken = Take(out, capacity);
  if (taken == 0) {
    FutexWait(&ring_->wakes, wakes, patience, /*shared=*/true);
    taken = Take(out, capacity);
  }
  ring_->reader_sleeps.store(0, std::memory_order_relaxed);
  return taken;
}

size_t ActivityReader::Take(protocol::ActivityEntry* out, size_t capacity) {
  const uint64_t consumed = ring_->consumed.load(std::memory_order_relaxed);
  // Sequentially consistent with the emulator's write followed by its look at
  // reader_sleeps: one of the two sees the other.
  const uint64_t written = ring_->written.load(std::memory_order_seq_cst);
  const uint64_t count = std::min<uint64_t>(written - consumed, capacity);
  for (uint64_t i = 0; i < count; ++i)
    out[i] = ring_->entries[(consumed + i) % protocol::kActivityEntries];
  ring_->consumed.store(consumed + count, std::memory_order_release);
  return count;
}

void ActivityReader::Wake() {
  ring_->wakes.fetch_add(1, std::memory_order_seq_cst);
  FutexWake(&ring_->wakes, INT_MAX, /*shared=*/true);
}

}  // namespace vrank::host
