// What a guest channel writes into the ring, and what it asks.

#include <algorithm>
#include <span>
#include <utility>

#include "base/guest/anchor_history.h"
#include "schedule/policy.h"
#include "virtual_host/channel/guest_channel.h"
#include "virtual_host/channel/timed_wait.h"
#include "virtual_host/turns/session_end.h"
#include "virtual_host/turns/thread_state.h"

namespace vrank::host {
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
    case RecordKind::kGraphLaunch:
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
    case RecordKind::kGraphForget:
    case RecordKind::kHostFuncEnd:
    case RecordKind::kAskMemory:
      return true;
    default:
      return false;
  }
}

// What a helper's record says depends on the host's time at its place, so what the
// process has spent until then goes before it. A query is as one that is asked; events
// are recorded by whoever frees page-locked memory (PyTorch's caching host allocator).
constexpr bool IsPlacedInTime(RecordKind kind) {
  return kind == RecordKind::kHostQuery || kind == RecordKind::kRecordToken;
}

// A question that only a thread asks which issues work. Synchronising is none:
// watchdogs do that, too.
// So is a reading of how much memory is free, but for one that comes before an
// allocation.
bool IsIssuersQuestion(const protocol::Record& record) {
  switch (record.kind) {
    case RecordKind::kCommInit:
    case RecordKind::kCommSplit:
      return true;
    case RecordKind::kAskMemory:
      return reinterpret_cast<const protocol::AskMemory&>(record).bytes != 0;
    default:
      return false;
  }
}

bool IsAbort(const protocol::Record& record) {
  if (record.kind != RecordKind::kCommRelease)
    return false;
  const auto kind = reinterpret_cast<const protocol::CommRelease&>(record).release;
  return kind == protocol::ReleaseKind::kAbort || kind == protocol::ReleaseKind::kStop;
}

constexpr bool IsWait(RecordKind kind) {
  return kind == RecordKind::kHostWaitToken || kind == RecordKind::kHostWaitLane;
}

protocol::HostWait WaitFor(protocol::QueryTarget kind, uint32_t target) {
  protocol::HostWait wait{};
  wait.record.kind = kind == protocol::QueryTarget::kToken ? RecordKind::kHostWaitToken
                                                           : RecordKind::kHostWaitLane;
  wait.target = target;
  return wait;
}

}  // namespace

// --- Records and questions
// -------------------------------------------------------------

// REQUIRES: lock_ held.
void GuestChannel::SendAllocatorPeaks() {
  while (std::optional<protocol::AllocatorPeak> peak = allocator_.Take())
    ring_.Write(&peak->record, sizeof *peak, nullptr, 0, /*question=*/false);
}

// REQUIRES: lock_ held.
void GuestChannel::SendAllocatorBlocks() {
  AllocatorBlocks::Taken taken = blocks_.Take();
  std::span<const protocol::AllocatorBlock> left = taken.blocks;
  while (!left.empty()) {
    const auto some =
        left.first(std::min(left.size(), AllocatorBlocks::kMostPerRecord));
    left = left.subspan(some.size());
    protocol::AllocatorBlocks blocks{};
    blocks.record.kind = RecordKind::kAllocatorBlocks;
    blocks.count = static_cast<uint32_t>(some.size());
    blocks.incomplete = std::exchange(taken.incomplete, false) ? 1 : 0;
    ring_.Write(&blocks.record, sizeof blocks, some.data(), some.size_bytes(),
                /*question=*/false);
  }
}

// REQUIRES: lock_ held, this process is the owner.
void GuestChannel::Append(protocol::Record* record, size_t struct_bytes,
                          const void* tail, size_t tail_bytes, bool question) {
  record->host_ns = 0;
  if (allocator_.raised() && IsLaunch(record->kind)) [[unlikely]]
    SendAllocatorPeaks();
  if (blocks_.pending() && IsLaunch(record->kind)) [[unlikely]]
    SendAllocatorBlocks();
  if (record->kind == RecordKind::kActivity) {
    // What a profiler wants is no part of the program: it carries no host time.
  } else if (thread_state.issuing()) {
    SpendForOthers();
    SendGapTime();
    if (thread_state.program != nullptr) [[unlikely]]
      RefineCall(*record);
    record->host_ns = std::exchange(unsent_ns_, 0);
    if (unsent_is_assumed_ && record->host_ns != 0)
      record->flags |= protocol::kHostTimeAssumed;
  } else {
    record->flags |= protocol::kFromHelper;
  }
  NoteCommunicator(*record);
  if (record->kind != RecordKind::kHostQuery && record->kind != RecordKind::kHost)
    bound_.until_ns.store(0, std::memory_order_relaxed);
  ring_.Write(record, struct_bytes, tail, tail_bytes, question);
  thread_state.last_record = ring_.records();
  thread_state.unpaid = thread_state.unpaid_library = 0;
  if (IsLaunch(record->kind) && (record->flags & protocol::kInGraph) == 0)
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
    FutexWait(&nothing, 0, schedule::kInsideLook, /*shared=*/false);
    lock_.Lock();
  }
}

void GuestChannel::EmitRecord(protocol::Record* record, size_t struct_bytes,
                              const void* tail, size_t tail_bytes, uint32_t* slot) {
  // A loss is none of the program's doing: what is pending may yet cost nothing.
  if (record->kind != RecordKind::kLoss)
    SettleReading();
  if (slot != nullptr)
    *slot = protocol::kNoSlot;
  if (!owner_.load(std::memory_order_relaxed) || aborting())
    return;
  if (IsWait(record->kind) && thread_state.issuing() &&
      (waits_beside_.load(std::memory_order_relaxed) || AnotherHasLimit()))
      [[unlikely]] {
    AskBeside(*reinterpret_cast<const protocol::HostWait*>(record));
    return;
  }
  if (!thread_state.issuing() && !IsPlacedInTime(record->kind) &&
      !IsIncidental(record->kind)) [[unlikely]]
    NoteLateJoin();
  InsideScope inside;
  LockGuard guard(&lock_);
  if (!thread_state.issuing() && IsPlacedInTime(record->kind)) {
    SpendForOthers();  // it may have been woken where the clock is to get yet
    SendHostTime();
  } else if (!IsIncidental(record->kind)) {
    MarkIssuing();
    issuing_.Issued(thread_state.issuer);
  }
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
  SettleReading();
  if (!owner_.load(std::memory_order_relaxed)) {
    *slot = protocol::kNoSlot;
    return Answer{.host = Peek(), .end = Peek()};
  }
  if (HasFailed(header_)) [[unlikely]] {
    *slot = protocol::kNoSlot;
    return AnswerAfterFailure(*record);
  }
  if (!thread_state.issuing() && IsIssuersQuestion(*record)) {
    NoteLateJoin();
    InsideScope inside;
    LockGuard guard(&lock_);
    MarkIssuing();
  }
  if (thread_state.issuing() && waits_beside_.load(std::memory_order_relaxed))
      [[unlikely]] {
    if (IsWait(record->kind))
      return AskBeside(*reinterpret_cast<const protocol::HostWait*>(record));
    if (record->kind == RecordKind::kHostQuery &&
        side_by_side_.load(std::memory_order_relaxed)) {
      // Whether it has ended by now cannot be said while other threads may still issue
      // what it waits for. It is found at its end, as by the last of many polls.
      const auto& query = *reinterpret_cast<const protocol::HostQuery*>(record);
      return AskBeside(WaitFor(query.target_kind, query.target));
    }
  }
  if (thread_state.issuing()) {
    if (IsWait(record->kind) && AnotherHasLimit()) [[unlikely]]
      return AskBeside(*reinterpret_cast<const protocol::HostWait*>(record));
    if (record->kind == RecordKind::kHostQuery) {
      auto* const query = reinterpret_cast<protocol::HostQuery*>(record);
      if (const std::optional<Answer> answer = AnswerByBound(query)) {
        Stop(ThreadScheduler::TurnEnd::kGoesOn);
        return *answer;
      }
    }
    const Answer answer = AskFromInside(record, struct_bytes, slot, tail, tail_bytes);
    Stop(ThreadScheduler::TurnEnd::kGoesOn);  // it may hold the GPU's lock
    return answer;
  }
  HostThread* const helper = HelperHere();
  Answer answer = AskFromInside(record, struct_bytes, slot, tail, tail_bytes);
  if (helper == nullptr)
    return answer;
  if (record->kind == RecordKind::kHostWaitToken ||
      record->kind == RecordKind::kHostWaitLane)
    SleepAsHelper(this, helper, answer.end);
  // The engine answers by the clock of the process, which may be ahead of the helper's.
  answer.host = Peek();
  if (record->kind == RecordKind::kHostQuery)
    answer.complete = answer.complete && answer.end <= answer.host;
  return answer;
}

Answer GuestChannel::AskFromInside(protocol::Record* record, size_t struct_bytes,
                                   uint32_t* slot, const void* tail,
                                   size_t tail_bytes) {
  InsideScope inside;
  const bool issuer = thread_state.issuing();
  const bool free_of_charge = record->kind == RecordKind::kHostQuery;
  HostThread* const helper = thread_state.helper;
  // Who asks a question that others wait for.
  HostThread* const asks = issuer ? Turn() : free_of_charge ? helper : nullptr;
  lock_.Lock();
  if (!issuer) {
    // An abort ends what issuing threads wait for, at its own time.
    if (IsAbort(*record))
      SpendReached(reached_from_ns_);
    SpendForOthers();
    SendHostTime();
  } else if (!IsIncidental(record->kind)) {
    issuing_.Issued(thread_state.issuer);
  }
  *slot = TakeSlot(issuer);
  SendGaps();
  Append(record, struct_bytes, tail, tail_bytes, /*question=*/true);
  const uint64_t record_number = ring_.records();
  const int64_t spent_at_question = spent_ns_;
  const uint64_t launches_at_question = launches_.load(std::memory_order_relaxed);
  lock_.Unlock();
  // Only after the record can be seen: no running thread and an empty ring means that
  // nothing will come.
  if (asks != nullptr)
    scheduler_.BeginAsking(asks, *slot);
  else if (helper != nullptr)
    scheduler_.ParkAsking(helper, *slot);
  if (issuer)
    header_.running_issuers.fetch_sub(1);
  const protocol::AnswerSlot* const from = answers_.Wait(*slot);
  if (asks != nullptr)
    scheduler_.EndAsking(asks);
  else if (helper != nullptr)
    scheduler_.Unpark(helper, TimePoint());
  if (from == nullptr)
    return AnswerAfterFailure(*record);

  LockGuard guard(&lock_);
  const Answer answer{.host = TimePoint::FromNanoseconds(from->host_ns),
                      .end = TimePoint::FromNanoseconds(from->end_ns),
                      .complete = from->complete != 0,
                      .value = from->value};
  if (from->retired_launches > retired_.load(std::memory_order_relaxed))
    retired_.store(from->retired_launches, std::memory_order_relaxed);
  if (issuer && from->beside != 0) {
    waits_beside_.store(true);
    answers_.GiveBack(*slot);
    SpendWaited(answer.end.nanoseconds());
    return {.host = ProcessNow(),
            .end = answer.end,
            .complete = answer.complete,
            .value = answer.value};
  }
  // Only what an issuing thread is told raises the clock.
  if (issuer && launches_at_question > exact_until_.load(std::memory_order_relaxed))
    exact_until_.store(launches_at_question, std::memory_order_relaxed);
  if (issuer && record->kind == RecordKind::kHostQuery)
    NoteBound(*reinterpret_cast<const protocol::HostQuery*>(record), answer,
              /*alone=*/ring_.records() == record_number);
  answers_.GiveBack(*slot);
  if (issuer) {
    const int64_t goes_on = answer.host.nanoseconds() + (spent_ns_ - spent_at_question);
    SpendReached(goes_on);
    RaiseClock(goes_on);
  }
  return answer;
}

Answer GuestChannel::Collect(uint32_t slot) {
  if (slot >= protocol::kAnswerSlots || !owner_.load(std::memory_order_relaxed))
    return Answer{.host = Peek(), .end = Peek()};
  HostThread* const helper = thread_state.issuing() ? nullptr : HelperHere();
  InsideScope inside;
  HostThread* const self = Turn();
  if (self != nullptr)
    scheduler_.BeginAsking(self, slot);
  if (thread_state.issuing() && answers_.BecomeIssuer(slot))
    header_.running_issuers.fetch_sub(1);
  if (helper != nullptr)
    scheduler_.Park(helper, kNever, nullptr, nullptr);
  const protocol::AnswerSlot* const from = answers_.Wait(slot);
  if (self != nullptr)
    scheduler_.EndAsking(self);
  if (helper != nullptr)
    scheduler_.Unpark(helper, TimePoint());
  if (from == nullptr)
    return Answer{.host = Peek(), .end = Peek()};
  LockGuard guard(&lock_);
  const Answer answer{.host = TimePoint::FromNanoseconds(from->host_ns),
                      .end = TimePoint::FromNanoseconds(from->end_ns),
                      .complete = from->complete != 0,
                      .value = from->value};
  answers_.GiveBack(slot);
  return answer;
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
  if (follows_program_)
    name_hashes_.push_back(HashText(text));
  protocol::DefineName record{};
  record.record.kind = RecordKind::kDefineName;
  record.name = number;
  record.length = static_cast<uint32_t>(text.size());
  Append(&record.record, sizeof record, text.data(), text.size(), false);
  return number;
}

}  // namespace vrank::host
