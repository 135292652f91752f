// Writes records into the segment's ring.
//
// The ring is mapped twice in a row, so a record is one copy wherever it starts. A
// write is complete with the store of `written`; the emulator never sees half a record,
// not even that of a process killed in the middle.
//
// Thread rule: one writer at a time; the caller holds the channel's lock.

#ifndef VRANK_VIRTUAL_HOST_CHANNEL_RING_WRITER_H_
#define VRANK_VIRTUAL_HOST_CHANNEL_RING_WRITER_H_

#include <cstddef>
#include <cstdint>

#include "base/guest/protocol.h"

namespace vrank::host {

class RingWriter {
 public:
  RingWriter(protocol::SegmentHeader* header, unsigned char* ring, int doorbell)
      : header_(header), ring_(ring), doorbell_(doorbell) {}

  // Sets record->size, copies the struct and its tail, and rings the doorbell where the
  // emulator sleeps and wants to be woken for this. Waits for room where the ring is
  // full. A record larger than half the ring cannot be written: it is left out and
  // said.
  void Write(protocol::Record* record, size_t struct_bytes, const void* tail,
             size_t tail_bytes, bool question);
  // Wakes the emulator where it sleeps. Any thread may call it, without the lock.
  void Ring();
  // Records written so far: the number of the latest one, counted from 1.
  uint64_t records() const { return records_; }

 private:
  void WaitForRoom(uint64_t written, size_t bytes);

  protocol::SegmentHeader* const header_;
  unsigned char* const ring_;
  const int doorbell_;
  uint64_t consumed_ = 0;  // as last seen
  uint64_t records_ = 0;
};

}  // namespace vrank::host

#endif  // VRANK_VIRTUAL_HOST_CHANNEL_RING_WRITER_H_
