// How much CPU time a thread uses between two of its calls, in about 30 ns a call.
//
// The thread's CPU clock costs half a microsecond a reading. The time stamp counter is
// cheap, but counts while the thread is off its core. So each stretch between two
// switches from the program to us or back is timed by the counter, and a mark tells
// whether the thread has left its core in it: then, and once in kSettleAfter stretches,
// the CPU clock is read, and the stretch has used what no other one has since the last
// such reading.
//
// Thread rule: one thread.

#ifndef VRANK_VIRTUAL_HOST_SYSTEM_CPU_METER_H_
#define VRANK_VIRTUAL_HOST_SYSTEM_CPU_METER_H_

#include <algorithm>
#include <cstdint>
#include <utility>

namespace vrank::host {

// `Clock`: int64_t Now(), in ns, cheap, of real time; void Mark() and bool Kept():
// whether the thread has been on its core since the mark; int64_t Cpu(), in ns.
template <typename Clock>
class CpuMeter {
 public:
  // Two to a call.
  static constexpr int kSettleAfter = 128;

  // The thread is in a call of ours.
  explicit CpuMeter(Clock clock) : clock_(std::move(clock)) {
    settled_ = clock_.Cpu();
    since_ = clock_.Now();
    clock_.Mark();
  }

  // The call returns to the program.
  void Resume() { Stretch(); }
  // The program calls.
  void Pause() { used_ += Stretch(); }
  // What the program has used since the last time. REQUIRES: paused.
  int64_t Take() { return std::exchange(used_, 0); }

  Clock& clock() { return clock_; }

 private:
  // Ends the stretch, begins another one, and returns what the first has used.
  int64_t Stretch() {
    const int64_t now = clock_.Now();
    int64_t used = now - std::exchange(since_, now);
    if (++stretches_ >= kSettleAfter || !clock_.Kept()) [[unlikely]]
      used = Settle(used);
    else
      unsettled_ += used;
    clock_.Mark();
    return used;
  }

  int64_t Settle(int64_t counted) {
    const bool kept = clock_.Kept();
    const int64_t cpu = clock_.Cpu();
    const int64_t used = cpu - std::exchange(settled_, cpu) - unsettled_;
    unsettled_ = 0;
    stretches_ = 0;
    since_ = clock_.Now();  // reading the clock is nobody's
    // Others may have been off the core unnoticed, never on it.
    return std::max<int64_t>(kept ? std::min(used, counted) : used, 0);
  }

  Clock clock_;
  int64_t since_ = 0;      // the stretch began
  int64_t settled_ = 0;    // the CPU clock when it was read last
  int64_t unsettled_ = 0;  // used by the stretches since then
  int stretches_ = 0;      // how many those are
  int64_t used_ = 0;       // by the program
};

}  // namespace vrank::host

#endif  // VRANK_VIRTUAL_HOST_SYSTEM_CPU_METER_H_
