// What an emulated job did in all, by kind and name, for the question why a result
// moved: `vrank emulate --json` has no critical path of an iteration, but it counts
// every kernel, every operation of communication and every call.
//
// Thread rule: plain values and pure functions.

#ifndef VRANK_TOOLS_COMPARE_WORK_TOTALS_H_
#define VRANK_TOOLS_COMPARE_WORK_TOTALS_H_

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace vrank::tools {

// The row of kind "host" for the time in which the host waits for its GPU.
inline constexpr char kHostBlocked[] = "blocked: waits for the GPU";

// ... for the program's CPU time between its calls in the whole run, and for that on
// the critical path of the iterations.
inline constexpr char kOwnTime[] = "the program itself, between calls";
inline constexpr char kOwnTimeOnPath[] = "the program itself, on the critical path";

struct WorkTotal {
  int64_t calls = 0;
  int64_t time_ns = 0;
};

// A part of what PyTorch's allocator had given out at its maximum, as in the JSON's
// `peak_contents`.
struct AllocatedPart {
  std::string taken;  // "before", "forward", "backward", "update"
  bool earlier_iteration = false;
  std::string kernel;  // empty: all that was taken then
  auto operator<=>(const AllocatedPart&) const = default;
};

// Of the whole run, over all real ranks.
struct WorkTotals {
  // By kind ("kernel", "communication", "host") and name.
  std::map<std::pair<std::string, std::string>, WorkTotal> rows;
  // At the peak of the rank that has the highest: bytes by owner, and what PyTorch's
  // allocator gave out at most.
  std::map<std::string, int64_t> peak_bytes;
  // ... and what filled it, in bytes; empty where that is not known.
  std::map<AllocatedPart, int64_t> allocated;
  int64_t iterations = 0, ranks = 0;
};

// How a row changed, per real rank: by iteration, where both runs have the same number
// of them (start-up, which both have, drops out), else in the whole run.
struct WorkChange {
  std::string kind, name;
  double calls = 0;
  double time_ns = 0;
};
struct WorkChanges {
  int64_t iterations = 1;  // that the changes are a share of
  bool per_iteration = false;
  std::vector<WorkChange> rows;  // the largest change of time first
};

// No rows where one of the two has none.
WorkChanges FindWorkChanges(const WorkTotals& base, const WorkTotals& updated);

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_COMPARE_WORK_TOTALS_H_
