#include "emulator/session/session.h"

#include <string.h>

#include <algorithm>
#include <array>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "base/decision_log.h"
#include "base/interruption.h"
#include "base/status_macros.h"
#include "emulator/session/failure_reaction.h"
#include "emulator/session/failure_texts.h"
#include "emulator/session/launcher_errors.h"
#include "emulator/session/rank_exit.h"
#include "emulator/session/rank_waits.h"
#include "emulator/session/thread_reports.h"
#include "emulator/watch/socket_owner.h"
#include "schedule/policy.h"

namespace vrank::emulator {

using schedule::Milliseconds;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

namespace {

// Callbacks that may be absent are replaced by ones that do nothing.
SessionOptions Complete(SessionOptions options) {
  if (!options.on_note)
    options.on_note = [](const std::string&) {};
  return options;
}

protocol::Settings SettingsOf(int32_t rank, const SessionOptions& options) {
  protocol::Settings settings = options.settings;
  settings.rank = static_cast<uint32_t>(rank);
  settings.world_size = static_cast<uint32_t>(options.world_size);
  settings.played_ranks = static_cast<uint32_t>(options.virtual_ranks.size());
  settings.local_world_size =
      static_cast<uint32_t>(std::min(options.ranks_per_node, options.world_size));
  settings.local_rank = static_cast<uint32_t>(rank % options.ranks_per_node);
  // As on a real node, every process sees all of its GPUs.
  settings.devices = static_cast<uint32_t>(options.gpus_per_node);
  return settings;
}

bool HasFollowers(const std::vector<VirtualRank>& ranks) {
  return std::any_of(ranks.begin(), ranks.end(), [](const VirtualRank& rank) {
    return rank.part != VirtualRank::Part::kAbsent;
  });
}

// Polls the rings for a moment, where a core is free for it.
void SpinForRecords(const World& world) {
  const auto& real = world.real();
  const auto running =
      static_cast<size_t>(std::count_if(real.begin(), real.end(), [](const auto& rank) {
        return !rank->closed() && !rank->link().Blocked();
      }));
  if (running == 0 || running >= std::thread::hardware_concurrency())
    return;
  const auto until = Clock::now() + schedule::Chrono(schedule::kSpin);
  while (Clock::now() < until)
    if (AnyUnread(world))
      return;
}

}  // namespace

Session::Session(SessionOptions options, const graph::NetworkModel* network,
                 graph::Membership* membership, WorkPricer* pricer)
    : options_(Complete(std::move(options))),
      membership_(membership),
      world_(std::make_unique<World>(
          options_.world, network, membership, pricer,
          std::set<int32_t>(options_.real_ranks.begin(), options_.real_ranks.end()))),
      processes_(options_.real_ranks, !options_.launch.launcher.empty()),
      lost_(options_.survive_failures, options_.virtual_ranks, &processes_),
      gpu_use_(world_.get(), options_.on_note),
      progress_(world_.get(), options_.on_progress) {}

Session::~Session() = default;

absl::Status Session::Run() {
  absl::Status status = Start();
  if (status.ok())
    status = Loop();
  LetRanksReact(&status);
  gpu_use_.NoteUnused();
  status.Update(End(status));
  status.Update(interrupted_);  // while it ended
  return status;
}

// --- Start

absl::Status Session::Start() {
  RETURN_IF_ERROR(StartServers());
  ASSIGN_OR_RETURN(std::vector<RankPlace> places, AddRealRanks());
  AddVirtualRanks();
  events_ = std::make_unique<EventPoll>();
  for (const int fd : {supervisor_->poll_fd(), server_->poll_fd(), server_->doorbell(),
                       store_->poll_fd()})
    RETURN_IF_ERROR(events_->Add(fd));
  MakeParts();
  return StartProcesses(std::move(places));
}

SupervisorCallbacks Session::MakeSupervisorCallbacks() {
  SupervisorCallbacks callbacks;
  callbacks.on_line = [this](uint32_t rank, bool is_stderr, std::string_view line) {
    // Ranks that are being ended report errors that result from it.
    const auto number = static_cast<int32_t>(rank);
    if (options_.on_line && (!ending_ || processes_.has_exited(number)))
      options_.on_line(number, is_stderr, line);
  };
  callbacks.on_exit = [this](uint32_t rank, const ExitStatus& status) {
    LOG_DECISION(launch, 1, "rank {} {}", rank, DescribeExit(status));
    if (!ending_)
      processes_.Exited(static_cast<int32_t>(rank), status);
  };
  callbacks.on_interrupt = [this](int signal) {
    NoteInterruption(signal);
    interrupted_ =
        absl::CancelledError(fmt::format("interrupted by SIG{}", sigabbrev_np(signal)));
  };
  return callbacks;
}

absl::Status Session::StartServers() {
  ASSIGN_OR_RETURN(supervisor_, Supervisor::Create(MakeSupervisorCallbacks()));
  ASSIGN_OR_RETURN(server_, GuestServer::Create());
  // A launcher may want the usual port for a store of its own.
  const uint16_t wanted_port =
      options_.launch.launcher.empty() ? options_.launch.master_port : 0;
  ASSIGN_OR_RETURN(store_, StoreServer::Create(wanted_port, [this](uint16_t port) {
                     return RankOfPort(port);
                   }));
  store_->TellOfPairs([this](const std::string& id, const PairOfKey& pair) {
    std::array<uint8_t, protocol::kUniqueIdBytes> bytes{};
    std::copy_n(id.begin(), std::min(id.size(), bytes.size()), bytes.begin());
    membership_->NotePair(bytes, {pair.low, pair.high, pair.of_world});
  });
  // What a rank has sent to the store before it joins is read before.
  world_->BeforeJoins([this] { store_status_.Update(HandleStore()); });
  return absl::OkStatus();
}

absl::StatusOr<std::vector<RankPlace>> Session::AddRealRanks() {
  std::vector<RankPlace> places;
  for (const int32_t rank : options_.real_ranks) {
    const protocol::Settings settings = SettingsOf(rank, options_);
    ASSIGN_OR_RETURN(std::unique_ptr<GuestLink> link, GuestLink::Create(settings));
    link->PlayGaps(options_.recorded_gaps);
    world_->AddReal(rank, link.get());
    server_->AddLink(link.get());
    links_.push_back(std::move(link));
    // This machine's GPUs are dealt out: a rank finds its own by LOCAL_RANK.
    const uint32_t gpus = options_.launch.real_gpus;
    const auto local_rank =
        gpus == 0 ? settings.local_rank : static_cast<uint32_t>(places.size()) % gpus;
    places.push_back(RankPlace{settings.rank, settings.world_size, local_rank,
                               settings.local_world_size});
  }
  return places;
}

void Session::AddVirtualRanks() {
  for (const VirtualRank& rank : options_.virtual_ranks) {
    switch (rank.part) {
      case VirtualRank::Part::kFollower:
        world_->AddFollower(rank.rank, rank.leader);
        break;
      case VirtualRank::Part::kRecorded:
        world_->AddRecorded(rank.rank, rank.program, rank.leader);
        break;
      case VirtualRank::Part::kAbsent:
        world_->AddAbsent(rank.rank);
        break;
    }
  }
}

void Session::MakeParts() {
  World* const world = world_.get();
  const bool all_real = options_.virtual_ranks.empty();
  const bool has_followers = HasFollowers(options_.virtual_ranks);
  rest_ = std::make_unique<RestWatch>(world, events_.get(), &threads_);
  blocked_ranks_ = std::make_unique<BlockedRanks>(world, rest_.get(), &threads_,
                                                  &causality_, has_followers);
  wait_scheduler_ = std::make_unique<WaitScheduler>(world, rest_.get(), &threads_,
                                                    &causality_, has_followers);
  quiet_scheduler_ = std::make_unique<QuietScheduler>(
      world, store_.get(), rest_.get(), &threads_, &causality_, !all_real,
      /*ends_stuck_ranks=*/options_.hang_after.count() != 0);
  hang_watch_ = std::make_unique<HangWatch>(options_.hang_after, world, &processes_,
                                            supervisor_.get(), options_.on_note);
  store_watch_ =
      std::make_unique<StoreWatch>(world, store_.get(), rest_.get(), all_real);
}

absl::Status Session::StartProcesses(std::vector<RankPlace> places) {
  LaunchOptions& launch = options_.launch;
  const bool by_launcher = !launch.launcher.empty();
  if (by_launcher)
    places.resize(1);
  launch.socket_address = server_->address();
  launch.variables.emplace_back("VRANK_TOKEN", server_->token());
  if (by_launcher)
    launch.variables.emplace_back("VRANK_LAUNCHER_GPUS",
                                  std::to_string(options_.gpus_per_node));
  launch.master_port = store_->port();
  RETURN_IF_ERROR(supervisor_->StartRanks(launch, places));
  addresses_randomized_ = supervisor_->addresses_randomized();
  return absl::OkStatus();
}

// --- The loop

absl::Status Session::Loop() {
  while (true) {
    RETURN_IF_ERROR(HandleEvents(milliseconds(0)));
    ASSIGN_OR_RETURN(const World::Moved moved, world_->Advance());
    NoteSettled(moved);
    if (moved.answers == 0 && !moved.more)
      SpinForRecords(*world_);
    // From here on a question rings the doorbell; what was written before is read now.
    for (const auto& link : links_)
      link->PrepareToSleep(GuestLink::WakeFor::kQuestions);
    ASSIGN_OR_RETURN(const World::Moved again, world_->Advance());
    NoteSettled(again);
    bool closed = CloseEndedRanks();
    ASSIGN_OR_RETURN(const bool lost, lost_.TakeOut(world_.get()));
    closed |= lost;
    bool over = false;
    bool decided = false;
    if (moved.any() || again.any() || closed)
      NoteMoved(moved + again, closed);
    else if (world_->AllBlocked())
      RETURN_IF_ERROR(DecideAllBlocked(&over, &decided));
    else
      RETURN_IF_ERROR(DecideSomeRun(&decided));
    RETURN_IF_ERROR(causality_.Check(*world_));
    if (over)
      return absl::OkStatus();
    // All others may have waited for what has just been read: a question that can be
    // decided at once.
    const bool looks_again = (moved.any() || again.any()) && world_->AllBlocked();
    if (again.answers != 0 || again.more || decided || closed || looks_again)
      sleeper_nap_ = schedule::Chrono(schedule::kFirstLook);
    else
      RETURN_IF_ERROR(Pause(moved.answers != 0));
    for (const auto& link : links_)
      link->WokeUp();
    RETURN_IF_ERROR(CheckHang());
    if (store_watch_->IsStuck())
      return Stuck();
    progress_.ReportIfDue();
    if (options_.stop_when && options_.stop_when(*world_))
      return absl::OkStatus();
  }
}

void Session::NoteSettled(const World::Moved& moved) {
  if (moved.more)
    return;
  for (const auto& link : links_)
    link->NoteSettled();
}

// A watchdog that queries again and again does not keep a rank alive, nor does a thread
// that sleeps again and again.
void Session::NoteMoved(const World::Moved& moved, bool closed) {
  const uint64_t ops = world_->engine().ops();
  if (const bool executed = std::exchange(ops_, ops) != ops;
      closed || (executed && !moved.only_time())) {
    hang_watch_->Moved();
    blocked_ranks_->Progressed();
    store_watch_->Moved();
  }
  quiet_scheduler_->Moved();
  if (closed || !moved.only_queries())
    blocked_ranks_->MovedBeyondQueries();
  stuck_since_.reset();
}

absl::Status Session::Pause(bool answered) {
  const auto next = FindNextLimit(*world_);
  if ((next.has_value() && next->at_once) || quiet_scheduler_->expects_sleep()) {
    std::this_thread::sleep_for(sleeper_nap_);
    sleeper_nap_ = std::min(sleeper_nap_ + sleeper_nap_,
                            schedule::Chrono(schedule::kLongestSleeperLook));
    return absl::OkStatus();
  }
  return HandleEvents(answered ? Milliseconds(schedule::kAnsweredLook)
                      : quiet_scheduler_->watching()
                          ? Milliseconds(schedule::kQuietLook)
                          : Milliseconds(schedule::kIdleLook));
}

bool Session::CloseEndedRanks() {
  bool closed = false;
  for (const auto& rank : world_->real()) {
    const GuestLink& link = rank->link();
    if (rank->closed() || link.BytesWaiting() != 0)
      continue;
    // A process that issues work may outlive the one that vrank started; others, such
    // as a daemon that the program left behind, do not count.
    const bool left = processes_.has_exited(rank->rank()) &&
                      (link.owner_pid() == 0 || !link.connected());
    if (link.ended() || left) {
      gpu_use_.Closing(*rank);
      world_->CloseRank(rank.get());
      closed = true;
    }
  }
  return closed;
}

// --- Decisions where nothing moves

absl::Status Session::DecideSomeRun(bool* decided) {
  *decided = blocked_ranks_->DecidePast();
  if (*decided)
    return absl::OkStatus();
  *decided = wait_scheduler_->EndNextWait() || wait_scheduler_->AnswerNextQuery();
  if (*decided) {
    quiet_scheduler_->Moved();
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const QuietScheduler::Outcome outcome, quiet_scheduler_->Decide());
  PassOn(store_->TakeNotes());
  *decided = outcome == QuietScheduler::Outcome::kDecided;
  // A thread of a blocked rank may abort what others wait for. Until it moves the
  // session is quiet, so that it is looked at again soon.
  if (outcome == QuietScheduler::Outcome::kDeadlock &&
      !blocked_ranks_->LetSleepersCatchUp()) {
    stuck_ = RanksOutside(*world_);
    return Stuck();
  }
  return absl::OkStatus();
}

absl::Status Session::DecideAllBlocked(bool* over, bool* decided) {
  const auto& real = world_->real();
  const auto now = Clock::now();
  if (!stuck_since_.has_value())
    stuck_since_ = now;
  const bool all_closed = std::all_of(real.begin(), real.end(),
                                      [](const auto& rank) { return rank->closed(); });
  if (all_closed && world_->Finished())
    return CheckOver(over);
  *decided = blocked_ranks_->DecideAllBlocked();
  if (*decided) {
    stuck_since_.reset();
    return absl::OkStatus();
  }
  if (blocked_ranks_->LetSleepersCatchUp())
    return absl::OkStatus();
  // A thread that has issued nothing so far does not count among those that a rank
  // waits for, and may be about to bring what all wait for.
  if (quiet_scheduler_->QuietFor() < Milliseconds(schedule::kIdle) &&
      Clock::now() - *stuck_since_ < Milliseconds(schedule::kCatchUp))
    return absl::OkStatus();
  // The exit status of a rank that has just ended belongs into the message.
  const bool exits_known = std::all_of(real.begin(), real.end(), [this](const auto& r) {
    return !r->closed() || processes_.has_exited(r->rank());
  });
  if (!exits_known && now - *stuck_since_ < Milliseconds(schedule::kExitStatus))
    return absl::OkStatus();
  return Stuck();
}

// All programs have ended, and the engine has nothing left.
absl::Status Session::CheckOver(bool* over) {
  // A daemon that a program left behind may hold the program's output open.
  *over = supervisor_->AllExited() ||
          (processes_.exits().size() == world_->real().size() &&
           Clock::now() - *stuck_since_ > Milliseconds(schedule::kOutput));
  if (!*over)
    return absl::OkStatus();
  // What a lost rank would have received was sent in vain.
  if (lost_.ranks().empty())
    RETURN_IF_ERROR(world_->engine().CheckTransfersMatched());
  return gpu_use_.CheckResult();
}

absl::Status Session::Stuck() const {
  return StuckError(*world_, *store_, options_.launch, processes_.exits(),
                    lost_.ranks(), ThreadReports(*world_));
}

absl::Status Session::CheckHang() {
  const std::optional<std::string> hang = hang_watch_->Check();
  if (!hang.has_value())
    return absl::OkStatus();
  if (hang_watch_->hung().has_value())
    stuck_.insert(*hang_watch_->hung());
  const std::string what =
      processes_.NotStarted().empty()
          ? *hang
          : DescribeNotStarted(options_.launch, processes_, options_.hang_after);
  return absl::DeadlineExceededError(what + MeanwhileOrRefused(*world_, *store_) +
                                     ThreadReports(*world_));
}

// --- Events

absl::Status Session::HandleEvents(milliseconds wait) {
  RETURN_IF_ERROR(PollEvents(wait));
  return CheckExits();
}

absl::Status Session::PollEvents(milliseconds wait) {
  supervisor_->Beat();
  for (const int fd : events_->Wait(wait)) {
    if (fd == server_->doorbell())
      server_->ClearDoorbell();
    else if (fd == supervisor_->poll_fd())
      RETURN_IF_ERROR(supervisor_->HandleEvents());
    else if (fd == store_->poll_fd())
      RETURN_IF_ERROR(HandleStore());
    else
      RETURN_IF_ERROR(HandleGuests());
  }
  RETURN_IF_ERROR(store_status_);
  return interrupted_;
}

absl::Status Session::HandleGuests() {
  for (const GuestEvent& event : server_->HandleEvents()) {
    if (event.kind == GuestEvent::Kind::kRefused)
      return RefusedError(options_.launch, processes_, event);
    LOG_DECISION(launch, 1, "rank {}: process {} {}", event.rank, event.pid,
                 event.kind == GuestEvent::Kind::kConnected ? "connects" : "goes");
    if (event.kind == GuestEvent::Kind::kConnected)
      processes_.Connected(static_cast<int32_t>(event.rank));
  }
  PassOn(server_->strangers().TakeNotes());
  return server_->status();
}

absl::Status Session::HandleStore() {
  ASSIGN_OR_RETURN(const StoreServer::Heard heard, store_->HandleEvents());
  PassOn(store_->TakeNotes());
  if (heard != StoreServer::Heard::kNothing)
    quiet_scheduler_->Moved();
  if (heard == StoreServer::Heard::kMore) {
    hang_watch_->Moved();
    store_watch_->Moved();
  }
  return absl::OkStatus();
}

void Session::PassOn(const std::vector<std::string>& notes) {
  for (const std::string& note : notes)
    options_.on_note(note);
}

std::optional<int32_t> Session::RankOfPort(uint16_t port) const {
  const std::optional<std::string> socket = SocketAtPort(port);
  if (!socket.has_value())
    return std::nullopt;
  for (const auto& rank : world_->real())
    for (const pid_t pid : processes_.PidsOf(*rank, *supervisor_))
      if (HoldsSocket(pid, *socket))
        return rank->rank();
  return std::nullopt;
}

bool Session::Survives(int32_t rank) {
  if (lost_.Contains(rank))
    return true;
  if (!lost_.Add(rank))
    return false;
  options_.on_note(
      fmt::format("rank {} {}; the others go on without it (--survive-failures)", rank,
                  DescribeExit(processes_.exits().at(rank))));
  return true;
}

absl::Status Session::CheckExits() {
  for (const auto& [rank, status] : processes_.exits()) {
    if (!status.ok() && Survives(rank))
      continue;
    if (!status.ok()) {
      const std::string refused = RefusedCalls(*world_);
      absl::Status error = absl::AbortedError(fmt::format(
          "{} {}{}{}; {}{}{}", WhoEnded(options_.launch, rank), DescribeExit(status),
          refused.empty() ? "" : ", and vrank had refused: " + refused,
          lost_.DescribeBefore(rank), AfterExit(options_.launch, rank, status),
          MadeUpFor(rank, *world_, store_->gloo(), options_.world_size),
          Meanwhile(*world_, *store_)));
      // A launcher starts no further rank. A signal is a fault of the rank's own.
      if (options_.launch.launcher.empty() && refused.empty() && status.signal == 0) {
        AttachCopiedRanks(rank, *world_, store_->gloo(), options_.world_size, &error);
        world_->AttachUnknownSenders(rank, &error);
      }
      return error;
    }
    if (!processes_.has_connected(rank))
      return NeverConnectedError(options_.launch, processes_, rank);
  }
  return absl::OkStatus();
}

// --- End

void Session::LetRanksReact(absl::Status* status) {
  if (status->ok() || supervisor_ == nullptr)
    return;
  FailureReaction reaction(world_.get(), &threads_, &processes_, stuck_,
                           options_.failure_grace);
  if (!reaction.IsDue(*status))
    return;
  options_.on_note(reaction.Announcement(*status));
  reaction.Run([this](milliseconds wait) { return PollEvents(wait); }, status);
}

absl::Status Session::End(const absl::Status& status) {
  absl::Status logs;
  if (supervisor_ != nullptr) {
    progress_.Report();
    ending_ = true;
    if (!status.ok())
      for (const auto& link : links_)
        link->Abort("the session has ended");
    supervisor_->Shutdown(status.ok() ? Duration() : schedule::kShutdown);
    logs = supervisor_->log_error();
  }
  supervisor_.reset();
  if (server_ != nullptr)
    foreign_connections_ = server_->strangers().counts();
  server_.reset();
  if (store_ != nullptr) {
    gloo_bytes_ = {store_->gloo().mirrored_bytes(), store_->gloo().zero_bytes(),
                   store_->gloo().copied_objects()};
    foreign_connections_.merge(store_->foreign_connections());
  }
  store_.reset();
  return logs;
}

}  // namespace vrank::emulator
