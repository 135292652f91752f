// Events: tokens that programs hold, and questions about their ends.

#include "virtual_gpu/core/process_gpu.h"
#include "virtual_gpu/core/thread_state.h"

namespace vrank::gpu {
namespace {

// A thread that issues no work waits for what it has asked about this often: its clock
// stands, so that asking on would find the same for ever.
constexpr uint32_t kAsksOnAStandingClock = 64;
// Once so many other targets were not ready, nobody asks for the counted one any more.
constexpr uint32_t kPollsOfOthers = 1 << 16;

}  // namespace

Error ProcessGpu::CreateEvent(unsigned flags, void** event) {
  constexpr unsigned kKnown =
      kEventBlockingSync | kEventDisableTiming | kEventInterprocess;
  const bool is_shared = (flags & kEventInterprocess) != 0;
  if (event == nullptr || (flags & ~kKnown) != 0 ||
      (is_shared && (flags & kEventDisableTiming) == 0))
    return Error::kInvalidValue;
  Lock lock(mutex_);
  int device = 0;
  VRANK_RETURN_IF_FAILED(Begin(&device));
  channel_->Spend(HostCost::kCreate);
  *event = AddEvent(flags, device);
  return Error::kSuccess;
}

void* ProcessGpu::AddEvent(unsigned flags, int device) {
  auto made = std::make_unique<Event>();
  made->number = ++events_made_;
  made->flags = flags;
  made->device = device;
  return events_.Add(std::move(made));
}

Error ProcessGpu::DestroyEvent(void* event) {
  VRANK_RETURN_IF_FAILED(Ready());
  Lock lock(mutex_);
  std::unique_ptr<Event> gone = events_.Remove(event);
  if (gone == nullptr)
    return Error::kInvalidHandle;
  channel_->Spend(HostCost::kCreate);
  if (gone->token.id != 0)
    lanes_.GiveBackToken(gone->token);
  return Error::kSuccess;
}

Error ProcessGpu::RecordEvent(void* event, void* stream, bool external) {
  Lock lock(mutex_);
  Stream* on = nullptr;
  VRANK_RETURN_IF_FAILED(BeginBeside(stream, &on));
  Event* recorded = events_.Find(event);
  if (recorded == nullptr || recorded->device != on->device)
    return Error::kInvalidHandle;
  if (on->capture != nullptr) [[unlikely]]
    return graphs_.CaptureRecord(on, recorded, event, external);
  channel_->Spend(HostCost::kEventRecord);
  lanes_.Before(on);
  EmitRecord(on, recorded, 0);
  return Error::kSuccess;
}

void ProcessGpu::EmitRecord(Stream* on, Event* recorded, uint16_t flags) {
  if (recorded->token.id == 0) {
    // A token that was used before goes on counting its generations.
    recorded->token = lanes_.TakeToken();
  }
  recorded->recording = ++recordings_;
  if (activity_.listening()) [[unlikely]] {
    lanes_.Record(on, &recorded->token, flags | protocol::kTimed);
    NoteEventRecord(*on, recorded->number, recorded->recording);
  } else {
    lanes_.Record(on, &recorded->token, flags);
  }
  recorded->capture = 0;
  recorded->recorded = true;
  recorded->end_ns.reset();
  if (obligations_.empty())
    on->covers.clear();
  recorded->covers = on->covers;
}

Error ProcessGpu::SynchronizeEvent(void* event) {
  Lock lock(mutex_);
  int device = 0;
  VRANK_RETURN_IF_FAILED(Begin(&device));
  const Event* found = events_.Find(event);
  if (found == nullptr)
    return Error::kInvalidHandle;
  VRANK_RETURN_IF_FAILED(graphs_.CheckQuestion(*found));
  channel_->Spend(HostCost::kSynchronize);
  NoteWaitFor(*found);
  const ActivitySync sync = SyncOn(*found);
  if (!found->recorded) {
    if (activity_.listening()) [[unlikely]]
      NoteSync(sync);
    return Error::kSuccess;
  }
  const Token token = found->token;
  const ObligationSet covers = found->covers;
  lock.unlock();
  protocol::HostWait record{};
  record.record.kind = protocol::RecordKind::kHostWaitToken;
  record.target = token.id;
  record.slot = protocol::kNoSlot;
  const auto end = channel_->PublishedEnd(token.id, token.generation);
  if (end && *end <= channel_->Now()) {
    channel_->Emit(record);
  } else {
    const Answer answer = channel_->Ask(record);
    VRANK_RETURN_IF_FAILED(ResultOf(answer));
    lock.lock();
    Event* again = events_.Find(event);
    if (again != nullptr && again->token.generation == token.generation)
      again->end_ns = answer.end.nanoseconds();
    lock.unlock();
  }
  if (activity_.listening()) [[unlikely]]
    NoteQuestion(sync);
  obligations_.Settle(covers);
  lock.lock();
  TrimPools();
  return Error::kSuccess;
}

Answer ProcessGpu::Ask(const Question& question) {
  protocol::HostQuery record{};
  record.record.kind = protocol::RecordKind::kHostQuery;
  record.target_kind = question.kind;
  record.target = question.target;
  record.slot = protocol::kNoSlot;
  std::optional<TimePoint> end;
  if (question.end_ns)
    end = TimePoint::FromNanoseconds(*question.end_ns);
  else if (question.kind == protocol::QueryTarget::kToken)
    end = channel_->PublishedEnd(question.target, question.generation);
  if (!end)
    return channel_->Ask(record);
  Answer answer;
  answer.host = channel_->Now();
  answer.end = *end;
  answer.complete = *end <= answer.host;
  record.known_complete = answer.complete ? 1 : 0;
  channel_->Emit(record);
  return answer;
}

// Time stands still for a thread that issues no work until it waits. One that asks
// again and again instead (PyTorch's watchdog once its group is shut down) waits by
// this for what it asks for: it is found at its end, as by the last of many polls.
Answer ProcessGpu::AskOnStandingClock(const Question& question) {
  PollingTurn& turn = ThisThread().turn;
  const int64_t now = channel_->Now().nanoseconds();
  if (now != turn.clock_ns || turn.others >= kPollsOfOthers)
    turn = {.clock_ns = now};
  const bool counted = turn.misses > 0 && turn.target == question.target &&
                       turn.generation == question.generation;
  if (counted && turn.misses >= kAsksOnAStandingClock) {
    turn = {};
    protocol::HostWait record{};
    record.record.kind = question.kind == protocol::QueryTarget::kToken
                             ? protocol::RecordKind::kHostWaitToken
                             : protocol::RecordKind::kHostWaitLane;
    record.target = question.target;
    record.slot = protocol::kNoSlot;
    Answer answer = channel_->Ask(record);
    answer.complete = ResultOf(answer) == Error::kSuccess;
    return answer;
  }
  const Answer answer = Ask(question);
  if (answer.complete) {
    if (counted)
      turn.misses = 0;
  } else if (counted) {
    ++turn.misses;
  } else if (turn.misses > 0) {
    ++turn.others;
  } else {
    turn.target = question.target;
    turn.generation = question.generation;
    turn.misses = 1;
  }
  return answer;
}

// A query costs what a query costs, whatever it is for: a loop of them gets to the end
// by its own clock, and PyTorch's allocator, which asks about one event at every
// allocation, is not held up until that has happened.
Answer ProcessGpu::AskOnce(const Question& question) {
  const bool moves_the_clock =
      ThisThread().issues &&
      channel_->settings().host_costs_ns[static_cast<size_t>(HostCost::kQuery)] != 0;
  return moves_the_clock ? Ask(question) : AskOnStandingClock(question);
}

Error ProcessGpu::QueryEvent(void* event) {
  Lock lock(mutex_);
  int device = 0;
  VRANK_RETURN_IF_FAILED(Begin(&device));
  const Event* found = events_.Find(event);
  if (found == nullptr)
    return Error::kInvalidHandle;
  VRANK_RETURN_IF_FAILED(graphs_.CheckQuestion(*found));
  channel_->Spend(HostCost::kQuery);
  NoteWaitFor(*found);
  const ActivitySync sync = SyncOn(*found);
  if (!found->recorded) {
    if (activity_.listening()) [[unlikely]]
      NoteSync(sync);
    return Error::kSuccess;
  }
  const Question question{protocol::QueryTarget::kToken, found->token.id,
                          found->token.generation, found->end_ns};
  const ObligationSet covers = found->covers;
  lock.unlock();
  const Answer answer = AskOnce(question);
  if (activity_.listening()) [[unlikely]]
    NoteQuestion(sync);
  if (!answer.complete)
    return Error::kNotReady;
  lock.lock();
  Event* again = events_.Find(event);
  if (again != nullptr && again->token.generation == question.generation)
    again->end_ns = answer.end.nanoseconds();
  lock.unlock();
  obligations_.Settle(covers);
  return Error::kSuccess;
}

Error ProcessGpu::EventEnd(void* handle, Lock* lock, int64_t* end_ns) {
  Event* event = events_.Find(handle);
  if (event != nullptr && event->capture != 0)
    return Error::kCapturedEvent;
  if (event == nullptr || !event->recorded || (event->flags & kEventDisableTiming) != 0)
    return Error::kInvalidHandle;
  const Question question{protocol::QueryTarget::kToken, event->token.id,
                          event->token.generation, event->end_ns};
  lock->unlock();
  const Answer answer = Ask(question);
  lock->lock();
  if (!answer.complete)
    return Error::kNotReady;
  event = events_.Find(handle);
  if (event != nullptr && event->token.generation == question.generation)
    event->end_ns = answer.end.nanoseconds();
  *end_ns = answer.end.nanoseconds();
  return Error::kSuccess;
}

Error ProcessGpu::ElapsedNanoseconds(void* start, void* end, int64_t* elapsed) {
  Lock lock(mutex_);
  int device = 0;
  VRANK_RETURN_IF_FAILED(Begin(&device));
  channel_->Spend(HostCost::kAttribute);
  // CUDA C++ Programming Guide, "Stream and Event Behavior": "cudaEventElapsedTime()
  // will fail if the two input events are associated to different devices."
  const Event* const first = events_.Find(start);
  const Event* const last = events_.Find(end);
  if (first != nullptr && last != nullptr && first->device != last->device)
    return Error::kInvalidHandle;
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  VRANK_RETURN_IF_FAILED(EventEnd(start, &lock, &start_ns));
  VRANK_RETURN_IF_FAILED(EventEnd(end, &lock, &end_ns));
  *elapsed = end_ns - start_ns;
  return Error::kSuccess;
}

}  // namespace vrank::gpu
