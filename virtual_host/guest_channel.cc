#include "virtual_host/guest_channel.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "virtual_host/raw_syscall.h"
#include "virtual_host/thread_state.h"

namespace vrank::host {

constinit thread_local ThreadState thread_state;

namespace {

using protocol::RecordKind;

// Counts against the launch queue.
constexpr bool IsLaunch(RecordKind kind) {
  switch (kind) {
    case RecordKind::kKernel:
    case RecordKind::kGemm:
    case RecordKind::kCopy:
    case RecordKind::kMemset:
    case RecordKind::kHostFunc:
    case RecordKind::kCollective:
    case RecordKind::kPointToPoint:
      return true;
    default:
      return false;
  }
}

// What watchdogs and loggers do as well: it does not make a thread an issuing one.
constexpr bool IsIncidental(RecordKind kind) {
  switch (kind) {
    case RecordKind::kDefineName:
    case RecordKind::kHost:
    case RecordKind::kAskClock:
    case RecordKind::kRangeBegin:
    case RecordKind::kRangeEnd:
    case RecordKind::kLoss:
    case RecordKind::kReleaseLane:
    case RecordKind::kHostQuery:
    case RecordKind::kActivity:
      return true;
    default:
      return false;
  }
}

// Its destructor runs when an issuing thread ends.
struct IssuingThreadEnd {
  GuestChannel* channel = nullptr;
  ~IssuingThreadEnd() {
    if (channel != nullptr)
      channel->ForgetIssuingThread();
  }
};
thread_local IssuingThreadEnd issuing_thread_end;

bool IsMainThread() {
  if (thread_state.main == 0) {
    thread_state.main = RawSyscall(SYS_gettid) == getpid() ? 1 : 2;
  }
  return thread_state.main == 1;
}

}  // namespace

GuestChannel::GuestChannel(const Connection& connection)
    : segment_(connection.segment),
      header_(connection.segment->header),
      ring_(&connection.segment->header, connection.ring, connection.doorbell),
      answers_(connection.segment),
      activity_reader_(&connection.segment->activity) {}

// --- The clock
// -------------------------------------------------------------------------

TimePoint GuestChannel::Peek() const {
  return TimePoint::FromNanoseconds(
      header_.host_now_ns.load(std::memory_order_relaxed));
}

TimePoint GuestChannel::Now() {
  if (thread_state.issuing && thread_state.inside == 0 && !ClockIsLocal()) {
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
  if (detached_ || thread_state.inside != 0)
    return false;
  if (owner_.load(std::memory_order_relaxed))
    return thread_state.issuing;
  return header_.owner_pid.load(std::memory_order_relaxed) == 0 && IsMainThread();
}

void GuestChannel::Spend(Duration duration, bool assumed) {
  if (duration.nanoseconds() <= 0 || !DrivesClock())
    return;
  if (!owner_.load(std::memory_order_relaxed)) {
    header_.host_now_ns.fetch_add(duration.nanoseconds(), std::memory_order_relaxed);
    return;
  }
  InsideScope inside;
  LockGuard guard(&lock_);
  if (assumed != unsent_is_assumed_ && unsent_ns_ != 0) {
    // A record carries host time of one kind.
    protocol::Record record{.kind = RecordKind::kHost};
    Append(&record, sizeof record, nullptr, 0, /*question=*/false);
  }
  unsent_is_assumed_ = assumed;
  spent_ns_ += duration.nanoseconds();
  unsent_ns_ += duration.nanoseconds();
  header_.host_now_ns.fetch_add(duration.nanoseconds(), std::memory_order_relaxed);
}

void GuestChannel::AdvanceTo(TimePoint time) {
  if (owner_.load(std::memory_order_relaxed)) {
    Spend(time - Now());
    return;
  }
  int64_t now = header_.host_now_ns.load(std::memory_order_relaxed);
  while (now < time.nanoseconds() &&
         !header_.host_now_ns.compare_exchange_weak(now, time.nanoseconds())) {
  }
}

// REQUIRES: lock_ held.
void GuestChannel::RaiseClock(int64_t to_ns) {
  if (to_ns > header_.host_now_ns.load(std::memory_order_relaxed))
    header_.host_now_ns.store(to_ns, std::memory_order_relaxed);
}

// A wait that was written without a question still takes the host to the token's end,
// where that is known. REQUIRES: lock_ held.
void GuestChannel::RaiseForKnownWait(const protocol::HostWait& wait) {
  if (wait.slot != protocol::kNoSlot || !thread_state.issuing ||
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
  if (detached_)
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
  if (thread_state.issuing)
    return;
  thread_state.issuing = true;
  issuing_thread_end.channel = this;
  header_.running_issuers.fetch_add(1);
}

void GuestChannel::ForgetIssuingThread() {
  if (!std::exchange(thread_state.issuing, false) || detached_)
    return;
  header_.running_issuers.fetch_sub(1);
}

void GuestChannel::BecomeForkChild() {
  lock_.ResetAfterFork();
  bounce_lock_.ResetAfterFork();
  // A parent that had not begun to issue work leaves the child as free as an exec
  // would.
  detached_ = detached_ || owner_.load();
  owner_.store(false);
  threads_asking_.store(0);
  thread_state = ThreadState{};
}

// --- Records and questions
// -------------------------------------------------------------

// REQUIRES: lock_ held, this process is the owner.
void GuestChannel::Append(protocol::Record* record, size_t struct_bytes,
                          const void* tail, size_t tail_bytes, bool question) {
  record->host_ns = 0;
  if (record->kind == RecordKind::kActivity) {
    // What a profiler wants is no part of the program: it carries no host time.
  } else if (thread_state.issuing) {
    record->host_ns = std::exchange(unsent_ns_, 0);
    if (unsent_is_assumed_ && record->host_ns != 0)
      record->flags |= protocol::kHostTimeAssumed;
  } else {
    record->flags |= protocol::kFromHelper;
  }
  ring_.Write(record, struct_bytes, tail, tail_bytes, question);
  thread_state.last_record = ring_.records();
  if (IsLaunch(record->kind))
    launches_.fetch_add(1, std::memory_order_relaxed);
}

// REQUIRES: lock_ held.
uint32_t GuestChannel::TakeSlot(bool issuer) {
  for (;;) {
    const uint32_t slot = answers_.Take(issuer);
    if (slot != protocol::kNoSlot)
      return slot;
    // 64 questions are open, most of them callbacks: one will be collected.
    lock_.Unlock();
    std::atomic<uint32_t> nothing{0};
    FutexWait(&nothing, 0, Duration::Microseconds(100), /*shared=*/false);
    lock_.Lock();
  }
}

void GuestChannel::EmitRecord(protocol::Record* record, size_t struct_bytes,
                              const void* tail, size_t tail_bytes, uint32_t* slot) {
  if (slot != nullptr)
    *slot = protocol::kNoSlot;
  if (!owner_.load(std::memory_order_relaxed))
    return;
  InsideScope inside;
  LockGuard guard(&lock_);
  if (!IsIncidental(record->kind))
    MarkIssuing();
  if (slot != nullptr)
    *slot = TakeSlot(/*issuer=*/false);
  Append(record, struct_bytes, tail, tail_bytes, slot != nullptr);
  if (record->kind == RecordKind::kHostWaitToken)
    RaiseForKnownWait(*reinterpret_cast<const protocol::HostWait*>(record));
  else if (record->kind == RecordKind::kRecordToken)
    CountGeneration(reinterpret_cast<const protocol::TokenOnLane*>(record)->token);
}

Answer GuestChannel::AskRecord(protocol::Record* record, size_t struct_bytes,
                               uint32_t* slot, const void* tail, size_t tail_bytes) {
  if (!owner_.load(std::memory_order_relaxed)) {
    *slot = protocol::kNoSlot;
    return Answer{.host = Peek(), .end = Peek()};
  }
  InsideScope inside;
  const bool issuer = thread_state.issuing;
  lock_.Lock();
  *slot = TakeSlot(issuer);
  Append(record, struct_bytes, tail, tail_bytes, /*question=*/true);
  const int64_t spent_at_question = spent_ns_;
  const uint64_t launches_at_question = launches_.load(std::memory_order_relaxed);
  lock_.Unlock();
  // Only after the record can be seen: no running thread and an empty ring means that
  // nothing will come.
  if (issuer)
    header_.running_issuers.fetch_sub(1);
  threads_asking_.fetch_add(1);
  const protocol::AnswerSlot& from = answers_.Wait(*slot);
  threads_asking_.fetch_sub(1);

  LockGuard guard(&lock_);
  const Answer answer{.host = TimePoint::FromNanoseconds(from.host_ns),
                      .end = TimePoint::FromNanoseconds(from.end_ns),
                      .complete = from.complete != 0,
                      .value = from.value};
  if (from.retired_launches > retired_.load(std::memory_order_relaxed))
    retired_.store(from.retired_launches, std::memory_order_relaxed);
  if (launches_at_question > exact_until_.load(std::memory_order_relaxed))
    exact_until_.store(launches_at_question, std::memory_order_relaxed);
  answers_.GiveBack(*slot);
  if (issuer)
    RaiseClock(answer.host.nanoseconds() + (spent_ns_ - spent_at_question));
  return answer;
}

Answer GuestChannel::Collect(uint32_t slot) {
  if (slot >= protocol::kAnswerSlots || !owner_.load(std::memory_order_relaxed))
    return Answer{.host = Peek(), .end = Peek()};
  InsideScope inside;
  if (thread_state.issuing && answers_.BecomeIssuer(slot))
    header_.running_issuers.fetch_sub(1);
  threads_asking_.fetch_add(1);
  const protocol::AnswerSlot& from = answers_.Wait(slot);
  threads_asking_.fetch_sub(1);
  LockGuard guard(&lock_);
  const Answer answer{.host = TimePoint::FromNanoseconds(from.host_ns),
                      .end = TimePoint::FromNanoseconds(from.end_ns),
                      .complete = from.complete != 0,
                      .value = from.value};
  answers_.GiveBack(slot);
  return answer;
}

// --- For a profiler in the process
// ---------------------------------------------------------------------------------

HostMark GuestChannel::Mark() {
  // Before the rank has an owner all time is that before its first record.
  if (!owner_.load(std::memory_order_acquire))
    return {0, Peek().nanoseconds()};
  InsideScope inside;
  LockGuard guard(&lock_);
  return {ring_.records(), unsent_ns_};
}

uint64_t GuestChannel::LastRecord() const {
  return thread_state.last_record;
}

size_t GuestChannel::Read(protocol::ActivityEntry* out, size_t capacity,
                          Duration patience) {
  if (aborting())
    patience = Duration();
  return activity_reader_.Read(out, capacity, patience);
}

void GuestChannel::HideThread() {
  ++thread_state.inside;
}

uint32_t GuestChannel::Name(std::string_view text) {
  if (text.empty() || !owner_.load(std::memory_order_relaxed))
    return 0;
  InsideScope inside;
  LockGuard guard(&lock_);
  const auto known = names_.find(text);
  if (known != names_.end())
    return known->second;
  const auto number = static_cast<uint32_t>(names_.size() + 1);
  names_.emplace(text, number);
  protocol::DefineName record{};
  record.record.kind = RecordKind::kDefineName;
  record.name = number;
  record.length = static_cast<uint32_t>(text.size());
  Append(&record.record, sizeof record, text.data(), text.size(), false);
  return number;
}

}  // namespace vrank::host
