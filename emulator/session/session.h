// One run of a job: starts its real ranks, serves them until the last one has ended,
// and leaves nothing behind.
//
// The loop drains what guests wrote, lets the engine run and delivers answers. When
// every real rank is blocked in the emulator, there are four cases: a thread waits for
// work that another thread of its process issued later; a query ("has it ended?") can
// be answered; the job is over; or it is deadlocked, an error that lists who waits for
// whom.
//
// If a rank waits in something that vrank cannot observe, or with a timeout, the
// earliest timeout expires, or the earliest query is answered "not yet", only after a
// quiet period of real time. None is needed if every thread of the job sleeps in a wait
// that only another one can end. An answer that a later arrival contradicts is an error
// (a causality violation).
//
// Real time counts besides in these limits: a rank that is blocked outside of vrank
// ends the run after SessionOptions::hang_after, one that spins after ten times that in
// CPU time; one that holds others up for long is waited for no more, which is counted
// (session_turns.cc); failed jobs have `failure_grace`. A rank that a debugger holds is
// waited for, as long as that takes.
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
#include "emulator/session/causality_watch.h"
#include "emulator/store/store_server.h"
#include "emulator/watch/hang_detector.h"
#include "emulator/watch/quiet_watch.h"
#include "emulator/watch/spin_detector.h"
#include "emulator/watch/thread_watch.h"
#include "emulator/world/cast.h"
#include "emulator/world/world.h"
#include "schedule/decide.h"
#include "schedule/policy.h"

namespace vrank::emulator {

struct Progress {
  size_t real_ranks = 0;
  size_t connected = 0;    // real ranks that have started to issue work
  size_t ended = 0;        // real ranks whose program is over
  size_t iterations = 0;   // completed by all real ranks
  uint64_t ops = 0;        // executed, over all ranks
  int64_t virtual_ns = 0;  // the furthest host clock of a real rank
};

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
  // Once a rank has failed: how long the others may go on, see session_failure.cc.
  // Zero: they are ended at once.
  std::chrono::milliseconds failure_grace =
      schedule::Milliseconds(schedule::kFailureGrace);
  // A rank that fails while others run is lost, and the job goes on without it
  // (session_loss.cc). Not with a launcher, nor beside recorded ranks.
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
  const std::map<int32_t, ExitStatus>& exits() const { return exits_; }
  // Those that the job went on without, in the order in which they were lost.
  const std::vector<int32_t>& lost() const { return lost_; }
  // The addresses of some rank are randomised: they differ from run to run.
  bool addresses_randomized() const { return addresses_randomized_; }

 private:
  absl::Status Start();
  protocol::Settings SettingsOf(int32_t rank) const;
  absl::Status Loop();
  absl::Status HandleEvents(std::chrono::milliseconds wait);
  // The same without CheckExits().
  absl::Status PollEvents(std::chrono::milliseconds wait);
  absl::Status HandleStore();
  void PassOn(const std::vector<std::string>& notes);
  void NoteMoved(bool closed, bool only_time);
  void SpinForRecords();
  // The pause between two looks at the ranks that a sleeping thread waits for.
  void NapForSleeper();
  // True where a program was closed: the engine has not looked at that yet.
  bool CloseEndedRanks();
  // Some rank has given its GPU work.
  bool Worked() const;
  // Of the ranks that ended without having done so.
  void NoteUnusedGpus();
  // All real ranks wait and nothing moves. An error where that is for good.
  absl::Status WhenNothingMoves(bool* over, bool* decided);
  absl::Status CheckExits();
  absl::Status CheckHang();
  // session_quiet.cc: decisions when no thread can run. True if it decided something.
  absl::StatusOr<bool> WhenQuiet();
  void NoteSettled(const World::Moved& moved);
  bool AllSleep();
  // session_turns.cc: whose wait ends next. True if one has reached its limit.
  bool EndNextWait();
  bool DecideNextQuery();
  // All real ranks, and what to grant of each.
  struct Seen {
    schedule::Snapshot snapshot;
    std::vector<std::optional<GuestLink::Limit>> limits;  // by Snapshot::ranks
  };
  Seen LookAtRanks() const;
  struct NextLimit {
    RealRank* rank;
    GuestLink::Limit limit;
    bool at_once;  // time alone ends that wait, or one elsewhere that comes later
  };
  std::optional<NextLimit> FindNextLimit() const;
  // It is a sleep of another process, all ranks rest, and nothing that has no time (a
  // thread that waits for one of its process, a key of the store) comes first.
  bool EndsAtRest(const NextLimit& next);
  // A decision about `rank` at virtual time `ns` that is pending. kWait (something else
  // could end it) and kSleep: once all ranks with earlier clocks rest. kTurn (a
  // thread's turn passes) and kQuery (answered "not yet"): once all ranks rest.
  struct Decision {
    enum class Kind { kWait, kSleep, kTurn, kQuery };
    const RealRank* rank;
    int64_t ns;
    Kind kind;
    bool AllRest() const { return kind == Kind::kTurn || kind == Kind::kQuery; }
  };
  bool AnyoneSleeps() const;
  std::vector<const RealRank*> ThoseBefore(const Decision& next) const;
  std::optional<std::vector<uint64_t>> Rest(const std::vector<const RealRank*>& ranks,
                                            ThreadsIn where);
  bool AreAtRest(const Decision& next, std::vector<const RealRank*>* ranks);
  bool IsLeftBehind(const RealRank& rank, bool own);
  bool HasRunOn(const RealRank& rank, const Decision& next);
  std::string SinceLastCall(int32_t rank) const;
  std::string DescribeSpin(const SpinDetector::Spin& spin) const;
  void NoteSpin(const SpinDetector::Spin& spin);
  absl::Status HangError(const HangDetector::Finding& found) const;
  // A real rank, and its clock.
  const RealRank* RankOf(int32_t number) const;
  int64_t ClockOf(int32_t rank) const;
  // Process ids: those connected, and the one that was launched.
  std::vector<pid_t> ProcessesOf(const RealRank& rank) const;
  // session_launcher.cc. Real ranks that the launcher has not started (yet).
  std::vector<int32_t> NotStarted() const;
  absl::Status NotStartedError(const std::vector<int32_t>& ranks) const;
  absl::Status NeverCameError(int32_t rank) const;
  absl::Status RefusedError(const GuestEvent& event) const;
  absl::Status StuckError() const;
  // session_store.cc. An error where every rank waits, some of them at the store.
  absl::Status CheckStoreWaits();
  bool AllWaitHereOrAtStore();
  std::string StoreLines() const;
  std::optional<int32_t> RankOfPort(uint16_t port) const;
  std::string WaitingLines() const;
  std::string ReasonFor(const absl::Status& status) const;
  // Suffix of a message: "; meanwhile" with WaitingLines() and StoreLines(), or "".
  std::string Meanwhile() const;
  // The same with RefusedCalls(): a thread may have exited after one while others wait.
  std::string MeanwhileOrRefused() const;
  // Names of calls that were refused, with what to set instead; or "".
  std::string RefusedCalls() const;
  // Suffix "; it had read N bytes that vrank made up", or "".
  std::string MadeUpFor(int32_t rank) const;
  // session_order.cc: decisions while some rank still runs. True if it decided.
  bool DecideWhatIsPast();
  // Where every rank waits.
  bool DecideQueryOfBlocked();
  bool DecideMemoryOfBlocked();
  bool AnyoneFollows() const;
  // Where every rank waits or has ended. False: the job is stuck.
  bool LetSleepersCatchUp();
  bool SomeThreadRuns();
  int64_t LatestClock() const;
  enum class Grant { kNone, kWaiting, kGranted };
  Grant GrantToBlocked(int64_t before_ns);
  // session_failure.cc. Tells the other ranks, lets them react, and adds what they did.
  void LetRanksReact(absl::Status* status);
  bool MayReact(const RealRank& rank) const;
  std::string HowOthersEnded(const std::set<int32_t>& others) const;
  // session_loss.cc. True where the job goes on without a rank that has failed.
  bool Survives(int32_t rank);
  // Those whose last records have been read. True where there was one.
  absl::StatusOr<bool> LoseClosedRanks();
  // "; before that rank 1 was killed ...", and who follows `rank`; or nothing.
  std::string LostBefore(int32_t rank) const;
  bool IsLost(int32_t rank) const;
  // An error where the ranks' last words could not be kept.
  absl::Status End(const absl::Status& status);
  void ReportProgress(bool now);

  std::set<int32_t> RealSet() const;

  SessionOptions options_;
  // Destroyed in reverse: the supervisor first, since its end silences the guests.
  std::vector<std::unique_ptr<GuestLink>> links_;
  graph::Membership* const membership_;
  std::unique_ptr<World> world_;
  std::unique_ptr<GuestServer> server_;
  std::unique_ptr<StoreServer> store_;
  GlooBytes gloo_bytes_;
  std::unique_ptr<Supervisor> supervisor_;
  int epoll_ = -1;

  std::map<int32_t, ExitStatus> exits_;
  std::vector<int32_t> lost_;    // in this order
  size_t taken_out_ = 0;         // the first ones of lost_: the world knows
  std::set<int32_t> came_;       // ranks of which a process has connected
  std::vector<int32_t> unused_;  // ranks that ended without work; not told yet
  bool nobody_worked_ = false;
  absl::Status store_status_;  // of what was read at the store while a rank joined
  absl::Status interrupted_;
  std::optional<int32_t> hung_;  // the rank that ended the job by doing nothing
  bool ending_ = false;          // output no longer matters
  bool addresses_randomized_ = false;
  HangDetector hang_;
  SpinDetector spin_;
  ThreadWatch threads_;
  QuietWatch quiet_{&threads_};
  // A rank's state when its clock last moved.
  struct Turn {
    int64_t clock_ns = -1;
    uint64_t written = 0;
    int64_t began_ms = 0;  // CPU time if `started`, else real time
    bool started = false;  // it has a process
    bool left_behind = false;
    int own = 0;  // how often its own sleep went on without it; never reset
  };
  std::map<int32_t, Turn> turns_;  // by rank
  // CPU time of each rank when it was first awaited for the decision (rank, ns).
  struct Awaited {
    int32_t rank = -1;
    int64_t ns = 0;
    std::map<int32_t, int64_t> cpu_ms;
    std::set<int32_t> left_behind;
  };
  Awaited awaited_;
  QuietWatch next_quiet_{
      &threads_};  // of the ranks that must rest before the next wait ends
  std::chrono::nanoseconds sleeper_nap_{0};
  // A sleep of another process has ended shortly before: it may sleep again soon.
  QuietWatch::Clock::time_point short_looks_until_;
  CausalityWatch causality_;
  uint64_t ops_ = 0;  // of the engine, when something moved last
  std::optional<HangDetector::Clock::time_point> catching_up_since_;
  std::map<int32_t, QuietWatch> blocked_;  // by rank, of those that have a limit
  HangDetector::Clock::time_point last_progress_, last_hang_look_;
  std::map<int32_t, std::string> last_calls_;  // of real ranks, as the last look saw
  // Since when a closed rank's exit status is waited for before the job counts as
  // stuck.
  std::optional<HangDetector::Clock::time_point> stuck_since_;
  // Since when some rank waits at the store while nothing but clocks moves.
  std::optional<HangDetector::Clock::time_point> store_waits_since_;
  HangDetector::Clock::time_point last_store_look_;
  // The latest host clock when only queries were left to decide.
  std::optional<int64_t> only_queries_since_ns_;
  std::map<std::string, uint64_t> foreign_connections_;
};

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_SESSION_SESSION_H_
