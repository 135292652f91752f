#include "virtual_host/channel/activity_reader.h"

#include <algorithm>
#include <climits>

#include "virtual_host/turns/futex.h"

namespace vrank::host {

// Sequentially consistent with the emulator's write followed by its look at `waiting`:
// one of the two sees the other.
uint64_t ActivityReader::Readable() const {
  return ring_->written.load(std::memory_order_seq_cst) -
         ring_->consumed.load(std::memory_order_relaxed);
}

size_t ActivityReader::Read(protocol::ActivityEntry* out, size_t capacity) {
  const uint64_t consumed = ring_->consumed.load(std::memory_order_relaxed);
  const uint64_t count = std::min<uint64_t>(Readable(), capacity);
  for (uint64_t i = 0; i < count; ++i)
    out[i] = ring_->entries[(consumed + i) % protocol::kActivityEntries];
  ring_->consumed.store(consumed + count, std::memory_order_release);
  return count;
}

void ActivityReader::Await(bool for_entries, Duration patience) {
  // Read before looking: a wake-up in between makes the wait return at once.
  const uint32_t wakes = ring_->wakes.load(std::memory_order_seq_cst);
  ring_->waiting.fetch_add(1, std::memory_order_seq_cst);
  if (!for_entries || Readable() == 0)
    FutexWait(&ring_->wakes, wakes, patience, /*shared=*/true);
  ring_->waiting.fetch_sub(1, std::memory_order_seq_cst);
}

void ActivityReader::WakeReaders() {
  ring_->wakes.fetch_add(1, std::memory_order_seq_cst);
  FutexWake(&ring_->wakes, INT_MAX, /*shared=*/true);
}

}  // namespace vrank::host
