// One run of a job: starts its real ranks, serves them until the last one has ended,
// and leaves nothing behind.
//
// The loop reads the records of guests, lets the engine run and delivers answers. Where
// nothing moves, its parts decide, each the owner of one piece of state:
//
//   blocked_ranks.h    every real rank is blocked in the emulator, or a decision is
//   past
//                      for those that are not
//   wait_scheduler.h   a rank waits for a time that is the next one of all ranks
//   quiet_scheduler.h  no thread of the session can run
//
// A job in which nothing can be decided is deadlocked: an error that lists the waits.
//
// Real time affects a run in these limits: a rank that is blocked outside of vrank
// ends the run after SessionOptions::hang_after, one that spins after ten times that in
// CPU time (hang_watch.h). A rank that delays others for long is left behind, which is
// counted (computing_ranks.h). After a failure the other ranks have `failure_grace`
// (failure_reaction.h). A rank that a debugger holds is waited for without a limit.
//
// Thread rule: one thread.

#ifndef VRANK_EMULATOR_SESSION_SESSION_H_
#define VRANK_EMULATOR_SESSION_SESSION_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "emulator/connect/guest_link.h"
#include "emulator/connect/guest_server.h"
#include "emulator/launch/supervisor.h"
#include "emulator/session/blocked_ranks.h"
#include "emulator/session/causality_watch.h"
#include "emulator/session/event_poll.h"
#include "emulator/session/gpu_use.h"
#include "emulator/session/hang_watch.h"
#include "emulator/session/lost_ranks.h"
#include "emulator/session/progress_reporter.h"
#include "emulator/session/quiet_scheduler.h"
#include "emulator/session/rank_processes.h"
#include "emulator/session/rest_watch.h"
#include "emulator/session/store_watch.h"
#include "emulator/session/wait_scheduler.h"
#include "emulator/store/store_server.h"
#include "emulator/watch/thread_watch.h"
#include "emulator/world/cast.h"
#include "emulator/world/world.h"
#include "schedule/policy.h"

namespace vrank::emulator {

struct SessionOptions {
  LaunchOptions launch;  // Session sets socket_address
  int32_t world_size = 1;
  int32_t ranks_per_node = 8;  // LOCAL_WORLD_SIZE
  int32_t gpus_per_node = 8;
  std::vector<int32_t> real_ranks;
  std::vector<VirtualRank> virtual_ranks;
  protocol::Settings settings{};                     // rank and sizes are filled in
  std::vector<protocol::RecordedGap> recorded_gaps;  // GuestLink::PlayGaps
  WorldOptions world;
  std::chrono::milliseconds hang_after = schedule::Milliseconds(schedule::kHangAfter);
  // Once a rank has failed: how long the others may go on, see failure_reaction.h.
  // Zero: they are ended at once.
  std::chrono::milliseconds failure_grace =
      schedule::Milliseconds(schedule::kFailureGrace);
  // A rank that fails while others run is lost, and the job goes on without it
  // (lost_ranks.h). Not with a launcher, nor beside recorded ranks.
  bool survive_failures = false;
  // Polled once per loop; true terminates the ranks and ends the run.
  std::function<bool(const World&)> stop_when;

  std::function<void(int32_t rank, bool is_stderr, std::string_view line)> on_line;
  std::function<void(const Progress&)> on_progress;  // a few times a second
  std::function<void(const std::string&)> on_note;   // what the user should know now
};

class Session {
 public:
  // The models and the membership outlive the session.
  Session(SessionOptions options, const graph::NetworkModel* network,
          graph::Membership* membership, WorkPricer* pricer);
  ~Session();

  // Runs the job to its end, or to SessionOptions::stop_when. An error is the job's: it
  // says which rank, and why. REQUIRES: called once; the process has one thread.
  absl::Status Run();

  // Gloo bytes that were made up for virtual ranks. REQUIRES: the session has ended
  struct GlooBytes {
    uint64_t mirrored = 0;
    std::map<std::string, uint64_t> zero;  // by operation
    uint64_t copied_objects = 0;           // among the mirrored
  };
  const GlooBytes& gloo_bytes() const { return gloo_bytes_; }
  // Rejected connections from outside the job, by server and kind.
  // REQUIRES: the session has ended
  const std::map<std::string, uint64_t>& foreign_connections() const {
    return foreign_connections_;
  }
  const World& world() const { return *world_; }
  World& world() { return *world_; }
  // How the processes of real ranks ended, as far as they did.
  const std::map<int32_t, ExitStatus>& exits() const { return processes_.exits(); }
  // Those that the job went on without, in the order in which they were lost.
  const std::vector<int32_t>& lost() const { return lost_.ranks(); }
  // The addresses of some rank are randomised: they differ from run to run.
  bool addresses_randomized() const { return addresses_randomized_; }

 private:
  absl::Status Start();
  absl::Status StartServers();
  SupervisorCallbacks MakeSupervisorCallbacks();
  // Returns where each real rank runs.
  absl::StatusOr<std::vector<RankPlace>> AddRealRanks();
  void AddVirtualRanks();
  void MakeParts();
  absl::Status StartProcesses(std::vector<RankPlace> places);

  absl::Status Loop();
  // Waits at most that long for events, and handles them. Fails where a rank has failed
  // without which the job cannot go on.
  absl::Status HandleEvents(std::chrono::milliseconds wait);
  // The same without CheckExits().
  absl::Status PollEvents(std::chrono::milliseconds wait);
  absl::Status HandleGuests();
  absl::Status HandleStore();
  void PassOn(const std::vector<std::string>& notes);
  std::optional<int32_t> RankOfPort(uint16_t port) const;
  absl::Status CheckExits();
  // The rank has failed: true where the job goes on without it.
  bool Survives(int32_t rank);
  // True where a program was closed: the engine has not seen that yet.
  bool CloseEndedRanks();

  void NoteSettled(const World::Moved& moved);
  void NoteMoved(const World::Moved& moved, bool closed);
  // Nothing moves, and all real ranks are blocked. `over`: the job has ended.
  // `decided`: ranks or the engine can continue. An error: the job is stuck.
  absl::Status DecideAllBlocked(bool* over, bool* decided);
  // The same where some real rank is not blocked.
  absl::Status DecideSomeRun(bool* decided);
  absl::Status CheckOver(bool* over);
  absl::Status Stuck() const;
  absl::Status CheckHang();
  // Until the next poll of the ranks. `answered`: a rank was answered in this round.
  absl::Status Pause(bool answered);

  // Lets the other ranks react to a failure of the job.
  void LetRanksReact(absl::Status* status);
  // An error where the ranks' last output could not be kept.
  absl::Status End(const absl::Status& status);

  SessionOptions options_;
  // Destroyed in reverse: the supervisor first, since its end silences the guests.
  std::vector<std::unique_ptr<GuestLink>> links_;
  graph::Membership* const membership_;
  std::unique_ptr<World> world_;
  RankProcesses processes_;
  std::unique_ptr<GuestServer> server_;
  std::unique_ptr<StoreServer> store_;
  GlooBytes gloo_bytes_;
  std::unique_ptr<Supervisor> supervisor_;
  std::unique_ptr<EventPoll> events_;

  LostRanks lost_;
  GpuUse gpu_use_;
  ProgressReporter progress_;
  ThreadWatch threads_;
  CausalityWatch causality_;
  // From MakeParts() on.
  std::unique_ptr<RestWatch> rest_;
  std::unique_ptr<BlockedRanks> blocked_ranks_;
  std::unique_ptr<WaitScheduler> wait_scheduler_;
  std::unique_ptr<QuietScheduler> quiet_scheduler_;
  std::unique_ptr<HangWatch> hang_watch_;
  std::unique_ptr<StoreWatch> store_watch_;

  absl::Status store_status_;  // of what was read at the store while a rank joined
  absl::Status interrupted_;
  bool ending_ = false;      // output no longer matters
  std::set<int32_t> stuck_;  // ranks that wait for ever, and not in the emulator
  bool addresses_randomized_ = false;
  std::map<std::string, uint64_t> foreign_connections_;
  uint64_t ops_ = 0;  // of the engine, when something moved last
  std::chrono::nanoseconds sleeper_nap_{0};
  // Since when nothing has moved while all ranks are blocked.
  std::optional<std::chrono::steady_clock::time_point> stuck_since_;
};

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_SESSION_SESSION_H_
