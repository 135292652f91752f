// Threads that compute for others: OpenMP's and MKL's (system/library_code.h,
// IsTeamCode). While one runs, so does whoever seems to wait.
//
// Thread rule: Announce and Withdraw on any thread; the others under one lock of the
// caller's (HelperThreads).

#ifndef VRANK_VIRTUAL_HOST_TURNS_THREAD_TEAM_H_
#define VRANK_VIRTUAL_HOST_TURNS_THREAD_TEAM_H_

#include <sys/types.h>

#include <atomic>
#include <vector>

#include "base/guest/units.h"

namespace vrank::host {

class ThreadTeam {
 public:
  // One is about to be created.
  void Announce() { starts_.fetch_add(1); }
  // It could not be created.
  void Withdraw() { starts_.fetch_sub(1); }
  // Called on the thread itself.
  void Join();
  // Whether one runs. Adds the CPU time of all so far.
  bool Runs(Duration* cpu);
  void ForgetAll();

 private:
  std::vector<pid_t> threads_;
  std::atomic<int> starts_{0};  // announced, and not running yet
};

}  // namespace vrank::host

#endif  // VRANK_VIRTUAL_HOST_TURNS_THREAD_TEAM_H_
