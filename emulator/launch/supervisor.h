// Starts the real ranks and owns them: whatever dies, and however, nothing is left.
//
//   vrank ── keeper ── rank ── its children ...
//
// The keeper is a small process forked from vrank before anything else happens. Ranks
// are its children, and orphans below them become its children too
// (PR_SET_CHILD_SUBREAPER), daemons included.
//   vrank dies (kill -9 too)   the keeper sees the end of their socket and kills all
//   that
//                              is below it.
//   the keeper dies            ranks get SIGKILL (PR_SET_PDEATHSIG); what else is below
//                              becomes vrank's, which is a subreaper as well and kills
//                              it.
//   both die at once           ranks as before; processes that carry libvrank_host.so
//   are
//                              killed by the end of their connection to vrank.
//   a rank dies                is reported; the caller decides.
//
// Thread rule: one thread, which is the only one of the process when Create is called.
// The process has no other children.

#ifndef VRANK_EMULATOR_LAUNCH_SUPERVISOR_H_
#define VRANK_EMULATOR_LAUNCH_SUPERVISOR_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "base/guest/units.h"
#include "emulator/launch/interruption_watch.h"
#include "emulator/launch/line_relay.h"
#include "emulator/launch/rank_environment.h"

namespace vrank::emulator {

// How a process ended.
struct ExitStatus {
  int code = 0;    // where it exited
  int signal = 0;  // where a signal ended it; else 0

  bool ok() const { return code == 0 && signal == 0; }
  // "exit code 3", "killed by signal 11 (Segmentation fault)".
  std::string Describe() const;
};

struct SupervisorCallbacks {
  // One line of a rank's output, without its line break.
  std::function<void(uint32_t rank, bool is_stderr, std::string_view text)> on_line;
  std::function<void(uint32_t rank, const ExitStatus& status)> on_exit;
  // SIGINT, SIGTERM or SIGHUP reached vrank. The ranks do not get them by themselves
  // (they are in process groups of their own): call Shutdown.
  std::function<void(int signal)> on_interrupt;
};

class Supervisor {
 public:
  static absl::StatusOr<std::unique_ptr<Supervisor>> Create(
      SupervisorCallbacks callbacks);
  // Shuts down at once where Shutdown was not called.
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  // Checks the command (command_check.h) and starts it once per rank. Returns when all
  // have been told to start; a rank whose start fails is reported by HandleEvents.
  // REQUIRES: called once.
  absl::Status StartRanks(const LaunchOptions& options,
                          const std::vector<RankPlace>& ranks);

  // Readable when HandleEvents has something to do.
  int poll_fd() const { return epoll_; }
  // Relays output, reports exits and interruptions through the callbacks; never blocks.
  // An error ends the run: a rank could not be started, the keeper was killed, a log
  // could not be written (then Shutdown removes all logs: parts of them would mislead).
  absl::Status HandleEvents();

  // The session's loop is alive; see InterruptionWatch::Beat.
  void Beat() { interruptions_->Beat(); }

  // The first log that could not be written, if any; final after Shutdown.
  const absl::Status& log_error() const { return log_error_; }

  // Every rank has ended and its output has been delivered.
  bool AllExited() const;
  // Processes of the ranks that have not ended, for descriptions.
  std::vector<std::pair<uint32_t, pid_t>> Running() const;
  // The kernel refused to switch off address randomisation for some rank: host
  // addresses differ between two runs.
  bool addresses_randomized() const { return addresses_randomized_; }

  // Ends everything: SIGTERM to the ranks, after `grace` (or a second interruption)
  // SIGKILL to all that is below the keeper. Output and exits that come meanwhile are
  // still reported. Afterwards no process of the ranks exists.
  void Shutdown(Duration grace);

 private:
  struct Rank {
    RankPlace place;
    pid_t pid = 0;  // 0: not started yet
    bool ended = false;
    std::unique_ptr<LineRelay> out, err;
  };

  Supervisor(SupervisorCallbacks callbacks, pid_t keeper, int socket, int epoll,
             std::unique_ptr<InterruptionWatch> interruptions);
  absl::Status StartRank(const LaunchOptions& options, const std::string& path,
                         const RankPlace& place);
  absl::Status SendStart(uint32_t index, const std::string& spec, int out, int err);
  absl::Status OnKeeperReport();
  absl::Status OnKeeperLost();
  void OnSignal();
  void ReadOutput(int fd);
  // Whether there may be more; notes an error in log_error_.
  bool Read(LineRelay* relay);
  void MarkEnded(Rank* rank, int wait_status);
  bool AllEnded() const;
  void WaitForEnd(Duration limit, bool until_keeper_gone);

  SupervisorCallbacks callbacks_;
  pid_t keeper_;  // 0 once it has been waited for
  int socket_;
  const int epoll_;
  const std::unique_ptr<InterruptionWatch> interruptions_;
  std::vector<Rank> ranks_;
  std::vector<std::string> logs_;  // paths
  absl::Status log_error_;
  bool started_ = false;
  bool addresses_randomized_ = false;
  bool shut_down_ = false;
  int interruption_count_ = 0;
};

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_LAUNCH_SUPERVISOR_H_
