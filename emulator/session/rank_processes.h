// The processes of the real ranks: which ranks have connected, and how each ended.
//
// Thread rule: one thread (the session's).

#ifndef VRANK_EMULATOR_SESSION_RANK_PROCESSES_H_
#define VRANK_EMULATOR_SESSION_RANK_PROCESSES_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "emulator/launch/supervisor.h"
#include "emulator/world/real_rank.h"

namespace vrank::emulator {

class RankProcesses {
 public:
  // `by_launcher`: one process starts all ranks, and its exit counts as that of each.
  RankProcesses(std::vector<int32_t> real_ranks, bool by_launcher)
      : real_ranks_(std::move(real_ranks)), by_launcher_(by_launcher) {}

  // A process of the rank has connected.
  void Connected(int32_t rank) { connected_.insert(rank); }
  // The process that was launched for the rank has exited.
  void Exited(int32_t rank, const ExitStatus& status);

  const std::vector<int32_t>& real_ranks() const { return real_ranks_; }
  bool has_connected(int32_t rank) const { return connected_.contains(rank); }
  bool has_exited(int32_t rank) const { return exits_.contains(rank); }
  const std::map<int32_t, ExitStatus>& exits() const { return exits_; }
  // Of real ranks that a launcher starts, those that have not connected; without a
  // launcher none.
  std::vector<int32_t> NotStarted() const;
  // Process ids of the rank: the connected ones, and the one that `supervisor`
  // launched. The launcher's counts for each rank that has not connected.
  std::vector<pid_t> PidsOf(const RealRank& rank, const Supervisor& supervisor) const;

 private:
  const std::vector<int32_t> real_ranks_;
  const bool by_launcher_;
  std::set<int32_t> connected_;
  std::map<int32_t, ExitStatus> exits_;  // by rank
};

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_SESSION_RANK_PROCESSES_H_
