#include "emulator/session/session.h"

#include <signal.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "base/decision_log.h"
#include "base/status_macros.h"
#include "emulator/session/rank_exit.h"
#include "schedule/policy.h"

namespace vrank::emulator {

using schedule::Milliseconds;
using std::chrono::milliseconds;

namespace {

constexpr char kNoWork[] = "(no kernel, no copy, no communicator)";

std::string NoResult(size_t ranks) {
  return fmt::format(
      "{} ended without giving {} any work {}, so there is no result. Where the "
      "program only asks about the GPU, that is all; if it should have worked, does it "
      "start another program that is linked statically or gets a cleared environment?",
      ranks == 1 ? "the real rank has" : "all real ranks have",
      ranks == 1 ? "its GPU" : "their GPUs", kNoWork);
}

}  // namespace

Session::Session(SessionOptions options, const graph::NetworkModel* network,
                 graph::Membership* membership, WorkPricer* pricer)
    : options_(std::move(options)),
      membership_(membership),
      world_(std::make_unique<World>(options_.world, network, membership, pricer,
                                     RealSet())),
      hang_(options_.hang_after),
      spin_(options_.hang_after) {}

Session::~Session() {
  if (epoll_ >= 0)
    close(epoll_);
}

std::set<int32_t> Session::RealSet() const {
  return {options_.real_ranks.begin(), options_.real_ranks.end()};
}

absl::Status Session::Run() {
  absl::Status status = Start();
  if (status.ok())
    status = Loop();
  LetRanksReact(&status);
  if (!nobody_worked_)
    NoteUnusedGpus();
  status.Update(End(status));
  status.Update(interrupted_);  // while it ended
  return status;
}

void Session::NoteSettled(const World::Moved& moved) {
  if (moved.more)
    return;
  for (const auto& link : links_)
    link->NoteSettled();
}

absl::Status Session::Loop() {
  while (true) {
    RETURN_IF_ERROR(HandleEvents(milliseconds(0)));
    ASSIGN_OR_RETURN(World::Moved moved, world_->Advance());
    NoteSettled(moved);
    if (moved.answers == 0 && !moved.more)
      SpinForRecords();
    // From here on a question rings the doorbell; what was written before is read now.
    for (const auto& link : links_)
      link->PrepareToSleep(GuestLink::WakeFor::kQuestions);
    ASSIGN_OR_RETURN(const World::Moved again, world_->Advance());
    NoteSettled(again);
    bool closed = CloseEndedRanks();
    ASSIGN_OR_RETURN(const bool lost, LoseClosedRanks());
    closed |= lost;
    bool over = false;
    bool decided = false;
    if (moved.any() || again.any() || closed) {
      NoteMoved(closed, (moved + again).only_time());
      if (closed || !(moved + again).only_queries())
        only_queries_since_ns_.reset();
      stuck_since_.reset();
    } else if (world_->AllBlocked()) {
      RETURN_IF_ERROR(WhenNothingMoves(&over, &decided));
    } else if (decided = DecideWhatIsPast() || EndNextWait() || DecideNextQuery();
               !decided) {
      ASSIGN_OR_RETURN(decided, WhenQuiet());
    }
    RETURN_IF_ERROR(causality_.Check(*world_));
    if (over)
      return absl::OkStatus();
    // What has just been read may be what all others were waited for with: a question
    // that can be decided at once.
    const bool looks_again = (moved.any() || again.any()) && world_->AllBlocked();
    const bool waits =
        again.answers == 0 && !again.more && !decided && !closed && !looks_again;
    if (!waits)
      sleeper_nap_ = schedule::Chrono(schedule::kFirstSleeperLook);
    else if (const auto next = FindNextLimit();
             (next.has_value() && next->at_once) ||
             QuietWatch::Clock::now() < short_looks_until_)
      NapForSleeper();
    else
      RETURN_IF_ERROR(
          HandleEvents(moved.answers != 0  ? Milliseconds(schedule::kAnsweredLook)
                       : quiet_.watching() ? Milliseconds(schedule::kQuietLook)
                                           : Milliseconds(schedule::kIdleLook)));
    for (const auto& link : links_)
      link->WokeUp();
    RETURN_IF_ERROR(CheckHang());
    RETURN_IF_ERROR(CheckStoreWaits());
    ReportProgress(false);
    if (options_.stop_when && options_.stop_when(*world_))
      return absl::OkStatus();
  }
}

void Session::NapForSleeper() {
  std::this_thread::sleep_for(sleeper_nap_);
  sleeper_nap_ = std::min(sleeper_nap_ + sleeper_nap_,
                          schedule::Chrono(schedule::kLongestSleeperLook));
}

// A watchdog that looks again and again does not keep a rank alive, nor does a thread
// that sleeps again and again.
void Session::NoteMoved(bool closed, bool only_time) {
  const uint64_t ops = world_->engine().ops();
  if (const bool played = std::exchange(ops_, ops) != ops;
      closed || (played && !only_time)) {
    hang_.Moved();
    catching_up_since_.reset();
    store_waits_since_.reset();
  }
  quiet_.Moved();
}

// Waits at most that long for something to happen, and sees to it.
absl::Status Session::HandleEvents(milliseconds wait) {
  RETURN_IF_ERROR(PollEvents(wait));
  return CheckExits();
}

absl::Status Session::PollEvents(milliseconds wait) {
  supervisor_->Beat();
  epoll_event events[8];
  const int count = epoll_wait(epoll_, events, 8, static_cast<int>(wait.count()));
  for (int i = 0; i < count; ++i) {
    if (events[i].data.fd == server_->doorbell()) {
      server_->ClearDoorbell();
    } else if (events[i].data.fd == supervisor_->poll_fd()) {
      RETURN_IF_ERROR(supervisor_->HandleEvents());
    } else if (events[i].data.fd == store_->poll_fd()) {
      RETURN_IF_ERROR(HandleStore());
    } else {
      for (const GuestEvent& event : server_->HandleEvents()) {
        if (event.kind == GuestEvent::Kind::kRefused)
          return RefusedError(event);
        LOG_DECISION(launch, 1, "rank {}: process {} {}", event.rank, event.pid,
                     event.kind == GuestEvent::Kind::kConnected ? "connects" : "goes");
        if (event.kind == GuestEvent::Kind::kConnected)
          came_.insert(static_cast<int32_t>(event.rank));
      }
      PassOn(server_->strangers().TakeNotes());
      RETURN_IF_ERROR(server_->status());
    }
  }
  RETURN_IF_ERROR(store_status_);
  return interrupted_;
}

absl::Status Session::HandleStore() {
  ASSIGN_OR_RETURN(const StoreServer::Heard heard, store_->HandleEvents());
  PassOn(store_->TakeNotes());
  if (heard != StoreServer::Heard::kNothing)
    quiet_.Moved();
  if (heard == StoreServer::Heard::kMore) {
    hang_.Moved();
    store_waits_since_.reset();
  }
  return absl::OkStatus();
}

void Session::PassOn(const std::vector<std::string>& notes) {
  for (const std::string& note : notes)
    if (options_.on_note)
      options_.on_note(note);
}

// Looks at the rings for a moment, where there is a core to spare for it.
void Session::SpinForRecords() {
  size_t running = 0;
  for (const auto& rank : world_->real())
    running += !rank->closed() && !rank->link().Blocked() ? 1 : 0;
  if (running == 0 || running >= std::thread::hardware_concurrency())
    return;
  const auto until = HangDetector::Clock::now() + schedule::Chrono(schedule::kSpin);
  while (HangDetector::Clock::now() < until)
    for (const auto& link : links_)
      if (link->BytesWaiting() != 0)
        return;
}

bool Session::CloseEndedRanks() {
  bool closed = false;
  for (const auto& rank : world_->real()) {
    const GuestLink& link = rank->link();
    if (rank->closed() || link.BytesWaiting() != 0)
      continue;
    // A process that issues work may outlive the one that vrank started; others, such
    // as a daemon that the program left behind, do not count.
    const bool left =
        exits_.count(rank->rank()) != 0 && (link.owner_pid() == 0 || !link.connected());
    if (link.ended() || left) {
      if (link.owner_pid() == 0)
        unused_.push_back(rank->rank());
      if (Worked())
        NoteUnusedGpus();
      world_->CloseRank(rank.get());
      closed = true;
    }
  }
  return closed;
}

absl::Status Session::WhenNothingMoves(bool* over, bool* decided) {
  const auto& real = world_->real();
  const bool all_closed = std::all_of(real.begin(), real.end(),
                                      [](const auto& rank) { return rank->closed(); });
  const auto now = HangDetector::Clock::now();
  if (!stuck_since_.has_value())
    stuck_since_ = now;
  if (all_closed && world_->Finished()) {
    // A daemon that a program left behind may hold the program's output open.
    *over = supervisor_->AllExited() ||
            (exits_.size() == real.size() &&
             now - *stuck_since_ > Milliseconds(schedule::kOutput));
    // What a lost rank would have received was sent in vain.
    if (*over && lost_.empty())
      RETURN_IF_ERROR(world_->engine().CheckTransfersMatched());
    // Some ranks may be idle on purpose; where all are, there is no result.
    if (*over && !real.empty() && !Worked()) {
      nobody_worked_ = true;
      return absl::FailedPreconditionError(NoResult(real.size()));
    }
    return absl::OkStatus();
  }
  *decided = DecideMemoryOfBlocked() || world_->LetOtherThreadsPass() ||
             DecideQueryOfBlocked();
  if (*decided) {
    stuck_since_.reset();
    return absl::OkStatus();
  }
  if (LetSleepersCatchUp() || SomeThreadRuns())
    return absl::OkStatus();
  // A rank that has just gone is about to tell how; that belongs into the message.
  const bool exits_known = std::all_of(real.begin(), real.end(), [this](const auto& r) {
    return !r->closed() || exits_.count(r->rank()) != 0;
  });
  if (!exits_known && now - *stuck_since_ < Milliseconds(schedule::kExitStatus))
    return absl::OkStatus();
  return StuckError();
}

absl::Status Session::CheckExits() {
  for (const auto& [rank, status] : exits_) {
    if (!status.ok() && Survives(rank))
      continue;
    if (!status.ok()) {
      const std::string refused = RefusedCalls();
      absl::Status error = absl::AbortedError(fmt::format(
          "{} {}{}{}; {}{}{}", WhoEnded(options_.launch, rank), DescribeExit(status),
          refused.empty() ? "" : ", and vrank had refused: " + refused,
          LostBefore(rank), AfterExit(options_.launch, rank, status), MadeUpFor(rank),
          Meanwhile()));
      // A launcher starts no further rank. What ends by a signal is a fault of its own.
      if (options_.launch.launcher.empty() && refused.empty() && status.signal == 0)
        world_->AttachUnknownSenders(rank, &error);
      return error;
    }
    if (came_.count(rank) == 0)
      return NeverCameError(rank);
  }
  return absl::OkStatus();
}

absl::Status Session::End(const absl::Status& status) {
  absl::Status logs;
  if (supervisor_ != nullptr) {
    ReportProgress(true);
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

void Session::ReportProgress(bool now) {
  if (!options_.on_progress)
    return;
  const auto time = HangDetector::Clock::now();
  if (!now && time - last_progress_ < Milliseconds(schedule::kProgress))
    return;
  last_progress_ = time;
  Progress progress;
  progress.real_ranks = world_->real().size();
  progress.iterations = world_->results().CompletedIterations();
  progress.ops = world_->engine().ops();
  for (const auto& rank : world_->real()) {
    progress.connected += rank->link().owner_pid() != 0 ? 1 : 0;
    progress.ended += rank->closed() ? 1 : 0;
    progress.virtual_ns =
        std::max(progress.virtual_ns, world_->engine().result(rank->rank()).end.ns);
  }
  options_.on_progress(progress);
}

}  // namespace vrank::emulator
