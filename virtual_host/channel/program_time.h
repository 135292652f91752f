// What the channel knows of the program's own time on one thread: the gap that is open,
// how much of it has passed, and gaps that are to be sent.
//
// Of a thread that issues work, and of one in a process that moves no clock (a data
// loader's worker): what that has computed is owed, and passes as a sleep before others
// may notice what it does next.
//
// Thread rule: its own thread.

#ifndef VRANK_VIRTUAL_HOST_CHANNEL_PROGRAM_TIME_H_
#define VRANK_VIRTUAL_HOST_CHANNEL_PROGRAM_TIME_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/guest/anchor_history.h"
#include "base/guest/protocol.h"
#include "base/guest/units.h"
#include "virtual_host/system/cpu_meter.h"
#include "virtual_host/turns/thread_clock.h"

namespace vrank::host {

class ProgramTime {
 public:
  // Of virtual time. The others of the rank wait for each sleep in real time. A choice.
  static constexpr int64_t kLeastSleepNs = 100'000;

  // For the calling thread, which is in a call of ours: its first gap begins when that
  // returns.
  enum class Of { kIssuer, kFollower };
  ProgramTime(const protocol::Settings& settings, Of of);

  // The program goes on, or stops, though its gap is not over: a wait of its own.
  void Resume() {
    if (meters_)
      meter_.Resume();
  }
  void Pause() {
    if (meters_)
      meter_.Pause();
  }

  // What the gap has taken since it began, or since the last part was taken; 0 where
  // that is not metered. REQUIRES: paused.
  int64_t TakePart();
  // The program has called `function`: the gap is over. Returns its last part.
  // REQUIRES: paused.
  int64_t EndGap(const char* function);
  // The anchor of that call, or of the one before the gap that is open.
  uint64_t anchor() const { return anchor_; }
  bool called() const { return called_; }
  // That call is for `what`.
  void Refine(uint64_t what) {
    if (called_)
      anchor_ = RefineAnchor(anchor_, what);
  }
  // It is about to return: another gap begins.
  void BeginGap() { called_ = false; }
  // By what that is known. Once for each gap, or for none.
  GapKeys PassAnchor() { return history_.Pass(anchor_); }
  // Where it ends, `recorded` says what passes there: it has a rest.
  void KeepForEnd(const protocol::RecordedGap* recorded) { ends_by_ = recorded; }
  // The one kept for the gap that is over; nullptr: none.
  const protocol::RecordedGap* TakeKept() { return std::exchange(ends_by_, nullptr); }

  bool meters() const { return meters_; }
  bool follows() const { return of_ == Of::kFollower; }
  void Owe(int64_t ns) { owed_ns_ += ns; }
  // Measured: until when a follower has computed, from `now` at least.
  TimePoint due() const { return due_; }
  void RaiseDue(TimePoint now, Duration computed) {
    due_ = std::max(due_, now) + computed;
  }
  // What it owes of recorded time, once it is worth a sleep; else 0.
  int64_t TakeOwed() {
    return owed_ns_ < kLeastSleepNs ? 0 : std::exchange(owed_ns_, 0);
  }
  // The last gap of a follower, where gaps are recorded.
  std::optional<protocol::HostGap> TakeGap() {
    if (unsent_ == 0)
      return std::nullopt;
    return gaps_[--unsent_];
  }
  uint64_t role() const { return role_; }
  uint32_t thread() const { return thread_; }
  // Gaps that are to be sent.
  uint32_t unsent() const { return unsent_; }
  bool is_full() const { return unsent_ == gaps_.size(); }
  const protocol::HostGap* gaps() const { return gaps_.data(); }
  // What goes before them; they count as sent.
  protocol::HostGaps Send();

 private:
  // Hashes of functions, found by where their names lie.
  uint64_t AnchorOf(const char* function) {
    Name& known = names_[reinterpret_cast<uintptr_t>(function) / 8 % names_.size()];
    if (known.function != function)
      known = {function, MakeAnchor(function)};
    return known.anchor;
  }

  struct Name {
    const char* function = nullptr;
    uint64_t anchor = 0;
  };

  const Of of_;
  const bool meters_, records_;
  const uint64_t role_;
  const uint32_t thread_;  // its id
  CpuMeter<ThreadClock> meter_;
  AnchorHistory history_;
  std::array<Name, 128> names_{};
  const protocol::RecordedGap* ends_by_ = nullptr;
  uint64_t anchor_;  // of the gap that is open, or of the call that is under way
  bool called_ = true;
  std::array<protocol::HostGap, 64> gaps_;
  uint32_t unsent_ = 0;
  int64_t owed_ns_ = 0;
  TimePoint due_;
  int64_t parts_ns_ = 0;    // of the gap that is open
  uint64_t preempted_ = 0;  // as told last
};

}  // namespace vrank::host

#endif  // VRANK_VIRTUAL_HOST_CHANNEL_PROGRAM_TIME_H_
