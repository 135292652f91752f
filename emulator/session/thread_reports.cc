#include "emulator/session/thread_reports.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "schedule/policy.h"

namespace vrank::emulator {
namespace {

constexpr size_t kRanksShown = 4;
constexpr size_t kProcessesShown = 2;

// The process that issues work for the rank comes first.
std::vector<pid_t> ProcessesOf(const GuestLink& link) {
  std::vector<pid_t> pids = link.pids();
  const auto owner = static_cast<pid_t>(link.owner_pid());
  std::stable_partition(pids.begin(), pids.end(),
                        [owner](pid_t pid) { return pid == owner; });
  return pids;
}

std::string Indented(std::string_view lines) {
  std::string text;
  while (!lines.empty()) {
    const size_t end = std::min(lines.find('\n'), lines.size());
    text += fmt::format("\n    {}", lines.substr(0, end));
    lines.remove_prefix(std::min(end + 1, lines.size()));
  }
  return text;
}

}  // namespace

std::set<int32_t> RanksOutside(const World& world) {
  std::set<int32_t> ranks;
  for (const auto& rank : world.real())
    if (!rank->closed() && !rank->link().Blocked())
      ranks.insert(rank->rank());
  return ranks;
}

std::string ThreadReports(const World& world) {
  std::string text;
  size_t ranks = 0;
  const std::set<int32_t> outside = RanksOutside(world);
  for (const auto& rank : world.real()) {
    if (!outside.contains(rank->rank()) || ranks == kRanksShown)
      continue;
    size_t processes = 0;
    for (const pid_t pid : ProcessesOf(rank->link())) {
      if (processes == kProcessesShown)
        break;
      const std::string report =
          rank->link().AskThreads(pid, schedule::Milliseconds(schedule::kThreadReport));
      if (report.empty())
        continue;
      ++processes;
      text += fmt::format("\n  rank {}, threads of process {}:{}", rank->rank(), pid,
                          Indented(report));
    }
    ranks += processes != 0 ? 1 : 0;
  }
  return text;
}

}  // namespace vrank::emulator
