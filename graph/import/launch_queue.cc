#include "graph/import/launch_queue.h"

#include <algorithm>

namespace vrank::graph {
namespace {

// A queue of this many launches or fewer is none that was ever seen.
constexpr size_t kSmallestQueue = 256;
// Launches return as soon as one place is free, so what is outstanding varies by what
// ends at the same time.
constexpr size_t kSpread = 8;
// So few are no sign of anything.
constexpr size_t kFewestWaits = 16;
// A launch that waits takes longer than one that does not.
constexpr int64_t kShortestWaitNs = 20'000;

struct Launch {
  uint32_t call;
  size_t outstanding;  // when it returned
};

}  // namespace

std::vector<bool> FindFullQueue(const Recording& recording,
                                const std::vector<uint32_t>& call_of) {
  std::vector<bool> waited(recording.calls.size());
  std::vector<bool> launches(recording.calls.size());
  std::vector<int64_t> ends;
  for (size_t work = 0; work < call_of.size(); ++work) {
    if (call_of[work] == kNoRow)
      continue;
    launches[call_of[work]] = true;
    ends.push_back(recording.works[work].time.end_ns);
  }
  // Several pieces of work from one launch (a CUDA graph) are not counted by places.
  const auto count =
      static_cast<size_t>(std::count(launches.begin(), launches.end(), true));
  if (ends.size() != count)
    return waited;
  std::sort(ends.begin(), ends.end());
  std::vector<Launch> slow;
  size_t issued = 0, most = 0;
  for (uint32_t i = 0; i < recording.calls.size(); ++i) {
    if (!launches[i])
      continue;
    ++issued;
    const Span& time = recording.calls[i].time;
    const auto ended = static_cast<size_t>(
        std::upper_bound(ends.begin(), ends.end(), time.end_ns) - ends.begin());
    const size_t outstanding = issued - std::min(issued, ended);
    most = std::max(most, outstanding);
    if (time.end_ns - time.begin_ns >= kShortestWaitNs)
      slow.push_back({i, outstanding});
  }
  const auto is_full = [most](const Launch& launch) {
    return launch.outstanding + kSpread >= most;
  };
  const auto full =
      static_cast<size_t>(std::count_if(slow.begin(), slow.end(), is_full));
  if (most < kSmallestQueue || full < kFewestWaits)
    return waited;
  for (const Launch& launch : slow)
    waited[launch.call] = is_full(launch);
  return waited;
}

}  // namespace vrank::graph
