// Whose wait ends next, where ranks wait for a time.
//
// Of all waits with a limit, sleeps among them, the one that ends first in virtual time
// is decided first, and not before every other rank rests or can only do what comes
// later. So what ranks tell each other outside of NCCL (by a socket, a store, a file)
// is there when the one that sleeps wakes up, however long the other computes in real
// time, and two runs are alike. A wait that something else could end has to have been
// at rest for a while, too, since that may come from outside of the session.

#include <poll.h>

#include <algorithm>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "emulator/session/schedule_log.h"
#include "emulator/session/session.h"
#include "emulator/watch/loopback_traffic.h"
#include "emulator/watch/process_sample.h"
#include "emulator/watch/thread_watch.h"
#include "schedule/decide.h"
#include "schedule/policy.h"

namespace vrank::emulator {
namespace {

using schedule::Milliseconds;
using std::chrono::milliseconds;

int64_t CpuMs(const GuestLink& link) {
  int64_t cpu_ms = 0;
  for (const pid_t pid : link.pids())
    cpu_ms += SampleProcess(pid).value_or(ProcessSample{}).cpu_ms;
  return cpu_ms;
}

int64_t RealMs() {
  return std::chrono::duration_cast<milliseconds>(
             QuietWatch::Clock::now().time_since_epoch())
      .count();
}

}  // namespace

// The clocks are read before the rings (schedule::Snapshot::unread).
Session::Seen Session::LookAtRanks() const {
  Seen seen;
  for (const auto& rank : world_->real()) {
    const GuestLink& link = rank->link();
    schedule::RankState state{.rank = rank->rank(),
                              .closed = rank->closed(),
                              .blocked = link.Blocked(),
                              .clock_ns = link.host_now_ns(),
                              .running_issuers = link.running_issuers(),
                              .limit = {}};
    const auto limit = rank->closed() ? std::nullopt : link.EarliestLimit();
    if (limit.has_value())
      state.limit = {limit->ns, limit->sleeps, limit->turn != 0};
    seen.snapshot.ranks.push_back(state);
    seen.limits.push_back(limit);
  }
  seen.snapshot.unread =
      std::any_of(links_.begin(), links_.end(),
                  [](const auto& link) { return link->BytesWaiting() != 0; });
  return seen;
}

std::optional<Session::NextLimit> Session::FindNextLimit() const {
  const Seen seen = LookAtRanks();
  const auto next = schedule::FindNextWait(seen.snapshot);
  if (!next.has_value())
    return std::nullopt;
  return NextLimit{world_->real()[next->index].get(), *seen.limits[next->index],
                   next->at_once};
}

bool Session::AnyoneSleeps() const {
  return schedule::AnyoneSleeps(LookAtRanks().snapshot);
}

// What a thread waits for that keeps its turn may come later, too.
std::vector<const RealRank*> Session::ThoseBefore(const Decision& next) const {
  std::vector<const RealRank*> before;
  for (const size_t index : schedule::ThoseBefore(
           LookAtRanks().snapshot, next.rank->rank(), next.ns, next.AllRest()))
    before.push_back(world_->real()[index].get());
  return before;
}

namespace {

// How often the threads of each process have run so far; nullopt unless all of them
// wait, and none is about to look at another one.
std::optional<std::vector<uint64_t>> RunsOfWaiters(
    const std::vector<const RealRank*>& ranks, ThreadsIn where, ThreadWatch* threads) {
  for (const RealRank* rank : ranks)
    for (const pid_t pid : rank->link().pids())
      if (threads->StillRuns(pid))
        return std::nullopt;
  std::vector<uint64_t> runs;
  for (const RealRank* rank : ranks) {
    const GuestLink& link = rank->link();
    const std::vector<pid_t> pids = link.pids();
    if (!rank->closed() && (pids.empty() || link.HasGrant() || link.LooksAgainSoon()))
      return std::nullopt;
    for (const pid_t pid : pids) {
      const auto waiters = threads->Look(pid, where);
      if (!waiters.has_value())
        return std::nullopt;
      runs.push_back(waiters->runs);
    }
  }
  return runs;
}

}  // namespace

// No thread of theirs can run, in two looks between which none has run: their runs so
// far. Threads that wait for anything but another thread rest only for one that sleeps.
std::optional<std::vector<uint64_t>> Session::Rest(
    const std::vector<const RealRank*>& ranks, ThreadsIn where) {
  // Nor has one asked the emulator anything that nobody has looked at yet: its store
  // answers, too.
  const auto asked = [this] {
    pollfd events{epoll_, POLLIN, 0};
    return poll(&events, 1, 0) > 0 ||
           std::any_of(links_.begin(), links_.end(),
                       [](const auto& link) { return link->BytesWaiting() != 0; });
  };
  const auto runs = RunsOfWaiters(ranks, where, &threads_);
  if (!runs.has_value())
    return std::nullopt;
  std::this_thread::sleep_for(schedule::Chrono(schedule::kBetweenLooks));
  const bool rest = RunsOfWaiters(ranks, where, &threads_) == runs && !asked();
  return rest ? runs : std::nullopt;
}

// It is waited for no longer, until its clock moves. `own`: it is the one that sleeps.
bool Session::IsLeftBehind(const RealRank& rank, bool own) {
  const GuestLink& link = rank.link();
  const int64_t clock_ns = link.host_now_ns();
  // What a rank does that has not started takes real time.
  const bool started = !link.pids().empty();
  const int64_t used_ms = started ? CpuMs(link) : RealMs();
  Turn& turn = turns_[rank.rank()];
  if (turn.clock_ns != clock_ns || turn.written != link.bytes_written() ||
      turn.started != started || used_ms < turn.began_ms)
    turn = {clock_ns, link.bytes_written(), used_ms, started, false, turn.own};
  const milliseconds used(used_ms - turn.began_ms);
  if (turn.left_behind || (own && turn.own == schedule::kOwnTurns))
    return true;
  if (used <
      (own ? Milliseconds(schedule::kOwnTurn) : Milliseconds(schedule::kRankTurn)))
    return false;
  turn.left_behind = true;
  turn.own += own ? 1 : 0;
  world_->CountLoss(rank.rank(), LossId::kRanksLeftBehind);
  LogSchedule(clock_ns, rank.rank(), "left-behind", ScheduleRule::kQuiet);
  return true;
}

// Whether the rank has used kRankTurn of CPU time since it was first waited for so
// that a turn may pass: its clock may move on and on while it looks for what the turn's
// thread is to do.
bool Session::HasRunOn(const RealRank& rank, const Decision& next) {
  if (awaited_.rank != next.rank->rank() || awaited_.ns != next.ns)
    awaited_ = {next.rank->rank(), next.ns, {}, {}};
  const int64_t cpu_ms = CpuMs(rank.link());
  const auto began = awaited_.cpu_ms.emplace(rank.rank(), cpu_ms).first;
  if (milliseconds(cpu_ms - began->second) < Milliseconds(schedule::kRankTurn))
    return false;
  if (awaited_.left_behind.insert(rank.rank()).second) {
    world_->CountLoss(rank.rank(), LossId::kRanksLeftBehind);
    LogSchedule(rank.link().host_now_ns(), rank.rank(), "left-behind",
                ScheduleRule::kQuiet);
  }
  return true;
}

// The wait whose limit is the earliest one ends, where it is a sleep, or where some
// rank still runs: what is to be decided when all are quiet comes first
// (session_quiet.cc).
bool Session::EndNextWait() {
  const std::optional<NextLimit> next = FindNextLimit();
  if (!next.has_value() || next->rank->link().HasGrant())
    return false;
  const auto query = world_->OldestQuery();
  if (query.has_value() && query->asked_ns <= next->limit.ns)
    return false;
  const Decision decision{next->rank, next->limit.ns,
                          next->limit.turn != 0 ? Decision::Kind::kTurn
                          : next->at_once       ? Decision::Kind::kSleep
                                                : Decision::Kind::kWait};
  std::vector<const RealRank*> before = ThoseBefore(decision);
  const auto& real = world_->real();
  const bool all_before =
      before.size() ==
      static_cast<size_t>(std::count_if(
          real.begin(), real.end(), [](const auto& rank) { return !rank->closed(); }));
  if (!next->at_once && all_before)
    return false;
  if (!AreAtRest(decision, &before))
    return false;
  // No earlier limit has been published meanwhile.
  const std::optional<NextLimit> now = FindNextLimit();
  if (!now.has_value() || now->rank != next->rank ||
      now->limit.ticket != next->limit.ticket || now->limit.other != next->limit.other)
    return false;
  LogLimit(next->rank->rank(), next->limit,
           next->at_once ? ScheduleRule::kRest : ScheduleRule::kQuiet);
  next->rank->link().GrantLimit(next->limit);
  next_quiet_.Moved();
  quiet_.Moved();
  return true;
}

// So is a query whether work has ended, where some rank sleeps: while sleeps end one
// after the other, all are never quiet for long enough (session_quiet.cc). It has not
// ended, once all ranks rest and nothing is under way between them. A rank that polls
// gets one answer for all polls up to the next limit, unless virtual ranks follow live:
// their clocks may lag behind.
bool Session::DecideNextQuery() {
  const auto query = world_->OldestQuery();
  if (!query.has_value() || !AnyoneSleeps())
    return false;
  const auto next = FindNextLimit();
  if (next.has_value() && next->limit.ns < query->asked_ns)
    return false;
  const Decision decision{RankOf(query->rank), query->asked_ns, Decision::Kind::kQuery};
  std::vector<const RealRank*> before = ThoseBefore(decision);
  if (!AreAtRest(decision, &before))
    return false;
  const auto now = world_->OldestQuery();
  if (!now.has_value() || now->rank != query->rank || now->asked_ns != query->asked_ns)
    return false;
  causality_.Told(query->rank, query->asked_ns);
  LogQuery(*query, ScheduleRule::kRest);
  world_->DecideOldestQuery(next.has_value() && !AnyoneFollows() ? next->limit.ns : 0);
  next_quiet_.Moved();
  quiet_.Moved();
  return true;
}

bool Session::AreAtRest(const Decision& next, std::vector<const RealRank*>* ranks) {
  std::vector<const GuestLink*> links;
  for (const RealRank* rank : *ranks)
    links.push_back(&rank->link());
  const auto now = QuietWatch::Clock::now();
  if (next.kind == Decision::Kind::kWait)
    return next_quiet_.Look(now, links) >=
           QuietWatch::PatienceFor(next.ns - next.rank->link().host_now_ns());
  // Whoever keeps its turn may be about to hear of what is under way to it. A look at
  // the network takes far longer than one at threads.
  const auto rest = Rest(*ranks, ThreadsIn::kAnyWait);
  if (rest.has_value() &&
      (!next.AllRest() ||
       (!LoopbackInFlight() && Rest(*ranks, ThreadsIn::kAnyWait) == rest)))
    return true;
  if (next_quiet_.Look(now, links) >= Milliseconds(schedule::kRest))
    return true;
  const size_t erased = std::erase_if(*ranks, [&](const RealRank* rank) {
    const bool own = rank == next.rank;
    return IsLeftBehind(*rank, own) ||
           (next.kind == Decision::Kind::kTurn && !own && HasRunOn(*rank, next));
  });
  return erased != 0 && Rest(*ranks, ThreadsIn::kAnyWait).has_value();
}

}  // namespace vrank::emulator
