#include "tools/run_ahead.h"

#include <algorithm>
#include <limits>

namespace vrank::tools {
namespace {

constexpr double kMuchWaiting = 0.02;
constexpr double kUneven = 1.5;

std::optional<RunAhead> OfRank(const RankReport& rank) {
  const std::vector<emulator::Iteration>& all = rank.iterations;
  if (!rank.real || all.size() < 3)
    return std::nullopt;
  RunAhead ahead{.rank = rank.rank, .iterations = all.size() - 1};
  int64_t waited_inside_ns = 0, longest_ns = 0;
  int64_t shortest_ns = std::numeric_limits<int64_t>::max();
  for (size_t i = 1; i < all.size(); ++i) {
    const int64_t waited_ns =
        (all[i].waited_by_end - all[i].waited_by_begin).nanoseconds();
    const int64_t length_ns = all[i].end.ns - all[i].begin.ns;
    ahead.that_wait += waited_ns > 0 ? 1 : 0;
    waited_inside_ns += waited_ns;
    longest_ns = std::max(longest_ns, length_ns);
    shortest_ns = std::min(shortest_ns, length_ns);
  }
  // Where each waits, what is waited for behind the last one is none of theirs.
  const int64_t waited_behind_ns =
      ahead.that_wait < ahead.iterations
          ? rank.waited_ns - all.back().waited_by_end.nanoseconds()
          : 0;
  ahead.waited_outside_ns =
      (all.back().waited_by_end - all.front().waited_by_end).nanoseconds() -
      waited_inside_ns + waited_behind_ns;
  const int64_t span_ns = all.back().end.ns - all.front().end.ns + waited_behind_ns;
  // Where nothing waited for the first one's work, it is a part of this.
  const bool first_is_in_it = all.front().waited_by_end == all.front().waited_by_begin;
  ahead.mean_iteration_ns =
      span_ns / static_cast<int64_t>(ahead.iterations + (first_is_in_it ? 1 : 0));
  const auto outside = static_cast<double>(ahead.waited_outside_ns);
  const bool waits_outside = outside > kMuchWaiting * static_cast<double>(span_ns);
  const bool some_wait = ahead.that_wait > 0 && ahead.that_wait != ahead.iterations;
  const double unevenness =
      static_cast<double>(longest_ns) / static_cast<double>(shortest_ns);
  const bool waits_now_and_then = some_wait && unevenness > kUneven;
  if (!waits_outside && !waits_now_and_then)
    return std::nullopt;
  return ahead;
}

}  // namespace

std::optional<RunAhead> FindRunAhead(const JobReport& report) {
  if (report.real_gpu)
    return std::nullopt;
  for (const RankReport& rank : report.ranks)
    if (const auto ahead = OfRank(rank); ahead.has_value())
      return ahead;
  return std::nullopt;
}

}  // namespace vrank::tools
