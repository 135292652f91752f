// Finds real ranks that hang or spin, and words the error or the note about them.
//
// A rank that is blocked outside of vrank counts as hanging after a limit of real time,
// and one that spins after ten times that limit in CPU time. A rank that a debugger
// holds is waited for. Virtual time does not depend on this.
//
// Thread rule: one thread (the session's). Reads /proc.

#ifndef VRANK_EMULATOR_SESSION_HANG_WATCH_H_
#define VRANK_EMULATOR_SESSION_HANG_WATCH_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "emulator/launch/supervisor.h"
#include "emulator/session/rank_processes.h"
#include "emulator/watch/hang_detector.h"
#include "emulator/watch/spin_detector.h"
#include "emulator/world/world.h"

namespace vrank::emulator {

class HangWatch {
 public:
  using OnNote = std::function<void(const std::string&)>;

  // All pointers outlive it. `hang_after`: zero: no rank hangs.
  HangWatch(std::chrono::milliseconds hang_after, const World* world,
            const RankProcesses* processes, const Supervisor* supervisor,
            OnNote on_note);

  // Something moved: all waiting begins anew.
  void Moved() { hang_.Moved(); }
  // Polls the ranks unless the last poll is recent. Notes ranks that spin or are
  // stopped. A text: a rank hangs, and what can be done about it.
  std::optional<std::string> Check();
  // The rank that the last text of Check was about.
  std::optional<int32_t> hung() const { return hung_; }

 private:
  // Ranks that run outside of vrank, as far as it knows.
  std::vector<SpinDetector::Candidate> RanksOutside();
  std::string DescribeHang(const HangDetector::Finding& found) const;
  std::string DescribeSpin(const SpinDetector::Spin& spin) const;
  void NoteSpin(const SpinDetector::Spin& spin) const;
  std::string SinceLastCall(int32_t rank) const;
  double LimitSeconds() const {
    return std::chrono::duration<double>(hang_after_).count();
  }

  const std::chrono::milliseconds hang_after_;
  const World* const world_;
  const RankProcesses* const processes_;
  const Supervisor* const supervisor_;
  const OnNote on_note_;
  HangDetector hang_;
  SpinDetector spin_;
  HangDetector::Clock::time_point last_check_;
  std::map<int32_t, std::string> last_calls_;  // by rank, as of the last check
  std::optional<int32_t> hung_;
};

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_SESSION_HANG_WATCH_H_
