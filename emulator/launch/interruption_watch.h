// SIGINT, SIGTERM and SIGHUP while real ranks run.
//
// The session's loop takes them by a descriptor and ends the ranks in good order. It
// may not get to that: an operation of a million ranks takes long, and writing to a
// pipe or terminal that nothing reads takes for ever. Where the loop has not answered
// for some seconds after a signal, the handler of a timer ends the ranks by way of the
// keeper, and then the process, by the signal (base/interruption.h).
//
// Thread rule: made and destroyed by the thread that runs the loop; while several live,
// the newest has the signals. The handlers call only what handlers may call
// (signal-safety(7)).

#ifndef VRANK_EMULATOR_LAUNCH_INTERRUPTION_WATCH_H_
#define VRANK_EMULATOR_LAUNCH_INTERRUPTION_WATCH_H_

#include <signal.h>
#include <sys/types.h>

#include <array>
#include <vector>

namespace vrank::emulator {

class InterruptionWatch {
 public:
  // `socket`: ours to the keeper; when it is shut down, the keeper ends all ranks, and
  // then itself. A signal that is ignored (nohup) stays so.
  InterruptionWatch(pid_t keeper, int socket);
  ~InterruptionWatch();
  InterruptionWatch(const InterruptionWatch&) = delete;
  InterruptionWatch& operator=(const InterruptionWatch&) = delete;

  // Readable when Take has something; negative where the system refused descriptors.
  int fd() const { return ends_[0]; }
  // The signals since the last call.
  std::vector<int> Take();
  // The loop is alive. REQUIRES: called at least once a second, but while it Rests.
  void Beat();
  // What the loop does now ends by itself, and must not be cut off.
  void set_resting(bool resting);

 private:
  static constexpr std::array<int, 3> kSignals{SIGINT, SIGTERM, SIGHUP};

  // From now on the handlers work for this one.
  void Publish();

  static InterruptionWatch* newest_;
  InterruptionWatch* const older_;
  const pid_t keeper_;
  std::array<int, 2> ends_{-1, -1};  // of a pipe from the handler
  int socket_ = -1;                  // a copy: the loop may close its own
  std::array<struct sigaction, kSignals.size()> before_{};
  sigset_t mask_before_{};
  struct sigaction timer_before_ {};
  timer_t timer_{};
  bool has_timer_ = false;
};

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_LAUNCH_INTERRUPTION_WATCH_H_
