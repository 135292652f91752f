#include "emulator/session/rank_processes.h"

#include <algorithm>

namespace vrank::emulator {

void RankProcesses::Exited(int32_t rank, const ExitStatus& status) {
  if (!by_launcher_)
    exits_[rank] = status;
  else
    for (const int32_t each : real_ranks_)
      exits_[each] = status;
}

std::vector<int32_t> RankProcesses::NotStarted() const {
  std::vector<int32_t> ranks;
  for (const int32_t rank : real_ranks_)
    if (by_launcher_ && !has_connected(rank))
      ranks.push_back(rank);
  return ranks;
}

std::vector<pid_t> RankProcesses::PidsOf(const RealRank& rank,
                                         const Supervisor& supervisor) const {
  std::vector<pid_t> pids = rank.link().pids();
  const bool awaits_launcher = by_launcher_ && !has_connected(rank.rank());
  for (const auto& [running, pid] : supervisor.Running())
    if ((awaits_launcher || static_cast<int32_t>(running) == rank.rank()) &&
        std::find(pids.begin(), pids.end(), pid) == pids.end())
      pids.push_back(pid);
  return pids;
}

}  // namespace vrank::emulator
