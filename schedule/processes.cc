#include "schedule/processes.h"

#include <algorithm>

namespace vrank::schedule {

StopStep NextStopStep(const OwnerStop& stop) {
  if (stop.processes_may_run)
    return StopStep::kSettleProcesses;
  const bool helper_expires =
      stop.helper_limit_ns <= std::min(stop.now_ns, stop.process_limit_ns);
  if (stop.helpers_may_run || helper_expires)
    return StopStep::kRunHelpers;
  return stop.process_limit_ns <= stop.now_ns ? StopStep::kExpireProcess
                                              : StopStep::kGoOn;
}

}  // namespace vrank::schedule
