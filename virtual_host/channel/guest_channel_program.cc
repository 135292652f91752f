// The program's own time, between its calls: metered, played, and sent to be recorded.

#include <algorithm>
#include <cerrno>
#include <optional>

#include "base/guest/gap_table.h"
#include "virtual_host/channel/guest_channel.h"
#include "virtual_host/channel/program_time.h"
#include "virtual_host/channel/timed_wait.h"
#include "virtual_host/turns/thread_state.h"

namespace vrank::host {
namespace {

using protocol::HostTime;

int64_t AtSpeed(int64_t ns, uint64_t millionths) {
  if (millionths == 1'000'000) [[likely]]
    return ns;
  __extension__ using Wide = __int128;
  return static_cast<int64_t>(Wide{ns} * 1'000'000 / static_cast<int64_t>(millionths));
}

}  // namespace

void PauseProgram(ProgramTime* program) {
  program->Pause();
}

void ResumeProgram(ProgramTime* program) {
  program->Resume();
}

// A handler that interrupts a call, or the channel, finds `calls` or `inside` counted
// up and leaves the thread's ProgramTime alone.

void GuestChannel::EnterCall(const char* function) {
  ThreadState& thread = thread_state;
  if (++thread.calls != 1 || thread.inside != 0 || thread.program == nullptr)
    return;
  thread.program->Pause();
  if (thread.program->called())  // followed since a moment outside of any call
    BeginGap();
  if (function != nullptr)
    NameCall(function);
}

void GuestChannel::NameCall(const char* function) {
  ThreadState& thread = thread_state;
  if (thread.calls != 1 || thread.inside != 0 || thread.program == nullptr ||
      thread.program->called() || thread.program->follows())
    return;
  const int64_t used = thread.program->EndGap(function);
  if (thread.program->meters())
    header_.program_ns.fetch_add(used, std::memory_order_relaxed);
  if (settings().host_time == HostTime::kMeasured)
    SpendGap(AtSpeed(used, settings().host_speed_millionths));
  else
    SpendRest();
  if (thread.program->is_full()) {
    InsideScope inside;
    LockGuard guard(&lock_);
    SendGaps();
  }
}

// --- A process that moves no clock

// REQUIRES: the thread is in no call of ours.
void GuestChannel::BecomeFollower() {
  ++thread_state.calls;
  thread_state.program = new ProgramTime(settings(), ProgramTime::Of::kFollower);
  AwaitThreadEnd();
  LeaveCall();
}

// The first act of a program that was executed begins the first gap: what it has
// computed to start is not the program's.
void GuestChannel::ActOfFollower(const char* function) {
  ThreadState& thread = thread_state;
  if (thread.program == nullptr && thread.calls == 0) {
    BecomeFollower();
    return;
  }
  EnterCall(nullptr);
  if (thread.calls == 1 && thread.inside == 0 && !thread.program->called()) {
    const int64_t used = thread.program->EndGap(function);
    if (settings().host_time == HostTime::kMeasured)
      SpendGap(AtSpeed(used, settings().host_speed_millionths));
    else
      SpendRest();
    SendFollowerGap();
    PayOwed();
  }
  LeaveCall();
}

void GuestChannel::PayOfFollower() {
  // It began to read before the rank's process had issued work.
  if (thread_state.program == nullptr && thread_state.calls == 0)
    BecomeFollower();
  if (thread_state.program == nullptr || settings().host_time != HostTime::kRecorded)
    return;
  EnterCall(nullptr);
  if (thread_state.calls == 1 && thread_state.inside == 0)
    PayOwed();
  LeaveCall();
}

std::atomic<int64_t>* GuestChannel::PostedDue(const void* semaphore) {
  return &posted_due_ns_[reinterpret_cast<uintptr_t>(semaphore) / 16 %
                         posted_due_ns_.size()];
}

// The gap goes on.
void GuestChannel::PostOfFollower(const void* semaphore) {
  ThreadState& thread = thread_state;
  if (settings().host_time != HostTime::kMeasured)
    return;
  if (thread.program == nullptr && thread.calls == 0) {
    BecomeFollower();
    return;
  }
  EnterCall(nullptr);
  if (thread.calls == 1 && thread.inside == 0 && !thread.program->called()) {
    SpendGap(AtSpeed(thread.program->TakePart(), settings().host_speed_millionths));
    PostedDue(semaphore)->store(thread.program->due().nanoseconds());
  }
  LeaveCall();
}

void GuestChannel::GotOfFollower(const void* semaphore) {
  if (thread_state.program != nullptr && settings().host_time == HostTime::kMeasured)
    thread_state.program->RaiseDue(
        TimePoint::FromNanoseconds(PostedDue(semaphore)->load()), Duration());
}

// A gap that finds no room is not recorded. The keys of the next eight are others then.
void GuestChannel::SendFollowerGap() {
  const ProgramTime& program = *thread_state.program;
  const std::optional<protocol::HostGap> gap = thread_state.program->TakeGap();
  if (!gap.has_value())
    return;
  protocol::FollowerGaps& gaps = segment_->follower_gaps;
  uint64_t at = gaps.begun.load();
  do {
    if (at - gaps.taken.load() >= protocol::kFollowerGaps)
      return;
  } while (!gaps.begun.compare_exchange_weak(at, at + 1));
  protocol::FollowerGap& entry = gaps.entries[at % protocol::kFollowerGaps];
  entry.role = program.role();
  entry.anchor = gap->anchor;
  entry.end = program.anchor();
  entry.ns = gap->ns;
  entry.thread = program.thread();
  entry.number.store(at + 1, std::memory_order_release);
}

void GuestChannel::PayOwed() {
  ProgramTime* const program = thread_state.program;
  if (!FollowsClock())
    return;
  const TimePoint end = settings().host_time == HostTime::kMeasured
                            ? program->due()
                            : Peek() + Duration::Nanoseconds(program->TakeOwed());
  if (end - Peek() < Duration::Nanoseconds(ProgramTime::kLeastSleepNs))
    return;
  while (SleepAsFollower(this, end) == EINTR && !aborting()) {
  }
}

void GuestChannel::LeaveCall() {
  ThreadState& thread = thread_state;
  if (thread.calls == 1 && thread.inside == 0 && thread.program != nullptr) {
    if (thread.program->called())
      BeginGap();
    thread.program->Resume();
  }
  if (thread.calls > 0)  // not in the child of a fork from inside a call
    --thread.calls;
}

// A gap is known by what came before it, and passes where it begins: what it computes
// comes after whatever others do until its end. What depends on how it ends passes
// there.
void GuestChannel::BeginGap() {
  thread_state.program->BeginGap();
  if (settings().host_time != HostTime::kRecorded)
    return;
  const GapKeys keys = thread_state.program->PassAnchor();
  for (size_t depth = 0; depth < keys.keys.size(); ++depth) {
    if (const auto* const gap = FindGap(&segment_->gaps, keys.keys[depth])) {
      header_.gaps_found[depth].fetch_add(1, std::memory_order_relaxed);
      if (gap->rest_ns != protocol::RecordedGap::kEndsAlike)
        thread_state.program->KeepForEnd(gap);
      SpendGap(gap->ns);
      return;
    }
  }
  header_.gaps_found[keys.keys.size()].fetch_add(1, std::memory_order_relaxed);
}

void GuestChannel::SpendRest() {
  const protocol::RecordedGap* const gap = thread_state.program->TakeKept();
  if (gap == nullptr)
    return;
  const protocol::RecordedGap* const at_end =
      FindGap(&segment_->gaps, KeyOfEnd(gap->key, thread_state.program->anchor()));
  SpendGap(at_end != nullptr ? at_end->ns : gap->rest_ns);
}

void GuestChannel::SpendGap(int64_t ns) {
  if (thread_state.program->follows()) {
    if (settings().host_time == HostTime::kMeasured)
      thread_state.program->RaiseDue(Peek(), Duration::Nanoseconds(ns));
    else
      thread_state.program->Owe(ns);
    return;
  }
  if (ns <= 0 || !DrivesClock() || !owner_.load(std::memory_order_relaxed))
    return;
  InsideScope inside;
  LockGuard guard(&lock_);
  SpendForOthers();
  SpendProgram(ns);
}

void GuestChannel::SpendProgram(int64_t ns) {
  spent_ns_ += ns;
  unsent_gaps_ns_ += ns;
  header_.host_now_ns.fetch_add(ns, std::memory_order_relaxed);
  NoteStep();
}

// REQUIRES: lock_ held.
void GuestChannel::SendGapTime() {
  if (unsent_gaps_ns_ == 0)
    return;
  protocol::Record record{.kind = protocol::RecordKind::kHost};
  record.host_ns = std::exchange(unsent_gaps_ns_, 0);
  record.flags = settings().host_time == HostTime::kMeasured
                     ? protocol::kHostTimeMeasured
                     : protocol::kHostTimeRecorded;
  ring_.Write(&record, sizeof record, nullptr, 0, /*question=*/false);
}

// REQUIRES: lock_ held.
void GuestChannel::SendGaps() {
  ProgramTime* const program = thread_state.program;
  if (program != nullptr && program->unsent() != 0)
    SendBatch(program);
}

// REQUIRES: lock_ held.
void GuestChannel::SendBatch(ProgramTime* program) {
  const size_t bytes = program->unsent() * sizeof(protocol::HostGap);
  protocol::HostGaps batch = program->Send();
  ring_.Write(&batch.record, sizeof batch, program->gaps(), bytes, /*question=*/false);
}

// What the call that is under way is for. REQUIRES: lock_ held.
void GuestChannel::RefineCall(const protocol::Record& record) {
  using protocol::RecordKind;
  uint32_t name = 0;
  switch (record.kind) {
    case RecordKind::kKernel:
      name = reinterpret_cast<const protocol::Kernel&>(record).name;
      break;
    case RecordKind::kGemm:
      name = reinterpret_cast<const protocol::Gemm&>(record).name;
      break;
    default:
      return;
  }
  if (name < name_hashes_.size())
    thread_state.program->Refine(name_hashes_[name]);
}

// REQUIRES: lock_ held, the calling thread issues work.
void GuestChannel::FollowProgram() {
  if (!follows_program_)
    return;
  thread_state.program = new ProgramTime(settings(), ProgramTime::Of::kIssuer);
  SendBatch(thread_state.program);
}

void GuestChannel::ForgetProgram() {
  ProgramTime* const program = thread_state.program;
  if (program == nullptr)
    return;
  if (!detached() && !program->follows()) {
    InsideScope inside;
    LockGuard guard(&lock_);
    SendGaps();
  }
  thread_state.program = nullptr;
  delete program;
}

}  // namespace vrank::host
