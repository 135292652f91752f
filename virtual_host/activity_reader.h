// Reads what the emulator publishes about records, for a profiler in the process.
//
// Thread rule: Read from one thread at a time, Wake from any.

#ifndef VRANK_VIRTUAL_HOST_ACTIVITY_READER_H_
#define VRANK_VIRTUAL_HOST_ACTIVITY_READER_H_

#include <cstddef>

#include "base/guest/protocol.h"
#include "base/guest/units.h"

namespace vrank::host {

class ActivityReader {
 public:
  explicit ActivityReader(protocol::ActivityRing* ring) : ring_(ring) {}

  // As ActivityChannel::Read, without a look at the session's state.
  size_t Read(protocol::ActivityEntry* out, size_t capacity, Duration patience);
  void Wake();

 private:
  size_t Take(protocol::ActivityEntry* out, size_t capacity);

  protocol::ActivityRing* const ring_;
};

}  // namespace vrank::host

#endif  // VRANK_VIRTUAL_HOST_ACTIVITY_READER_H_
