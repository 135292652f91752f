#include "virtual_host/process/virtual_clock.h"

namespace vrank::host {

std::optional<Duration> ClockStart(const protocol::Settings& settings,
                                   clockid_t clock) {
  switch (clock) {
    case CLOCK_REALTIME:
    case CLOCK_REALTIME_COARSE:
    case CLOCK_REALTIME_ALARM:
    case CLOCK_TAI:
      return Duration::Nanoseconds(settings.realtime_at_start_ns);
    case CLOCK_MONOTONIC:
    case CLOCK_MONOTONIC_RAW:
    case CLOCK_MONOTONIC_COARSE:
    case CLOCK_BOOTTIME:
    case CLOCK_BOOTTIME_ALARM:
      return Duration::Nanoseconds(settings.monotonic_at_start_ns);
    case CLOCK_PROCESS_CPUTIME_ID:
    case CLOCK_THREAD_CPUTIME_ID:
      return Duration();
    default:
      // Negative numbers: CPU time of another process or thread, or, where the lowest
      // three bits are 3, the clock of a device that is open as a file.
      if (clock < 0 && (clock & 7) != 3)
        return Duration();
      return std::nullopt;
  }
}

}  // namespace vrank::host
