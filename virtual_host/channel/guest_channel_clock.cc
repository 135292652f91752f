// The process's host clock: what reads it, what moves it.

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "schedule/policy.h"
#include "virtual_host/channel/guest_channel.h"
#include "virtual_host/system/raw_syscall.h"
#include "virtual_host/turns/futex.h"
#include "virtual_host/turns/session_end.h"
#include "virtual_host/turns/thread_state.h"

namespace vrank::host {
namespace {

using protocol::RecordKind;

Duration ReadingCost(const protocol::Settings& settings) {
  return Duration::Nanoseconds(
      settings.host_costs_ns[static_cast<size_t>(HostCost::kClockRead)]);
}

bool IsMainThread() {
  if (thread_state.main == 0) {
    thread_state.main = RawSyscall(SYS_gettid) == getpid() ? 1 : 2;
  }
  return thread_state.main == 1;
}

}  // namespace

TimePoint GuestChannel::Peek() const {
  HostThread* const helper = thread_state.helper;
  if (thread_state.reached_turn != 0 &&
      thread_state.reached_turn == header_.others_turn.load() + 1)
    return TimePoint::FromNanoseconds(thread_state.reached_ns);
  if (FollowsClock()) [[unlikely]]
    return OthersNow();
  if (helper == nullptr || !MovesClock()) [[likely]]
    return thread_state.has_read ? ProcessNow() + ReadingCost(header_.settings)
                                 : ProcessNow();
  if (thread_state.inside == 0) {
    InsideScope inside;
    scheduler_.Touch(helper, OthersNow());
  }
  return TimePoint::FromNanoseconds(helper->clock_ns.load());
}

TimePoint GuestChannel::OthersNow() const {
  return header_.others_reached_turn.load() == header_.others_turn.load() + 1
             ? TimePoint::FromNanoseconds(header_.others_reached_ns.load()) + own_time()
             : ProcessNow();
}

TimePoint GuestChannel::Now() {
  if (thread_state.issuing() && thread_state.inside == 0 && !ClockIsLocal()) {
    protocol::AskClock question{};
    question.record.kind = RecordKind::kAskClock;
    Ask(question);
  }
  return Peek();
}

bool GuestChannel::ClockIsLocal() {
  // Launch i waits for the end of launch i - depth, so depth launches beyond the ended
  // ones can have been issued without a wait. After an answer nothing is unknown until
  // the next launch.
  const uint64_t launches = launches_.load(std::memory_order_relaxed);
  return launches <= retired_.load(std::memory_order_relaxed) +
                         header_.settings.launch_queue_depth ||
         launches == exact_until_.load(std::memory_order_relaxed);
}

bool GuestChannel::DrivesClock() const {
  if (detached() || thread_state.inside != 0)
    return false;
  if (owner_.load(std::memory_order_relaxed))
    return thread_state.issuing();
  return header_.owner_pid.load(std::memory_order_relaxed) == 0 && IsMainThread();
}

bool GuestChannel::OwnerLives() const {
  const uint32_t owner = header_.owner_pid.load();
  return owner != 0 && RawSyscall(SYS_kill, owner, 0) == 0;
}

void GuestChannel::ShowReached(TimePoint limit) {
  thread_state.reached_ns = limit.nanoseconds();
  thread_state.reached_turn = header_.others_turn.load() + 1;
}

TimePoint GuestChannel::Read(Reader reader) {
  ThreadState& thread = thread_state;
  if (reader == Reader::kProgram)
    NoteUseOfTime();
  bool is_paid = reader != Reader::kCompiler && DrivesClock();
  bool shows_more = true;  // where the clock stands for long
  const bool polls = reader == Reader::kPoll;
  if (is_paid && (polls || reader == Reader::kWait) &&
      thread.unpaid < schedule::kFreeReadings) {
    ++thread.unpaid;
    is_paid = false;
  } else if (is_paid && reader == Reader::kLibrary &&
             thread.unpaid_library < schedule::kFreeLibraryReadings) {
    ++thread.unpaid_library;
    is_paid = shows_more = false;
  }
  if (is_paid) {
    SettleReading();
    thread.has_read = true;
  }
  // Python reads it with the mutex of its interpreter lock held. Only who looks at it
  // time and again lets others issue.
  Stop(thread.readings++ < schedule::kFreeReadings ? ThreadScheduler::TurnEnd::kGoesOn
                                                   : ThreadScheduler::TurnEnd::kOver);
  const int64_t now_ns = Now().nanoseconds();
  const uint32_t patience =
      MovesClock() || reader != Reader::kProgram ? schedule::kFreeReadings : 0;
  thread.stepped_ns = 0;
  if (now_ns > thread.shown_ns) {
    thread.shown_ns = now_ns;
    thread.shown_again = 0;
  } else if (is_paid || thread.shown_again < patience) {
    thread.shown_again += shows_more ? 1 : 0;
  } else if (shows_more) {
    thread.stepped_ns = std::max(int64_t{1}, ReadingCost(settings()).nanoseconds());
    thread.shown_ns += thread.stepped_ns;
  }
  if (!polls)
    return TimePoint::FromNanoseconds(thread.shown_ns);
  // What the reading before costs may not be spent (DropReading).
  const int64_t spent_ns =
      now_ns - (thread.has_read ? ReadingCost(settings()).nanoseconds() : 0);
  thread.ahead_ns = std::max(thread.ahead_ns, thread.shown_ns - spent_ns) + 1;
  return TimePoint::FromNanoseconds(spent_ns + thread.ahead_ns);
}

void GuestChannel::SettleReading() {
  if (thread_state.has_read && thread_state.inside == 0) {
    thread_state.has_read = false;
    Spend(HostCost::kClockRead);
  }
}

void GuestChannel::Spend(Duration duration, bool assumed) {
  SettleReading();
  if (duration.nanoseconds() <= 0 || !DrivesClock())
    return;
  if (!owner_.load(std::memory_order_relaxed)) {
    own_ns_.fetch_add(duration.nanoseconds(), std::memory_order_relaxed);
    return;
  }
  InsideScope inside;
  LockGuard guard(&lock_);
  SpendLocked(duration, assumed);
}

void GuestChannel::FollowWallClock(TimePoint wall) {
  if (!owner_.load(std::memory_order_relaxed) || detached())
    return;
  InsideScope inside;
  LockGuard guard(&lock_);
  if (const Duration behind = wall - ProcessNow(); behind > Duration()) {
    SpendLocked(behind, /*assumed=*/false);
    SendHostTime();  // records of threads that do not issue carry none
  }
}

// REQUIRES: lock_ held, this process is the owner.
void GuestChannel::SpendLocked(Duration duration, bool assumed) {
  SpendForOthers();
  MoveClock(duration, assumed);
}

// REQUIRES: lock_ held, this process is the owner.
void GuestChannel::MoveClock(Duration duration, bool assumed) {
  if (assumed != unsent_is_assumed_ && unsent_ns_ != 0) {
    // A record carries host time of one kind.
    SendHostTime();
  }
  unsent_is_assumed_ = assumed;
  spent_ns_ += duration.nanoseconds();
  unsent_ns_ += duration.nanoseconds();
  header_.host_now_ns.fetch_add(duration.nanoseconds(), std::memory_order_relaxed);
  NoteStep();
}

// The clock was moved.
void GuestChannel::NoteStep() {
  if (clock_log_.recording()) [[unlikely]]
    clock_log_.Add(TimeStampCount(), ProcessNow().nanoseconds());
}

void GuestChannel::AdvanceTo(TimePoint time) {
  SettleReading();
  if (owner_.load(std::memory_order_relaxed)) {
    Spend(time - Now());
    return;
  }
  const int64_t to_ns = time.nanoseconds() - own_ns_.load(std::memory_order_relaxed);
  int64_t now = header_.host_now_ns.load(std::memory_order_relaxed);
  while (now < to_ns && !header_.host_now_ns.compare_exchange_weak(now, to_ns)) {
  }
}

// What issuing threads have spent gets a record of its own. REQUIRES: lock_ held.
void GuestChannel::SendHostTime() {
  SendGapTime();
  if (unsent_ns_ == 0)
    return;
  protocol::Record record{.kind = RecordKind::kHost};
  record.host_ns = std::exchange(unsent_ns_, 0);
  if (unsent_is_assumed_)
    record.flags |= protocol::kHostTimeAssumed;
  ring_.Write(&record, sizeof record, nullptr, 0, /*question=*/false);
}

void GuestChannel::TellLimit() {
  InsideScope inside;
  scheduler_.Publish();
  ring_.Ring();
}

bool GuestChannel::AwaitGrant(Duration slice) {
  InsideScope inside;
  ExitIfAborting(header_);
  const uint32_t granted = header_.granted_ticket.load();
  TellLimit();
  return FutexWait(&header_.granted_ticket, granted, slice, /*shared=*/true) != -EINTR;
}

void GuestChannel::Reach(TimePoint limit) {
  InsideScope inside;
  if (owner_.load()) {
    LockGuard guard(&lock_);
    ReachLocked(limit.nanoseconds(), /*for_others=*/false);
  } else {
    AdvanceTo(limit);
  }
  scheduler_.Expire(limit);
}

// What passes for other processes is what they compute, where that takes time.
// REQUIRES: lock_ held, this process is the owner.
void GuestChannel::ReachLocked(int64_t to_ns, bool for_others) {
  const int64_t now_ns = header_.host_now_ns.load(std::memory_order_relaxed);
  if (to_ns <= now_ns)
    return;
  for_others = for_others && settings().host_time != protocol::HostTime::kModelled;
  if (header_.running_issuers.load() > 0) {
    if (for_others)
      SpendProgram(to_ns - now_ns);
    else
      MoveClock(Duration::Nanoseconds(to_ns - now_ns), /*assumed=*/false);
    return;
  }
  // Their waits tell the clock; this is how far it has come by then at least.
  if (reached_ns_ == 0)
    reached_from_ns_ = now_ns;
  RaiseClock(to_ns);
  reached_ns_ = to_ns;
  reached_for_others_ = for_others;
}

// REQUIRES: lock_ held, this process is the owner.
void GuestChannel::SpendForOthers() {
  const int64_t to_ns = header_.reached_ns.load(std::memory_order_relaxed);
  if (to_ns > header_.host_now_ns.load(std::memory_order_relaxed)) [[unlikely]]
    ReachLocked(to_ns, /*for_others=*/true);
}

// The program may end without another record.
void GuestChannel::SpendTimeOfEnded() {
  if (!owner_.load(std::memory_order_relaxed) || !DrivesClock() || aborting() ||
      header_.reached_ns.load() <= header_.host_now_ns.load())
    return;
  InsideScope inside;
  LockGuard guard(&lock_);
  SpendForOthers();
  SendHostTime();
}

// REQUIRES: lock_ held.
void GuestChannel::RaiseClock(int64_t to_ns) {
  if (to_ns > header_.host_now_ns.load(std::memory_order_relaxed))
    header_.host_now_ns.store(to_ns, std::memory_order_relaxed);
  NoteStep();
}

// REQUIRES: lock_ held.
void GuestChannel::SpendReached(int64_t to_ns) {
  const int64_t beyond = std::exchange(reached_ns_, 0) - to_ns;
  if (beyond <= 0)
    return;
  spent_ns_ += beyond;
  (reached_for_others_ ? unsent_gaps_ns_ : unsent_ns_) += beyond;
}

// A wait that was written without a question still takes the host to the token's end,
// where that is known. REQUIRES: lock_ held.
void GuestChannel::RaiseForKnownWait(const protocol::HostWait& wait) {
  if (wait.slot != protocol::kNoSlot || !thread_state.issuing() ||
      wait.target >= generations_.size())
    return;
  // Another generation's end, though published, says nothing about this wait.
  const std::optional<TimePoint> end =
      PublishedEnd(wait.target, generations_[wait.target]);
  if (end.has_value())
    RaiseClock(end->nanoseconds());
}

// REQUIRES: lock_ held.
void GuestChannel::CountGeneration(uint32_t token) {
  if (token >= protocol::kPublishedTokens)
    return;
  if (token >= generations_.size())
    generations_.resize(token + 1);
  ++generations_[token];
}

std::optional<TimePoint> GuestChannel::PublishedEnd(uint32_t token,
                                                    uint32_t generation) {
  if (token >= protocol::kPublishedTokens || generation == 0)
    return std::nullopt;
  const protocol::PublishedToken& entry = segment_->published[token];
  // The end belongs to the generation only if that stands before and after.
  if (entry.generation.load(std::memory_order_acquire) != generation)
    return std::nullopt;
  // Acquires what the emulator stored before: a generation of 0, or a later one.
  const int64_t end_ns = entry.end_ns.load(std::memory_order_acquire);
  if (entry.generation.load(std::memory_order_relaxed) != generation)
    return std::nullopt;
  return TimePoint::FromNanoseconds(end_ns);
}

}  // namespace vrank::host
