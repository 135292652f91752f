// Which of the system's clocks show virtual time, and where they stand at its zero.
//
// CPU-time clocks show the host clock itself: what the modelled host costs add up to is
// the best this run knows, and real CPU time would differ between two runs.
//
// Thread rule: pure functions.

#ifndef VRANK_VIRTUAL_HOST_PROCESS_VIRTUAL_CLOCK_H_
#define VRANK_VIRTUAL_HOST_PROCESS_VIRTUAL_CLOCK_H_

#include <time.h>

#include <optional>

#include "base/guest/protocol.h"
#include "base/guest/units.h"

namespace vrank::host {

// What `clock` shows at virtual time 0; nothing for clocks that stay real (clocks of
// devices, see clock_gettime(2) and the kernel's dynamic clocks).
std::optional<Duration> ClockStart(const protocol::Settings& settings, clockid_t clock);

}  // namespace vrank::host

#endif  // VRANK_VIRTUAL_HOST_PROCESS_VIRTUAL_CLOCK_H_
