// Ends this process where the emulator has ended the session.
//
// A session that cannot go on (a deadlock of the job, a mismatched collective) leaves
// ranks that wait for answers that will never come. Each prints the emulator's reason
// once and exits with kAbortedExit; vrank reports the same reason for the whole job.

#ifndef VRANK_VIRTUAL_HOST_TURNS_SESSION_END_H_
#define VRANK_VIRTUAL_HOST_TURNS_SESSION_END_H_

#include <atomic>
#include <cstdint>

#include "base/guest/protocol.h"

namespace vrank::host {

// EX_SOFTWARE of sysexits.h.
inline constexpr int kAbortedExit = 70;

// Returns where the session runs or has failed. May be called from any thread.
void ExitIfAborting(const protocol::SegmentHeader& header);

// A rank has failed: no answer comes any more, and the process may go on for a while.
inline bool HasFailed(const protocol::SegmentHeader& header) {
  return header.session_state.load(std::memory_order_acquire) ==
         static_cast<uint32_t>(protocol::SessionState::kFailed);
}

}  // namespace vrank::host

#endif  // VRANK_VIRTUAL_HOST_TURNS_SESSION_END_H_
