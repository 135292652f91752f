// Finalize, destroy, abort: one question each, answered when the program may go on.

#include "virtual_nccl/core/release.h"

#include <atomic>
#include <cstdio>
#include <mutex>
#include <utility>

#include "base/guest/nccl_trace.h"
#include "virtual_nccl/core/error.h"
#include "virtual_nccl/core/lifetime_log.h"
#include "virtual_nccl/core/meeting.h"
#include "virtual_nccl/core/payload.h"

namespace vrank::nccl {
namespace {

void Tell(Library& library, const Communicator& communicator,
          protocol::ReleaseKind kind) {
  DepositOwnParts(library);
  protocol::CommRelease question{};
  question.record.kind = protocol::RecordKind::kCommRelease;
  question.communicator = communicator.number;
  question.release = kind;
  question.captured = communicator.CapturedOperations();
  library.gpu().EndHolds(communicator.number, kind);
  NcclTrace* const trace = FindNcclTrace();
  if (trace != nullptr)
    trace->BeginHostCall();
  library.channel().Ask(question);
  // One that is traced has no member that fails.
  if (kind == protocol::ReleaseKind::kStop)
    question.release = protocol::ReleaseKind::kFinalize;
  if (trace != nullptr)
    trace->EndRelease(question);
}

// A watchdog polls: the text is left once, for ncclGetLastError and NCCL_DEBUG.
ncclResult_t NoteRemoteFailure(Library& library, Communicator* communicator) {
  static std::atomic<bool> noted = false;
  std::atomic<bool>& once =
      library.channel().aborting() ? noted : communicator->noted_broken;
  if (!once.exchange(true))
    library.FailRemotely("ncclCommGetAsyncError", communicator);
  return ncclRemoteError;
}

ncclResult_t End(Library& library, ncclComm_t handle, const char* function,
                 protocol::ReleaseKind kind) {
  if (handle == nullptr)
    return ncclSuccess;
  Communicator* communicator = nullptr;
  if (ncclResult_t result = FindCommunicator(handle, function, &communicator);
      result != ncclSuccess)
    return result;
  const bool aborts = kind == protocol::ReleaseKind::kAbort;
  if (aborts)
    LogEnd(*communicator, "nRanks", "Abort START");
  const bool progresses = PollMeetings(library, communicator) == ncclInProgress;
  if (progresses && aborts)
    AbandonMeeting(library, communicator);
  else if (progresses || communicator->state() == CommunicatorState::kJoining)
    return Fail(ncclInvalidArgument,
                "%s : comm is used before its initialization has ended", function);
  const bool failed = communicator->state() == CommunicatorState::kFailed;
  // NCCL lets a failed one go that nobody polls.
  if (failed && !aborts && !communicator->config.blocking)
    return Fail(communicator->failure.load(),
                "%s : comm is used after its initialization has failed; abort it",
                function);
  if (!failed && communicator->state() != CommunicatorState::kJoining)
    Tell(library, *communicator, kind);
  LogEnd(*communicator, "nranks", aborts ? "Abort COMPLETE" : "Destroy COMPLETE");
  library.Retire(communicator);
  return ncclSuccess;
}

}  // namespace

ncclResult_t Finalize(Library& library, ncclComm_t handle) {
  if (handle == nullptr)
    return ncclSuccess;
  Communicator* communicator = nullptr;
  if (ncclResult_t result =
          FindReadyCommunicator(library, handle, "ncclCommFinalize", &communicator);
      result != ncclSuccess)
    return result;
  if (communicator->state() == CommunicatorState::kRevoked)
    return Fail(ncclInvalidArgument, "ncclCommFinalize : comm was revoked");
  communicator->set_state(CommunicatorState::kFinalized);
  Tell(library, *communicator, protocol::ReleaseKind::kFinalize);
  return library.channel().aborting() ? library.FailRemotely("ncclCommFinalize")
                                      : ncclSuccess;
}

ncclResult_t Destroy(Library& library, ncclComm_t handle) {
  return End(library, handle, "ncclCommDestroy", protocol::ReleaseKind::kDestroy);
}

ncclResult_t Abort(Library& library, ncclComm_t handle) {
  return End(library, handle, "ncclCommAbort", protocol::ReleaseKind::kAbort);
}

ncclResult_t StopWork(Library& library, Communicator* communicator,
                      const char* function) {
  Tell(library, *communicator, protocol::ReleaseKind::kStop);
  return library.channel().aborting() ? library.FailRemotely(function) : ncclSuccess;
}

ncclResult_t Revoke(Library& library, ncclComm_t handle, int flags) {
  constexpr char kFunction[] = "ncclCommRevoke";
  if (handle == nullptr)
    return ncclSuccess;
  if (flags != NCCL_REVOKE_DEFAULT)
    return Fail(ncclInvalidArgument, "%s : flags are %d", kFunction, flags);
  Communicator* communicator = nullptr;
  if (ncclResult_t result =
          FindReadyCommunicator(library, handle, kFunction, &communicator);
      result != ncclSuccess)
    return result;
  if (communicator->state() == CommunicatorState::kRevoked)
    return Fail(ncclInvalidArgument, "%s : comm was revoked before", kFunction);
  LogEnd(*communicator, "nRanks", "Revoke START");
  communicator->set_state(CommunicatorState::kRevoked);
  const ncclResult_t result = StopWork(library, communicator, kFunction);
  char end[48];
  snprintf(end, sizeof end, "Revoke COMPLETE, result %d", result);
  LogEnd(*communicator, "nRanks", end);
  return result;
}

ncclResult_t Suspend(Library& library, ncclComm_t handle, int flags) {
  constexpr char kFunction[] = "ncclCommSuspend";
  constexpr int kMemory = 1;  // NCCL_SUSPEND_MEM
  Communicator* communicator = nullptr;
  if (ncclResult_t result =
          FindReadyCommunicator(library, handle, kFunction, &communicator);
      result != ncclSuccess)
    return result;
  if (flags != kMemory)
    return Fail(ncclInvalidArgument, "%s : flags are %d, not NCCL_SUSPEND_MEM",
                kFunction, flags);
  {
    std::lock_guard lock(communicator->mutex);
    if (std::exchange(communicator->suspended, true))
      return Fail(ncclInvalidUsage, "%s : comm is suspended already", kFunction);
  }
  library.GiveMemoryBack(communicator);
  return ncclSuccess;
}

ncclResult_t Resume(Library& library, ncclComm_t handle) {
  constexpr char kFunction[] = "ncclCommResume";
  Communicator* communicator = nullptr;
  if (ncclResult_t result =
          FindReadyCommunicator(library, handle, kFunction, &communicator);
      result != ncclSuccess)
    return result;
  if (!IsSuspended(communicator))
    return Fail(ncclInvalidUsage, "%s : comm is not suspended", kFunction);
  if (ncclResult_t result = library.ReserveMemory(communicator); result != ncclSuccess)
    return result;
  std::lock_guard lock(communicator->mutex);
  communicator->suspended = false;
  return ncclSuccess;
}

ncclResult_t MemoryStatistic(Library& library, ncclComm_t handle, int statistic,
                             uint64_t* value) {
  constexpr char kFunction[] = "ncclCommMemStats";
  // ncclCommMemStat_t.
  enum { kSuspendable = 0, kSuspended = 1, kPersistent = 2, kTotal = 3 };
  Communicator* communicator = nullptr;
  ncclResult_t result =
      FindReadyCommunicator(library, handle, kFunction, &communicator);
  if (result == ncclSuccess)
    result = RequirePointer(value, kFunction, "value");
  if (result != ncclSuccess)
    return result;
  switch (statistic) {
    case kSuspendable:
    case kTotal:
      *value = library.ReservedBytes(communicator);
      return ncclSuccess;
    case kPersistent:
      *value = 0;
      return ncclSuccess;
    case kSuspended:
      *value = IsSuspended(communicator) ? 1 : 0;
      return ncclSuccess;
    default:
      return Fail(ncclInvalidArgument, "%s : unknown statistic %d", kFunction,
                  statistic);
  }
}

ncclResult_t CommunicatorHealth(Library& library, ncclComm_t handle,
                                ncclResult_t* health) {
  constexpr char kFunction[] = "ncclCommGetAsyncError";
  Communicator* communicator = nullptr;
  if (ncclResult_t result = FindCommunicator(handle, kFunction, &communicator);
      result != ncclSuccess)
    return result;
  if (ncclResult_t result = RequirePointer(health, kFunction, "asyncError");
      result != ncclSuccess)
    return result;
  const ncclResult_t meetings = PollMeetings(library, communicator);
  if (library.HasLostMember(*communicator))
    *health = NoteRemoteFailure(library, communicator);
  else if (meetings != ncclSuccess)
    *health = meetings;
  else if (communicator->state() == CommunicatorState::kJoining)
    *health = ncclInProgress;
  else if (!library.gpu().HoldFailure().empty())
    *health = ncclSystemError;
  else
    *health = ncclSuccess;
  return ncclSuccess;
}

}  // namespace vrank::nccl
