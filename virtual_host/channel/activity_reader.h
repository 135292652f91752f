// Reads what the emulator publishes about records, for a profiler in the process.
//
// Thread rule: Read by one thread at a time, the others by any.

#ifndef VRANK_VIRTUAL_HOST_CHANNEL_ACTIVITY_READER_H_
#define VRANK_VIRTUAL_HOST_CHANNEL_ACTIVITY_READER_H_

#include <cstddef>

#include "base/guest/protocol.h"
#include "base/guest/units.h"

namespace vrank::host {

class ActivityReader {
 public:
  explicit ActivityReader(protocol::ActivityRing* ring) : ring_(ring) {}

  // As those of ActivityChannel, without a look at the session's state.
  size_t Read(protocol::ActivityEntry* out, size_t capacity);
  void Await(bool for_entries, Duration patience);
  void WakeReaders();

 private:
  uint64_t Readable() const;

  protocol::ActivityRing* const ring_;
};

}  // namespace vrank::host

#endif  // VRANK_VIRTUAL_HOST_CHANNEL_ACTIVITY_READER_H_
