#include "graph/import/clock_difference.h"

#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>

namespace vrank::graph {
std::string DescribeClock(int32_t rank, const ClockDifference& difference) {
  return fmt::format("rank {}, at least {:.3f} ms {} rank {}", rank,
                     static_cast<double>(std::abs(difference.at_least_ns)) / 1e6,
                     difference.at_least_ns > 0 ? "ahead of" : "behind",
                     difference.against);
}

// `of`: the rank that it is noted for, one of both.
void ClockDifferences::Note(const Member& ahead, const Member& behind, int32_t of) {
  const int64_t ns = ahead.time.begin_ns - behind.time.end_ns;
  ClockDifference& difference = found_[of];
  ++difference.collectives;
  if (ns <= std::abs(difference.at_least_ns))
    return;
  const bool is_ahead = of == ahead.rank;
  difference.at_least_ns = is_ahead ? ns : -ns;
  difference.against = is_ahead ? behind.rank : ahead.rank;
}

void ClockDifferences::Add(const std::vector<Member>& members) {
  if (members.size() < 2)
    return;
  const Member& last = *std::max_element(members.begin(), members.end(),
                                         [](const Member& a, const Member& b) {
                                           return a.time.begin_ns < b.time.begin_ns;
                                         });
  const Member& first = *std::min_element(
      members.begin(), members.end(),
      [](const Member& a, const Member& b) { return a.time.end_ns < b.time.end_ns; });
  for (const Member& member : members) {
    const int64_t ahead = member.time.begin_ns - first.time.end_ns;
    const int64_t behind = last.time.begin_ns - member.time.end_ns;
    if (std::max(ahead, behind) <= kClockNoiseNs)
      continue;
    if (ahead > behind)
      Note(member, first, member.rank);
    else
      Note(last, member, member.rank);
  }
}

void ClockDifferences::AddTransfer(const Member& send, const Member& receive) {
  if (send.time.begin_ns - receive.time.end_ns <= kClockNoiseNs)
    return;
  Note(send, receive, send.rank);
  Note(send, receive, receive.rank);
}

}  // namespace vrank::graph
