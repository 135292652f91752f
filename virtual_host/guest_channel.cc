#include "virtual_host/guest_channel.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "virtual_host/raw_syscall.h"
#include "virtual_host/thread_state.h"
#include "virtual_host/timed_wait.h"

namespace vrank::host {

constinit thread_local ThreadState thread_state;

namespace {

using protocol::RecordKind;

// Its destructor runs when a thread that the channel knows ends.
struct ThreadEnd {
  GuestChannel* channel = nullptr;
  ~ThreadEnd() {
    if (channel != nullptr)
      channel->ForgetThread();
  }
};
thread_local ThreadEnd thread_end;

// The same for a helper thread, without a destructor of C++: to register one takes the
// loader's lock, which a constructor of a library holds that waits for the thread.
pthread_key_t HelperEnd() {
  static const pthread_key_t key = [] {
    pthread_key_t made = 0;
    pthread_key_create(&made, [](void* channel) {
      static_cast<GuestChannel*>(channel)->ForgetThread();
    });
    return made;
  }();
  return key;
}

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

GuestChannel::GuestChannel(const Connection& connection, bool own_time)
    : segment_(connection.segment),
      header_(connection.segment->header),
      ring_(&connection.segment->header, connection.ring, connection.doorbell),
      answers_(connection.segment),
      activity_reader_(&connection.segment->activity),
      helpers_(connection.segment, &answers_),
      issuing_(&connection.segment->header, own_time) {}

// --- The clock
// -------------------------------------------------------------------------

TimePoint GuestChannel::Peek() const {
  Helper* const helper = thread_state.helper;
  if (helper == nullptr) [[likely]]
    return thread_state.has_read ? ProcessNow() + ReadingCost(header_.settings)
                                 : ProcessNow();
  if (thread_state.inside == 0) {
    InsideScope inside;
    helpers_.Touch(helper, ProcessNow());
  }
  return TimePoint::FromNanoseconds(helper->clock_ns.load());
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

TimePoint GuestChannel::Read(Reader reader) {
  ThreadState& thread = thread_state;
  bool is_paid = reader != Reader::kCompiler && DrivesClock();
  if (is_paid && reader == Reader::kWait && thread.unpaid < kPatience) {
    ++thread.unpaid;
    is_paid = false;
  }
  if (is_paid) {
    SettleReading();
    thread.has_read = true;
  }
  LetHelpersRun();
  const int64_t now_ns = Now().nanoseconds();
  const uint32_t patience = MovesClock() ? kPatience : 0;
  thread.stepped_ns = 0;
  if (now_ns > thread.shown_ns) {
    thread.shown_ns = now_ns;
    thread.shown_again = 0;
  } else if (is_paid || thread.shown_again < patience) {
    ++thread.shown_again;
  } else {
    thread.stepped_ns = std::max(int64_t{1}, ReadingCost(settings()).nanoseconds());
    thread.shown_ns += thread.stepped_ns;
  }
  return TimePoint::FromNanoseconds(thread.shown_ns);
}

void GuestChannel::SettleReading() {
  if (thread_state.has_read && thread_state.inside == 0) {
    thread_state.has_read = false;
    ++thread_state.paid_readings;
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
  if (unsent_ns_ == 0)
    return;
  protocol::Record record{.kind = RecordKind::kHost};
  record.host_ns = std::exchange(unsent_ns_, 0);
  if (unsent_is_assumed_)
    record.flags |= protocol::kHostTimeAssumed;
  ring_.Write(&record, sizeof record, nullptr, 0, /*question=*/false);
}

void GuestChannel::Reach(TimePoint limit) {
  InsideScope inside;
  if (owner_.load()) {
    LockGuard guard(&lock_);
    const Duration left = limit - ProcessNow();
    if (left <= Duration()) {
    } else if (header_.running_issuers.load() > 0) {
      SpendLocked(left, /*assumed=*/false);
    } else {
      // Their waits tell the clock; this is how far it has come by then at least.
      if (reached_ns_ == 0)
        reached_from_ns_ = header_.host_now_ns.load(std::memory_order_relaxed);
      RaiseClock(limit.nanoseconds());
      reached_ns_ = limit.nanoseconds();
    }
  } else {
    AdvanceTo(limit);
  }
  helpers_.Expire(limit);
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
  unsent_ns_ += beyond;
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
  const int64_t end_ns = entry.end_ns.load(std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_acquire);
  if (entry.generation.load(std::memory_order_relaxed) != generation)
    return std::nullopt;
  return TimePoint::FromNanoseconds(end_ns);
}

// --- Owner and issuing threads
// ---------------------------------------------------------

bool GuestChannel::ClaimRank() {
  if (detached())
    return false;
  if (owner_.load())
    return true;
  InsideScope inside;
  LockGuard guard(&lock_);
  if (owner_.load())
    return true;
  // Counted before the claim shows: an owner without a running thread looks blocked.
  header_.running_issuers.fetch_add(1);
  uint32_t nobody = 0;
  const auto self = static_cast<uint32_t>(getpid());
  if (!header_.owner_pid.compare_exchange_strong(nobody, self)) {
    header_.running_issuers.fetch_sub(1);
    return false;
  }
  header_.host_now_ns.fetch_add(own_ns_.load());
  own_ns_.store(0);
  spent_ns_ = unsent_ns_ = header_.host_now_ns.load();
  // What passed before is not told apart: it counts as what is less sure.
  unsent_is_assumed_ = header_.settings.assumed_host_costs != 0;
  owner_.store(true);
  MarkIssuing();
  header_.running_issuers.fetch_sub(1);
  return true;
}

// REQUIRES: lock_ held, this process is the owner.
void GuestChannel::MarkIssuing() {
  if (thread_state.issuing())
    return;
  thread_state.issuer = issuing_.Add();
  thread_end.channel = this;
  header_.running_issuers.fetch_add(1);
  if (thread_state.helper != nullptr)
    helpers_.End(std::exchange(thread_state.helper, nullptr));
}

void GuestChannel::BecomeHelper(Helper* helper) {
  helpers_.Begin(helper);
  thread_state.helper = helper;
  pthread_setspecific(HelperEnd(), this);
}

Helper* GuestChannel::HelperHere() {
  // Where another process of the rank moves the clock, nobody here would let it run.
  if (!MovesClock() || thread_state.inside != 0 || DrivesClock())
    return nullptr;
  InsideScope inside;
  if (thread_state.helper == nullptr)
    BecomeHelper(helpers_.Announce(ProcessNow()));
  return thread_state.helper;
}

void GuestChannel::LetHelpersRun() {
  if (thread_state.issuing() && thread_state.issuer->before.issuer != nullptr)
      [[unlikely]]
    CheckTurn();
  if (!helpers_.Due(ProcessNow()) || !DrivesClock())
    return;
  int left_behind = 0;
  {
    InsideScope inside;
    left_behind = helpers_.RunUntil(ProcessNow());
  }
  if (left_behind > 0)
    Count(LossId::kHelpersLeftBehind, static_cast<uint64_t>(left_behind));
}

// This thread has taken over from another one.
void GuestChannel::CheckTurn() {
  if (thread_state.inside != 0)
    return;
  int at_the_same_time = 0;
  {
    InsideScope inside;
    at_the_same_time = issuing_.Settle(thread_state.issuer);
  }
  if (at_the_same_time > 0)
    Count(LossId::kThreadsIssue, static_cast<uint64_t>(at_the_same_time));
}

void GuestChannel::SetThreadClock(TimePoint time) {
  if (Helper* const helper = HelperHere())
    helper->clock_ns = time.nanoseconds();
}

void GuestChannel::ForgetThread() {
  if (thread_state.helper != nullptr && !detached())
    helpers_.End(std::exchange(thread_state.helper, nullptr));
  if (!thread_state.issuing())
    return;
  IssuingThreads::Remove(std::exchange(thread_state.issuer, nullptr));
  if (detached())
    return;
  header_.running_issuers.fetch_sub(1);
}

void GuestChannel::BecomeForkChild() {
  lock_.ResetAfterFork();
  bounce_lock_.ResetAfterFork();
  // A parent that had not begun to issue work leaves the child as free as an exec
  // would.
  if (owner_.load())
    StandAside();
  owner_.store(false);
  helpers_.ForgetAll();
  issuing_.ForgetAll();
  thread_state = ThreadState{};
}

}  // namespace vrank::host
