// What the session decides when no thread of it can run, and whom it names.

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "emulator/session/schedule_log.h"
#include "emulator/session/session.h"
#include "emulator/watch/thread_watch.h"
#include "schedule/policy.h"

namespace vrank::emulator {

namespace {

// While other ranks may still show what is the matter.
std::string UnusedGpu(int32_t rank) {
  return fmt::format(
      "rank {} has ended without giving its GPU any work (no kernel, no copy, no "
      "communicator), as a program that only asks about the GPU does",
      rank);
}

}  // namespace

bool Session::Worked() const {
  const auto& real = world_->real();
  return std::any_of(real.begin(), real.end(), [this](const auto& rank) {
    return world_->engine().result(rank->rank()).ops != 0;
  });
}

// Where all ranks are like that, the error says it, and once.
void Session::NoteUnusedGpus() {
  for (const int32_t rank : unused_)
    if (options_.on_note)
      options_.on_note(UnusedGpu(rank));
  unused_.clear();
}

namespace {

using schedule::Milliseconds;
using std::chrono::milliseconds;

// The latest thing that a rank did, as its user would call it.
std::string NameOf(const graph::Op& op, const graph::Details& details) {
  using graph::OpKind;
  switch (op.kind) {
    case OpKind::kCollective:
      return graph::Name(details.collectives[op.b].operation);
    case OpKind::kTransfers:
      return "a send or receive";
    case OpKind::kCreateCommunicator:
      return "the creation of a communicator";
    case OpKind::kReleaseCommunicator:
      return "the end of a communicator";
    case OpKind::kHostWaitToken:
    case OpKind::kHostWaitLane:
      return "a wait for the GPU";
    case OpKind::kQueryToken:
    case OpKind::kQueryLane:
    case OpKind::kPollToken:
    case OpKind::kPollLane:
      return "a question whether the GPU has finished";
    case OpKind::kRecordToken:
    case OpKind::kWaitToken:
      return "an event";
    case OpKind::kMemory:
      return op.value < 0 ? "memory that was given back" : "memory that was taken";
    case OpKind::kWork:
    case OpKind::kHostFunc:
      return "work for the GPU";
    default:
      return "";
  }
}

// Empty: it is too long ago.
std::string LatestCall(const graph::Program& program) {
  constexpr uint64_t kLookBack = 1 << 12;
  for (uint64_t i = program.size();
       i > program.Released() && program.size() - i < kLookBack; --i)
    if (std::string name = NameOf(program.op(i - 1), program.details()); !name.empty())
      return name;
  return "";
}

}  // namespace

// A rank that only lets time pass adds ops: its call is the one that was seen before.
std::string Session::SinceLastCall(int32_t rank) const {
  const auto call = last_calls_.find(rank);
  if (call != last_calls_.end())
    return fmt::format("since its last call ({})", call->second);
  return RankOf(rank)->program().size() == 0 ? "without a call to its GPU"
                                             : "since its last call";
}

// No thread of the job can run, and nobody outside of it will wake one: what is to be
// decided need not wait for a quiet while.
bool Session::AllSleep() {
  std::vector<const RealRank*> all;
  for (const auto& rank : world_->real())
    all.push_back(rank.get());
  return Rest(all, ThreadsIn::kWaitsForThreads).has_value();
}

bool Session::EndsAtRest(const NextLimit& next) {
  if (!next.limit.ends_at_rest || next.rank->link().HasGrant() || store_->HasMissing())
    return false;
  std::vector<const RealRank*> all;
  for (const auto& rank : world_->real()) {
    // A thread may wait for what another one of its process has issued behind it.
    if (!rank->closed() && rank->has_questions() && !rank->link().Blocked())
      return false;
    all.push_back(rank.get());
  }
  if (!Rest(all, ThreadsIn::kAnyWait).has_value())
    return false;
  // No earlier limit has been published meanwhile.
  const std::optional<NextLimit> now = FindNextLimit();
  return now.has_value() && now->rank == next.rank &&
         now->limit.other == next.limit.other && now->limit.ticket == next.limit.ticket;
}

// Some rank waits where vrank cannot see it, or with a time limit. What comes first in
// virtual time is decided first.
absl::StatusOr<bool> Session::WhenQuiet() {
  std::vector<const GuestLink*> links;
  for (const auto& rank : world_->real())
    if (!rank->closed())
      links.push_back(&rank->link());
  const milliseconds quiet = quiet_.Look(QuietWatch::Clock::now(), links);
  const bool all_sleep = AllSleep();
  const std::optional<NextLimit> next = FindNextLimit();
  const bool ends_at_rest = !all_sleep && next.has_value() && EndsAtRest(*next);
  if (quiet.count() == 0 && !all_sleep && !ends_at_rest)
    return false;
  // A sleeper goes on by itself (session_turns.cc), and may bring what others wait for.
  const bool nobody_goes_on = !AnyoneSleeps();
  // No real rank is going to set what another one waits for. Where all are real, nobody
  // would have: the wait ends as the program limits it.
  if (nobody_goes_on && store_->HasMissing() && !options_.virtual_ranks.empty()) {
    RETURN_IF_ERROR(store_->SetForAbsent());
    PassOn(store_->TakeNotes());
    quiet_.Moved();
    return true;
  }
  const auto query = world_->OldestQuery();
  const bool asks_about_memory = query.has_value() && query->about_memory;
  // A thread waits for what another one of its process has issued behind it.
  if (nobody_goes_on && (all_sleep || quiet >= Milliseconds(schedule::kUnseen)) &&
      !asks_about_memory && world_->LetOtherThreadsPass()) {
    quiet_.Moved();
    return true;
  }
  if (query.has_value() && (!next.has_value() || query->asked_ns <= next->limit.ns)) {
    if (!all_sleep && quiet < Milliseconds(schedule::kUnseen))
      return false;
    causality_.Told(query->rank, query->asked_ns);
    LogQuery(*query, all_sleep ? ScheduleRule::kRest : ScheduleRule::kQuiet);
    world_->DecideOldestQuery();
    quiet_.Moved();
    return true;
  }
  if (!next.has_value()) {
    const auto& real = world_->real();
    const bool waits_here = std::all_of(real.begin(), real.end(), [](const auto& rank) {
      return rank->closed() || rank->has_questions();
    });
    if (quiet < Milliseconds(schedule::kDeadlock) || !all_sleep || !waits_here)
      return false;
    // A thread of a rank that waits here may abort what others wait for. Until it moves
    // it is quiet here, so that the next look comes soon.
    if (!LetSleepersCatchUp())
      return StuckError();
    return false;
  }
  const GuestLink& link = next->rank->link();
  if (link.HasGrant())
    return false;
  if (!all_sleep && !ends_at_rest &&
      quiet < QuietWatch::PatienceFor(next->limit.ns - link.host_now_ns()))
    return false;
  LogLimit(next->rank->rank(), next->limit,
           all_sleep || ends_at_rest ? ScheduleRule::kRest : ScheduleRule::kQuiet);
  if (next->limit.ends_at_rest)
    short_looks_until_ = QuietWatch::Clock::now() + Milliseconds(schedule::kShortLooks);
  next->rank->link().GrantLimit(next->limit);
  quiet_.Moved();
  return true;
}

std::vector<pid_t> Session::ProcessesOf(const RealRank& rank) const {
  std::vector<pid_t> pids = rank.link().pids();
  const bool is_due =
      !options_.launch.launcher.empty() && came_.count(rank.rank()) == 0;
  for (const auto& [running, pid] : supervisor_->Running())
    if ((is_due || static_cast<int32_t>(running) == rank.rank()) &&
        std::find(pids.begin(), pids.end(), pid) == pids.end())
      pids.push_back(pid);
  return pids;
}

const RealRank* Session::RankOf(int32_t number) const {
  const auto& real = world_->real();
  return std::find_if(real.begin(), real.end(),
                      [&](const auto& rank) { return rank->rank() == number; })
      ->get();
}

int64_t Session::ClockOf(int32_t rank) const {
  return RankOf(rank)->link().host_now_ns();
}

std::string Session::DescribeSpin(const SpinDetector::Spin& spin) const {
  return fmt::format(
      "rank {} has used {:.1f} s of CPU time {}, and has touched no new memory and no "
      "file meanwhile. If it polls memory that its GPU would write, it waits for ever, "
      "because without a GPU nobody writes there: let it ask instead (cudaEventQuery, "
      "cudaStreamSynchronize). ",
      spin.rank, std::chrono::duration<double>(spin.cpu).count(),
      SinceLastCall(spin.rank));
}

void Session::NoteSpin(const SpinDetector::Spin& spin) {
  if (!options_.on_note)
    return;
  const double limit = std::chrono::duration<double>(options_.hang_after).count() *
                       schedule::kSpinLimits;
  options_.on_note(
      fmt::format("{}If it computes, all is well: the run waits for it, for up to "
                  "{:.0f} s of this. "
                  "`gdb -p {}` shows where it is",
                  DescribeSpin(spin), limit, spin.pid));
}

absl::Status Session::HangError(const HangDetector::Finding& found) const {
  constexpr char kWayOut[] =
      "With --hang-after 0, `gdb -p` (of Python: `py-spy dump --pid`) and its process "
      "id show where it is";
  if (const std::vector<int32_t> missing = NotStarted(); !missing.empty())
    return NotStartedError(missing);
  if (found.kind == HangDetector::Finding::Kind::kSpins)
    return absl::DeadlineExceededError(fmt::format(
        "{}{}; --hang-after SECONDS changes the limit ({} times that), 0 switches it "
        "off{}",
        DescribeSpin(spin_.hanging().at(found.rank)), kWayOut, schedule::kSpinLimits,
        MeanwhileOrRefused()));
  if (found.kind == HangDetector::Finding::Kind::kSleeps)
    return absl::DeadlineExceededError(fmt::format(
        "rank {} only sleeps, again and again, and looks at something that vrank does "
        "not see (a flag, a file): for {} s it has asked for nothing {}; by its clock "
        "it is {:.1f} s now. {}; --hang-after SECONDS changes the limit, 0 switches it "
        "off{}",
        found.rank, std::chrono::duration<double>(options_.hang_after).count(),
        SinceLastCall(found.rank), static_cast<double>(ClockOf(found.rank)) * 1e-9,
        kWayOut, MeanwhileOrRefused()));
  return absl::DeadlineExceededError(fmt::format(
      "rank {} has used no CPU for {} s and asks nothing of the emulator: it waits for "
      "something that vrank does not see (a socket, a file, a lock). {}; --hang-after "
      "SECONDS changes the limit, 0 switches it off{}",
      found.rank, std::chrono::duration<double>(options_.hang_after).count(), kWayOut,
      MeanwhileOrRefused()));
}

absl::Status Session::CheckHang() {
  const auto now = HangDetector::Clock::now();
  if (now - last_hang_look_ < Milliseconds(schedule::kHangLook))
    return absl::OkStatus();
  last_hang_look_ = now;
  std::vector<SpinDetector::Candidate> runs;  // for all that vrank knows
  for (const auto& rank : world_->real())
    if (exits_.count(rank->rank()) == 0 &&
        (rank->closed() || !rank->link().Blocked())) {
      if (std::string call = rank->closed() ? "" : LatestCall(rank->program());
          !call.empty())
        last_calls_[rank->rank()] = std::move(call);
      runs.push_back({rank->rank(), ProcessesOf(*rank), rank->link().bytes_written()});
    }
  const auto spins = spin_.Look(runs);
  std::vector<HangDetector::Candidate> candidates;
  for (SpinDetector::Candidate& run : runs)
    if (!run.pids.empty())
      candidates.push_back({run.rank, std::move(run.pids),
                            spin_.hanging().count(run.rank) != 0, ClockOf(run.rank)});
  const auto found = hang_.Look(now, candidates);
  if (hang_.any_stopped())
    spin_.Restart();  // others may wait for the stopped one this way
  else if (spins.has_value())
    NoteSpin(*spins);
  if (!found.has_value())
    return absl::OkStatus();
  if (found->kind != HangDetector::Finding::Kind::kStopped) {
    hung_ = found->rank;
    return HangError(*found);
  }
  if (options_.on_note)
    options_.on_note(fmt::format(
        "rank {} has been stopped, by a debugger or a signal; the run waits for it",
        found->rank));
  return absl::OkStatus();
}

}  // namespace vrank::emulator
