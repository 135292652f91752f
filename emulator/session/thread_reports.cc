#include "emulator/session/thread_reports.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "schedule/policy.h"

namespace vrank::emulator {
namespace {

constexpr size_t kRanksShown = 4;
constexpr size_t kProcessesShown = 12;

std::string NoAnswer() {
  return fmt::format(
      "not known: the process did not answer signal {}, which a program may handle "
      "itself or block",
      protocol::kAskThreadsSignal);
}

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
    const std::vector<pid_t> pids = ProcessesOf(rank->link());
    const size_t shown = std::min(pids.size(), kProcessesShown);
    for (size_t i = 0; i < shown; ++i) {
      const auto report = rank->link().AskThreads(
          pids[i], schedule::Milliseconds(schedule::kThreadReport));
      text += fmt::format("\n  rank {}, threads of process {}:{}", rank->rank(),
                          pids[i], Indented(report.value_or(NoAnswer())));
    }
    if (pids.size() > shown)
      text += fmt::format("\n  rank {}, {} more processes", rank->rank(),
                          pids.size() - shown);
    ranks += pids.empty() ? 0 : 1;
  }
  return text;
}

}  // namespace vrank::emulator
