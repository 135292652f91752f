// Ends this process where the emulator has ended the session.
//
// A session that cannot go on (a deadlock of the job, a mismatched collective) leaves
// ranks that wait for answers that will never come. Each prints the emulator's reason
// once and exits with kAbortedExit; vrank reports the same reason for the whole job.

#ifndef VRANK_VIRTUAL_HOST_SESSION_END_H_
#define VRANK_VIRTUAL_HOST_SESSION_END_H_

#include "base/guest/protocol.h"

namespace vrank::host {

// EX_SOFTWARE of sysexits.h.
inline constexpr int kAbortedExit = 70;

// Returns where the session runs. May be called from any thread.
void ExitIfAborting(const protocol::SegmentHeader& header);

}  // namespace vrank::host

#endif  // VRANK_VIRTUAL_HOST_SESSION_END_H_
