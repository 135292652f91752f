// What the session decides when no thread of it can run, and whom it names.

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "emulator/session/session.h"

namespace vrank::emulator {
namespace {

using std::chrono::milliseconds;

// A rank may wait for another one in a pipe or a socket while a third polls. The
// polling one is told "not yet" after this long.
constexpr milliseconds kUnseenPatience{100};
constexpr milliseconds kHangLookEvery{250};

}  // namespace

// Some rank waits where vrank cannot see it, or with a time limit. What comes first in
// virtual time is decided first.
absl::StatusOr<bool> Session::WhenQuiet() {
  std::vector<const GuestLink*> links;
  for (const auto& rank : world_->real())
    if (!rank->closed())
      links.push_back(&rank->link());
  const milliseconds quiet = quiet_.Look(QuietWatch::Clock::now(), links);
  if (quiet.count() == 0)
    return false;
  // No real rank is going to set what another one waits for.
  if (store_->HasMissing()) {
    RETURN_IF_ERROR(store_->SetForAbsent());
    quiet_.Moved();
    return true;
  }
  // A thread waits for what another one of its process has issued behind it.
  if (quiet >= kUnseenPatience && world_->LetOtherThreadsPass()) {
    quiet_.Moved();
    return true;
  }
  RealRank* waits = nullptr;
  GuestLink::Limit limit{0, std::numeric_limits<int64_t>::max()};
  for (const auto& rank : world_->real()) {
    // While it waits for the emulator its clock is the emulator's to move.
    if (rank->closed() || rank->link().Blocked())
      continue;
    const auto earliest = rank->link().EarliestLimit();
    if (earliest.has_value() && earliest->ns < limit.ns) {
      waits = rank.get();
      limit = *earliest;
    }
  }
  const auto query = world_->OldestQuery();
  if (query.has_value() && query->asked_ns <= limit.ns) {
    if (quiet < kUnseenPatience)
      return false;
    causality_.Told(query->rank, query->asked_ns);
    world_->DecideOldestQuery();
    quiet_.Moved();
    return true;
  }
  if (waits == nullptr ||
      quiet < QuietWatch::PatienceFor(limit.ns - waits->link().host_now_ns()))
    return false;
  waits->link().GrantLimit(limit);
  quiet_.Moved();
  return true;
}

void Session::NoteSpin() {
  std::vector<SpinDetector::Candidate> candidates;
  for (const auto& rank : world_->real()) {
    const GuestLink& link = rank->link();
    if (!rank->closed() && link.owner_pid() != 0 && !link.ended() && !link.Blocked())
      candidates.push_back(
          {rank->rank(), static_cast<pid_t>(link.owner_pid()), link.bytes_written()});
  }
  const auto spinning = spin_.Look(candidates);
  if (!spinning.has_value() || !options_.on_note)
    return;
  options_.on_note(fmt::format(
      "rank {} has been busy for {} s without a call, without touching new memory or a "
      "file. If it polls memory that its GPU would write, it waits for ever, because "
      "without a GPU nobody writes there: let it ask instead (cudaEventQuery, "
      "cudaStreamSynchronize). If it computes, all is well; the run waits for it",
      *spinning, static_cast<double>(options_.hang_after.count()) / 1000));
}

absl::Status Session::CheckHang() {
  const auto now = HangDetector::Clock::now();
  if (now - last_hang_look_ < kHangLookEvery)
    return absl::OkStatus();
  last_hang_look_ = now;
  NoteSpin();
  std::map<int32_t, pid_t> pids;
  for (const auto& [rank, pid] : supervisor_->Running())
    pids[static_cast<int32_t>(rank)] = pid;
  std::vector<HangDetector::Candidate> candidates;
  for (const auto& rank : world_->real()) {
    const uint32_t owner = rank->link().owner_pid();
    const auto started = pids.find(rank->rank());
    if (started == pids.end() || (!rank->closed() && rank->link().Blocked()))
      continue;
    candidates.push_back(HangDetector::Candidate{
        rank->rank(), owner != 0 && !rank->link().ended() ? static_cast<pid_t>(owner)
                                                          : started->second});
  }
  const auto found = hang_.Look(now, candidates);
  if (!found.has_value())
    return absl::OkStatus();
  if (found->stopped) {
    if (options_.on_note)
      options_.on_note(fmt::format(
          "rank {} has been stopped, by a debugger or a signal; the run waits for it",
          found->rank));
    return absl::OkStatus();
  }
  const double limit = static_cast<double>(options_.hang_after.count()) / 1000;
  const std::string waiting = WaitingLines();
  return absl::DeadlineExceededError(fmt::format(
      "rank {} has used no CPU for {} s and asks nothing of the emulator: it waits for "
      "something that vrank does not see (a socket, a file, a lock); --hang-after "
      "SECONDS "
      "changes the limit, 0 switches it off{}{}",
      found->rank, limit, waiting.empty() ? "" : "; meanwhile", waiting));
}

}  // namespace vrank::emulator
