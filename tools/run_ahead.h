// Whether a rank's host issues iterations before its GPU has done them.
//
// An iteration is a range of the host. Where the program does not wait for its GPU in
// each (it reads the loss every tenth step, or synchronises behind the loop), a range
// says what it takes to issue the work, and the work of many is waited for at once.
// Their mean still says what one takes.
//
// Thread rule: plain values.

#ifndef VRANK_TOOLS_RUN_AHEAD_H_
#define VRANK_TOOLS_RUN_AHEAD_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "tools/job_report.h"

namespace vrank::tools {

struct RunAhead {
  int32_t rank = 0;
  size_t iterations = 0;  // behind the first one
  size_t that_wait = 0;   // ... in which the host waits for the GPU
  // Waits for the GPU between two iterations and, unless each waits, behind the last.
  int64_t waited_outside_ns = 0;
  // Of what passes from the first one's end until the last one's, and of those waits.
  int64_t mean_iteration_ns = 0;
};

// Of the first real rank in which more than 2 % of the time from the first iteration's
// end on is waited for outside of iterations, or in which some wait and others do not,
// and the longest takes half as long again as the shortest. Ranks with less than three
// iterations, and real GPUs, show nothing.
std::optional<RunAhead> FindRunAhead(const JobReport& report);

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_RUN_AHEAD_H_
