// What is packed into OtherWait::pid beside the process: whether nothing but time ends
// the wait.

#ifndef VRANK_BASE_GUEST_OTHER_WAIT_H_
#define VRANK_BASE_GUEST_OTHER_WAIT_H_

#include <cstdint>

#include "base/guest/protocol.h"

namespace vrank::protocol {

// Beyond any process id (PID_MAX_LIMIT is 1 << 22). Set as the wait is taken, so that
// who reads `pid` knows both.
inline constexpr uint32_t kOtherSleeps = uint32_t{1} << 31;

inline uint32_t PidOf(const OtherWait& wait) {
  return wait.pid.load() & ~kOtherSleeps;
}

inline bool Sleeps(const OtherWait& wait) {
  return (wait.pid.load() & kOtherSleeps) != 0;
}

}  // namespace vrank::protocol

#endif  // VRANK_BASE_GUEST_OTHER_WAIT_H_
