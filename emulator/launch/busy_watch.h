// Ends a process whose loop is too busy to take an interruption.
//
// While ranks run, SIGINT, SIGTERM and SIGHUP wait in a signalfd until the session's
// loop reads them, so that ranks end in good order. A loop that does not come back (a
// step of the engine over a very large job, a file on a dead file server) would be deaf
// to them. A thread of its own sees a signal that stays unread and ends the process by
// it; the keeper then ends the ranks, since its socket closes.
//
// Thread rule: made and destroyed by the loop's thread; starts one of its own.

#ifndef VRANK_EMULATOR_LAUNCH_BUSY_WATCH_H_
#define VRANK_EMULATOR_LAUNCH_BUSY_WATCH_H_

#include <chrono>
#include <thread>

namespace vrank::emulator {

class BusyWatch {
 public:
  // How long a signal may stay unread.
  static constexpr std::chrono::milliseconds kPatience{2000};

  // `signals`: the signalfd, which outlives it; blocked in all threads.
  explicit BusyWatch(int signals);
  ~BusyWatch();
  BusyWatch(const BusyWatch&) = delete;
  BusyWatch& operator=(const BusyWatch&) = delete;

 private:
  void Watch() const;

  const int signals_;
  const int stop_;  // an eventfd; -1: nothing is watched
  std::thread thread_;
};

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_LAUNCH_BUSY_WATCH_H_
