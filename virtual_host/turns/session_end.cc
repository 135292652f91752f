#include "virtual_host/turns/session_end.h"

#include <unistd.h>

#include <atomic>

#include "base/guest/raw_log.h"

namespace vrank::host {

void ExitIfAborting(const protocol::SegmentHeader& header) {
  const uint32_t state = header.session_state.load(std::memory_order_acquire);
  if (state != static_cast<uint32_t>(protocol::SessionState::kAborting)) [[likely]]
    return;
  static std::atomic<bool> said{false};
  if (!said.exchange(true))
    RawLog("virtual_host", "%.255s", header.abort_reason);
  _exit(kAbortedExit);
}

}  // namespace vrank::host
