#include "virtual_host/channel/ring_writer.h"

#include <cstring>

#include "base/guest/raw_log.h"
#include "schedule/policy.h"
#include "virtual_host/system/raw_syscall.h"
#include "virtual_host/turns/futex.h"
#include "virtual_host/turns/session_end.h"

namespace vrank::host {
namespace {

using protocol::kRingBytes;

// An emulator that sleeps through plain records is woken when this much waits, well
// before the writer would have to stop.
constexpr uint64_t kWakeBytes = kRingBytes / 4;

}  // namespace

void RingWriter::Write(protocol::Record* record, size_t struct_bytes, const void* tail,
                       size_t tail_bytes, bool question) {
  const size_t bytes = (struct_bytes + tail_bytes + 7) / 8 * 8;
  if (bytes > kRingBytes / 2) {
    RawLog("virtual_host",
           "a record of kind %d has %zu bytes and does not fit; the "
           "report will lack it",
           static_cast<int>(record->kind), bytes);
    return;
  }
  record->size = static_cast<uint32_t>(bytes);
  const uint64_t written = header_->written.load(std::memory_order_relaxed);
  if (written + bytes - consumed_ > kRingBytes) [[unlikely]]
    WaitForRoom(written, bytes);

  unsigned char* out = ring_ + written % kRingBytes;
  memcpy(out, record, struct_bytes);
  if (tail_bytes > 0) {
    memcpy(out + struct_bytes, tail, tail_bytes);
    memset(out + struct_bytes + tail_bytes, 0, bytes - struct_bytes - tail_bytes);
  }
  // Sequentially consistent with the emulator's "I sleep" followed by its look at
  // written: one of the two sees the other.
  header_->written.store(written + bytes, std::memory_order_seq_cst);
  ++records_;
  const uint32_t sleeps = header_->emulator_sleeps.load(std::memory_order_seq_cst);
  if (sleeps == 0) [[likely]]
    return;
  const uint64_t waiting =
      written + bytes - header_->consumed.load(std::memory_order_relaxed);
  if (sleeps >= 2 || question || waiting >= kWakeBytes)
    Ring();
}

void RingWriter::WaitForRoom(uint64_t written, size_t bytes) {
  for (;;) {
    consumed_ = header_->consumed.load(std::memory_order_acquire);
    if (written + bytes - consumed_ <= kRingBytes)
      return;
    Ring();
    // As in Write: the wish is seen, or the room is.
    header_->guest_waits_for_room.store(1, std::memory_order_seq_cst);
    consumed_ = header_->consumed.load(std::memory_order_seq_cst);
    if (written + bytes - consumed_ > kRingBytes)
      FutexWait(&header_->guest_waits_for_room, 1, schedule::kAnswerSlice,
                /*shared=*/true);
    header_->guest_waits_for_room.store(0, std::memory_order_relaxed);
    ExitIfAborting(*header_);
  }
}

void RingWriter::Ring() {
  if (header_->emulator_sleeps.exchange(0, std::memory_order_seq_cst) == 0)
    return;
  const uint64_t one = 1;
  RawSyscall(SYS_write, doorbell_, &one, sizeof one);
}

}  // namespace vrank::host
