// Questions, one per member; then what their answers make.

#include "virtual_nccl/core/meeting.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "base/guest/nccl_trace.h"
#include "virtual_nccl/core/creation_question.h"
#include "virtual_nccl/core/error.h"
#include "virtual_nccl/core/lifetime_log.h"
#include "virtual_nccl/core/unique_id.h"

namespace vrank::nccl {

namespace {

// One member's question. All members of a process have asked before it waits for the
// first answer.
struct Asked {
  uint32_t slot = protocol::kNoSlot;
  VirtualGpu::OwnToken token;
  Answer answer;
};

}  // namespace

// A member that has joined and did not wait.
struct PendingMeeting {
  Creation creation;
  Asked asked;
  // Polls that found the others missing, with no other call in between.
  uint32_t misses = 0;
  TimePoint last;  // the clock after the latest of them
};

namespace {

static_assert(protocol::kNoColor == NCCL_SPLIT_NOCOLOR);

// By NCCL's rule the parent's configuration decides for a split.
bool Blocks(const Creation& creation) {
  return IsInit(creation) ? creation.config.blocking : creation.parent->config.blocking;
}

// The emulator knows this number; tell it that nothing comes of it.
void Abandon(Library& library, uint32_t number) {
  protocol::CommRelease release{};
  release.record.kind = protocol::RecordKind::kCommRelease;
  release.communicator = number;
  release.release = protocol::ReleaseKind::kAbort;
  NcclTrace* const trace = FindNcclTrace();
  if (trace != nullptr)
    trace->BeginHostCall();
  library.channel().Ask(release);
  if (trace != nullptr)
    trace->EndRelease(release);
}

// The members have met, but this one cannot use what came of it. The program has the
// handle of an init, and none of a child. Returns `result`.
ncclResult_t GiveUp(Library& library, const Creation& creation,
                    Communicator* communicator, ncclResult_t result) {
  Abandon(library, creation.number);
  if (IsInit(creation))
    library.KeepFailed(communicator, result);
  else
    library.Retire(communicator);
  return result;
}

// What init and split have in common once the members have met.
ncclResult_t Complete(Library& library, const Creation& creation,
                      Communicator* communicator) {
  ncclResult_t result = library.ReserveMemory(communicator);
  if (result == ncclSuccess &&
      !library.gpu().OpenHolds(communicator->number, communicator->device,
                               communicator->ranks))
    result = Fail(ncclSystemError, "%s : %s", creation.function,
                  library.gpu().HoldFailure().c_str());
  if (result != ncclSuccess)
    return GiveUp(library, creation, communicator, result);
  communicator->set_state(CommunicatorState::kReady);
  return ncclSuccess;
}

ncclResult_t CompleteChild(Library& library, const Creation& creation, uint64_t value) {
  const auto ranks = static_cast<uint32_t>(value >> 32);
  const auto rank = static_cast<uint32_t>(value);
  const Communicator& parent = *creation.parent;
  if (creation.color == NCCL_SPLIT_NOCOLOR)
    return ncclSuccess;
  if (rank >= ranks)
    return Fail(ncclInternalError, "%s : rank %u of %u in color %d", creation.function,
                rank, ranks, creation.color);
  Communicator* child = library.Add(std::make_unique<Communicator>(
      creation.number, ranks, rank, parent.device,
      HashOfChild(parent.hash, creation.splits_before, creation.color),
      HashOfChild(parent.passed_hash, creation.splits_before, creation.color),
      creation.config));
  LogInit(library, creation, *child, "START");
  ncclResult_t result = Complete(library, creation, child);
  if (result == ncclSuccess) {
    *creation.out = child->handle();
    LogInit(library, creation, *child, "COMPLETE");
  }
  return result;
}

// The members have met.
ncclResult_t CompleteMember(Library& library, const Creation& creation,
                            uint64_t value) {
  if (library.channel().aborting()) {
    Abandon(library, creation.number);
    Discard(library, creation, ncclRemoteError);
    return library.FailRemotely(creation.function);
  }
  if (!IsInit(creation))
    return CompleteChild(library, creation, value);
  Communicator* const joined = creation.joining;
  if (value != 0) {
    GiveUp(library, creation, joined, ncclInvalidUsage);
    const bool is_played = (value & protocol::kTwinIsPlayed) != 0;
    return Fail(ncclInvalidUsage,
                "Duplicate GPU detected : rank %u and rank %u both on CUDA device %d%s",
                joined->rank, static_cast<uint32_t>(value) - 1, joined->device,
                is_played ? ". The other one is not real, and would do as this one: is "
                            "cudaSetDevice missing (torch.cuda.set_device)? Where each "
                            "rank has another GPU, --real with that rank, too, shows it"
                          : "");
  }
  ncclResult_t result = Complete(library, creation, joined);
  if (result == ncclSuccess)
    LogInit(library, creation, *joined, "COMPLETE");
  return result;
}

// `waits`: the caller will, right after the last one. Where streams are held the rank's
// other operations go on meanwhile, which a token asks for.
template <typename Question>
Asked AskForMember(Library& library, Question question, bool waits, bool is_last,
                   const void* tail = nullptr, size_t tail_bytes = 0) {
  const bool by_token = !waits || library.gpu().HoldsStreams();
  Asked asked;
  if (by_token)
    asked.token = library.gpu().TakeToken();
  question.token = asked.token.id;
  if (is_last && !by_token)
    asked.answer = library.channel().Ask(question, tail, tail_bytes);
  else
    asked.slot = library.channel().AskLater(question, tail, tail_bytes);
  return asked;
}

Asked AskForMember(Library& library, const Creation& creation, uint32_t local_members,
                   bool waits, bool is_last) {
  if (IsInit(creation))
    return AskForMember(library, InitQuestion(library, creation, local_members), waits,
                        is_last);
  return AskForMember(library, SplitQuestion(library, creation), waits, is_last,
                      creation.excluded.data(),
                      creation.excluded.size() * sizeof(uint32_t));
}

uint64_t AwaitAnswer(Library& library, const Asked& asked) {
  const Answer answer = asked.slot != protocol::kNoSlot
                            ? library.channel().Collect(asked.slot)
                            : asked.answer;
  if (asked.token.id != 0)
    library.gpu().GiveBackToken(asked.token);
  return answer.value;
}

// A process that a tracer watches has one member, which waits: a trace tells no more.
void TellTracer(Library& library, NcclTrace* trace, const Creation& creation,
                uint64_t value) {
  if (IsInit(creation))
    trace->EndInit(InitQuestion(library, creation, 1), creation.config.name.c_str());
  else
    trace->EndSplit(
        SplitQuestion(library, creation),
        creation.color != NCCL_SPLIT_NOCOLOR ? creation.config.name.c_str() : "",
        static_cast<uint32_t>(value >> 32), static_cast<uint32_t>(value));
}

ncclResult_t CheckMembers(Library& library, std::span<const Creation> members) {
  for (const Creation& creation : members) {
    if (IsInit(creation))
      LogInit(library, creation, *creation.joining, "START");
    else if (creation.parent->state() == CommunicatorState::kGone)
      return Fail(ncclInvalidUsage,
                  "%s : comm was destroyed before the end of the group",
                  creation.function);
  }
  if (!IsInit(members.front()))
    return ncclSuccess;
  if (FindNcclTrace() != nullptr &&
      (members.size() > 1 || members.front().joining->ranks > 1) &&
      library.HasOtherMember(*members.front().joining))
    return Fail(ncclInvalidUsage,
                "%s : several ranks of one communicator in one process cannot be "
                "traced; run one process per GPU (docs/nccl_compat.md)",
                members.front().function);
  if (const Communicator* twin = library.FindOnSameGpu(members); twin != nullptr)
    return Fail(ncclInvalidUsage,
                "Duplicate GPU detected : rank %u and another rank both on CUDA device "
                "%d",
                twin->rank, twin->device);
  return ncclSuccess;
}

void KeepPending(const Creation& creation, const Asked& asked) {
  Communicator* keeper = IsInit(creation) ? creation.joining : creation.parent;
  std::lock_guard lock(keeper->meetings_mutex);
  keeper->meetings.push_back(std::make_shared<PendingMeeting>(
      PendingMeeting{creation, asked, 0, TimePoint()}));
  keeper->in_progress.store(true, std::memory_order_release);
}

// The longest time between two polls of a loop that only yields, or reads the clock. By
// the default costs any call that issues work takes longer.
int64_t LongestPause(const protocol::Settings& settings) {
  const auto cost = [&](HostCost id) {
    return settings.host_costs_ns[static_cast<size_t>(id)];
  };
  return cost(HostCost::kYield) + 2 * cost(HostCost::kClockRead);
}

// One poll. A program that does nothing but poll is taken to the last poll that could
// find nothing, once it has made kPollsBeforeJump: jumping equals polling.
bool HasEnded(Library& library, PendingMeeting* meeting) {
  constexpr uint32_t kPollsBeforeJump = 64;
  Channel& channel = library.channel();
  protocol::HostQuery query{};
  query.record.kind = protocol::RecordKind::kHostQuery;
  query.target_kind = protocol::QueryTarget::kToken;
  query.target = meeting->asked.token.id;
  const int64_t pause_ns = (channel.Now() - meeting->last).nanoseconds();
  if (pause_ns > LongestPause(channel.settings()))
    meeting->misses = 0;
  const int64_t cycle_ns = std::max<int64_t>(
      pause_ns +
          channel.settings().host_costs_ns[static_cast<size_t>(HostCost::kQuery)],
      1);
  while (true) {
    channel.Spend(HostCost::kQuery);
    const bool only_polls = meeting->misses >= kPollsBeforeJump;
    query.record.flags = only_polls ? protocol::kAsksAgain : 0;
    const Answer answer = channel.Ask(query);
    if (answer.complete)
      return true;
    meeting->last = channel.Now();
    ++meeting->misses;
    const int64_t left_ns = (answer.end - meeting->last).nanoseconds();
    if (!only_polls || left_ns <= cycle_ns)
      return false;
    channel.Spend(Duration::Nanoseconds(left_ns / cycle_ns * cycle_ns));
    // A thread that issues no work cannot move the clock; it sleeps until others have.
    if (channel.Now() == meeting->last)
      std::this_thread::sleep_for(std::chrono::nanoseconds(left_ns));
  }
}

ncclResult_t FinishPending(Library& library, const PendingMeeting& pending) {
  return CompleteMember(library, pending.creation, AwaitAnswer(library, pending.asked));
}

}  // namespace

size_t CountTogether(std::span<const Creation> creations) {
  const Creation& first = creations.front();
  size_t count = 1;
  for (; count < creations.size(); ++count) {
    const Creation& next = creations[count];
    if (IsInit(next) != IsInit(first) || next.order != first.order)
      break;
    bool fits = true;
    for (const Creation& taken : creations.first(count))
      fits &= IsInit(next) ? next.joining->passed_hash == taken.joining->passed_hash &&
                                 next.joining->rank != taken.joining->rank &&
                                 next.joining->ranks == taken.joining->ranks
                           : next.parent != taken.parent &&
                                 next.splits_before == taken.splits_before;
    if (!fits)
      break;
  }
  return count;
}

ncclResult_t Meet(Library& library, std::span<const Creation> members) {
  if (ncclResult_t result = CheckMembers(library, members); result != ncclSuccess) {
    for (const Creation& creation : members)
      Discard(library, creation, result);
    return result;
  }
  NcclTrace* const trace = FindNcclTrace();
  const bool waits = trace != nullptr || Blocks(members.front());
  const auto count = static_cast<uint32_t>(members.size());
  std::vector<Asked> asked;
  library.gpu().CountHostTime();
  if (trace != nullptr)
    trace->BeginHostCall();
  for (const Creation& creation : members) {
    asked.push_back(
        AskForMember(library, creation, count, waits, &creation == &members.back()));
    if (!waits)
      KeepPending(creation, asked.back());
  }
  if (!waits)
    return ncclInProgress;
  ncclResult_t result = ncclSuccess;
  for (size_t i = 0; i < members.size(); ++i) {
    const uint64_t value = AwaitAnswer(library, asked[i]);
    if (trace != nullptr)
      TellTracer(library, trace, members[i], value);
    ncclResult_t own = CompleteMember(library, members[i], value);
    if (result == ncclSuccess)
      result = own;
  }
  return result;
}

ncclResult_t MeetOnly(Library& library, std::span<Communicator* const> members,
                      const char* function) {
  std::vector<Asked> asked;
  library.gpu().CountHostTime();
  for (Communicator* member : members) {
    protocol::CommSplit question{};
    question.record.kind = protocol::RecordKind::kCommSplit;
    question.parent = member->number;
    question.communicator = library.NextNumber();
    question.color = protocol::kNoColor;
    asked.push_back(AskForMember(library, question, true, member == members.back()));
  }
  for (const Asked& each : asked)
    AwaitAnswer(library, each);
  return library.channel().aborting() ? library.FailRemotely(function) : ncclSuccess;
}

void Discard(Library& library, const Creation& creation, ncclResult_t failure) {
  if (IsInit(creation))
    library.KeepFailed(creation.joining, failure);
}

ncclResult_t PollMeetings(Library& library, Communicator* communicator) {
  if (!communicator->in_progress.load(std::memory_order_acquire))
    return communicator->failure.load(std::memory_order_acquire);
  std::lock_guard lock(communicator->meetings_mutex);
  auto& meetings = communicator->meetings;
  while (!meetings.empty()) {
    if (!library.channel().aborting() && !HasEnded(library, meetings.front().get()))
      return ncclInProgress;
    const std::shared_ptr<PendingMeeting> pending = meetings.front();
    meetings.erase(meetings.begin());
    const ncclResult_t own = FinishPending(library, *pending);
    ncclResult_t none = ncclSuccess;
    communicator->failure.compare_exchange_strong(none, own);
  }
  communicator->in_progress.store(false, std::memory_order_release);
  return communicator->failure.load(std::memory_order_acquire);
}

void AbandonMeeting(Library& library, Communicator* communicator) {
  Abandon(library, communicator->number);
  std::lock_guard lock(communicator->meetings_mutex);
  for (const auto& pending : std::exchange(communicator->meetings, {}))
    AwaitAnswer(library, pending->asked);
  communicator->in_progress.store(false, std::memory_order_release);
}

ncclResult_t FindReadyCommunicator(Library& library, ncclComm_t handle,
                                   const char* function, Communicator** found,
                                   bool may_be_finalized) {
  if (ncclResult_t result = FindCommunicator(handle, function, found);
      result != ncclSuccess)
    return result;
  if (ncclResult_t result = PollMeetings(library, *found); result == ncclInProgress)
    return Fail(ncclInvalidArgument,
                "%s : attempt to use communicator before the previous operation "
                "returned ncclSuccess",
                function);
  else if (result != ncclSuccess)
    return Fail(result, "%s : comm is used after %s has failed; abort it", function,
                (*found)->state() == CommunicatorState::kFailed
                    ? "its initialization"
                    : "a call of it, a split or a shrink");
  switch ((*found)->state()) {
    case CommunicatorState::kReady:
    case CommunicatorState::kRevoked:
      return ncclSuccess;
    case CommunicatorState::kJoining:
      return Fail(ncclInvalidArgument,
                  "%s : comm is used before its initialization has ended", function);
    case CommunicatorState::kFinalized:
      if (may_be_finalized)
        return ncclSuccess;
      [[fallthrough]];
    default:
      return Fail(ncclInvalidArgument, "%s : comm is used after it was finalized",
                  function);
  }
}

}  // namespace vrank::nccl
