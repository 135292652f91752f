// Group scope, and the step from a checked call to a group's member.

#include "virtual_nccl/core/group.h"

#include <algorithm>
#include <span>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "virtual_nccl/core/arguments.h"
#include "virtual_nccl/core/buffers.h"
#include "virtual_nccl/core/debug_log.h"
#include "virtual_nccl/core/error.h"
#include "virtual_nccl/core/estimate.h"
#include "virtual_nccl/core/launcher.h"
#include "virtual_nccl/core/meeting.h"

namespace vrank::nccl {
namespace {

// For errors of cudaError_t that a launch on a stream has.
const char* WhyNoLaunch(int error) {
  switch (error) {
    case cudaErrorInvalidResourceHandle:
      return "CUDA error 400: it is no stream of this process";
    case cudaErrorIllegalAddress:
      return "CUDA error 700: an earlier kernel has used memory that it may not";
    case cudaErrorStreamCaptureInvalidated:
      return "CUDA error 901: its capture was invalidated by an earlier call";
    case cudaErrorStreamCaptureImplicit:
      return "CUDA error 906: it would depend on a stream that is captured";
    default:
      return "CUDA takes no launch on it";
  }
}

// NCCL launches on the communicator's device, whatever the caller's is; a stream of
// another one fails there.
ncclResult_t FindStream(Library& library, const Request& request, Call* call) {
  void* handle = request.stream;
  int error = 0;
  if (!library.gpu().FindStream(handle, call->communicator->device, &call->stream,
                                &error))
    return Fail(ncclUnhandledCudaError, "%s : stream %p : %s", request.function, handle,
                WhyNoLaunch(error));
  if (call->stream.device != call->communicator->device)
    return Fail(ncclUnhandledCudaError,
                "%s : stream %p belongs to device %d, the communicator to device %d",
                request.function, handle, call->stream.device,
                call->communicator->device);
  return ncclSuccess;
}

// NCCL writes it once the arguments are known to be right, with the receive buffer for
// both buffers of a transfer.
void LogCall(const Request& request, const Communicator& communicator) {
  if (!IsLogged(Subsystem::kColl))
    return;
  constexpr size_t kPrefix = sizeof "nccl" - 1;
  const bool transfer = request.kind != Request::kCollective;
  LogInfo(Subsystem::kColl, communicator.device,
          "%s: opCount %x sendbuff %p recvbuff %p count %zu datatype %d op %d root %d "
          "comm %p [nranks=%u] stream %p",
          request.function + kPrefix, communicator.collectives,
          transfer ? nullptr : request.send,
          request.kind == Request::kSend ? request.send : request.receive,
          request.count, request.type, request.reduction, request.root,
          static_cast<const void*>(&communicator), communicator.ranks,
          static_cast<void*>(request.stream));
}

ncclResult_t CheckAndAdd(Library& library, Group& group, const Request& request,
                         Communicator* communicator) {
  Channel& channel = library.channel();
  Call call{};
  bool dropped = false;
  if (ncclResult_t result = CheckArguments(request, channel.settings().gpu,
                                           communicator, &call, &dropped);
      result != ncclSuccess)
    return result;
  if (PointersAreChecked())
    if (ncclResult_t result = CheckPointers(library, request, *communicator);
        result != ncclSuccess)
      return result;
  LogCall(request, *communicator);
  if (dropped)
    return ncclSuccess;
  if (ncclResult_t result = FindStream(library, request, &call); result != ncclSuccess)
    return result;
  call.capture = library.gpu().CaptureOf(call.stream);
  channel.Spend(HostCost::kCollective);
  return group.Add(call);
}

// What NCCL finds wrong with a communicator's calls only at the end of their group.
ncclResult_t CheckCalls(std::span<const Call* const> calls) {
  Communicator* const communicator = calls.front()->communicator;
  if (communicator->state() == CommunicatorState::kGone)
    return Fail(ncclInvalidUsage,
                "%s : its communicator was destroyed before the end of the group",
                calls.front()->function);
  const Call* self = nullptr;
  size_t sends = 0, receives = 0;  // to and from the rank itself
  for (const Call* call : calls) {
    if (call->IsCollective() || call->root != communicator->rank)
      continue;
    self = call;
    ++(call->kind == Request::kSend ? sends : receives);
  }
  if (sends != receives)
    return Fail(ncclInvalidUsage,
                "%s : rank %u %s itself without a matching %s in the same group",
                self->function, self->root,
                sends > receives ? "sends to" : "receives from",
                sends > receives ? "ncclRecv" : "ncclSend");
  return ncclSuccess;
}

}  // namespace

ncclResult_t Enqueue(Library& library, Group& group, const Request& request) {
  Communicator* communicator = nullptr;
  if (ncclResult_t result = FindReadyCommunicator(library, request.communicator,
                                                  request.function, &communicator);
      result != ncclSuccess)
    return group.Note(result);
  if (communicator->state() == CommunicatorState::kRevoked)
    return group.Note(
        Fail(ncclInvalidUsage, "%s: communicator was revoked", request.function));
  if (library.HasLostMember(*communicator))
    return group.Note(library.FailRemotely(request.function, communicator));
  if (IsSuspended(communicator))
    return group.Note(Fail(ncclInvalidUsage,
                           "%s : communicator is suspended; call ncclCommResume first",
                           request.function));
  group.Start();
  ncclResult_t result = group.Note(CheckAndAdd(library, group, request, communicator));
  if (result != ncclSuccess && !communicator->config.blocking) {
    ncclResult_t none = ncclSuccess;
    communicator->failure.compare_exchange_strong(none, result);
  }
  ncclResult_t end = group.End(library);
  return result != ncclSuccess ? result : end;
}

ncclResult_t Group::Note(ncclResult_t result) {
  if (depth_ > 0 && failure_ == ncclSuccess)
    failure_ = result;
  return result;
}

ncclResult_t Group::NoteBlocking(const Config& config) {
  const Blocking own = config.blocking ? Blocking::kYes : Blocking::kNo;
  if (blocking_ != Blocking::kUnknown && blocking_ != own)
    return Fail(ncclInvalidArgument,
                "Blocking and nonblocking communicators are not allowed in the same "
                "group.");
  blocking_ = own;
  return ncclSuccess;
}

ncclResult_t Group::Add(const Call& call) {
  if (ncclResult_t result = NoteBlocking(call.communicator->config);
      result != ncclSuccess)
    return result;
  const auto before = std::find_if(
      calls_.rbegin(), calls_.rend(),
      [&](const Call& other) { return other.communicator == call.communicator; });
  if (before != calls_.rend() && before->capture != call.capture)
    return Fail(ncclInvalidUsage,
                "%s : streams given to a communicator within a NCCL group must either "
                "be all uncaptured or all captured by the same graph",
                call.function);
  calls_.push_back(call);
  return ncclSuccess;
}

ncclResult_t Group::Add(Creation creation) {
  ncclResult_t result = NoteBlocking(
      creation.parent != nullptr ? creation.parent->config : creation.config);
  if (result == ncclSuccess)
    creations_.push_back(std::move(creation));
  return result;
}

ncclResult_t Group::AddWindow(Communicator* communicator) {
  ncclResult_t result = NoteBlocking(communicator->config);
  if (result == ncclSuccess)
    windows_.push_back(communicator);
  return result;
}

ncclResult_t Group::End(Library& library) {
  if (depth_ == 0)
    return Fail(ncclInvalidUsage, "ncclGroupEnd: not in a group call.");
  if (--depth_ > 0)
    return ncclSuccess;
  return Finish(library, Purpose::kLaunch, nullptr);
}

ncclResult_t Group::SimulateEnd(Library& library, float* microseconds) {
  if (depth_ == 0)
    return Fail(ncclInvalidUsage, "ncclGroupEnd: not in a group call.");
  if (--depth_ > 0)
    return ncclSuccess;
  return Finish(library, Purpose::kSimulate, microseconds);
}

ncclResult_t Group::Finish(Library& library, Purpose purpose, float* microseconds) {
  ncclResult_t result = std::exchange(failure_, ncclSuccess);
  blocking_ = Blocking::kUnknown;
  const std::vector<std::vector<const Call*>> calls = CallsByCommunicator();
  for (const auto& of_communicator : calls) {
    if (result == ncclSuccess)
      result = CheckCalls(of_communicator);
  }
  if (!creations_.empty()) {
    ncclResult_t made = MakeCommunicators(library, result);
    if (result == ncclSuccess)
      result = made;
  }
  const bool goes_on = result == ncclSuccess || result == ncclInProgress;
  if (!windows_.empty()) {
    ncclResult_t met = goes_on ? MeetForWindows(library) : ncclSuccess;
    windows_.clear();
    if (result == ncclSuccess)
      result = met;
  }
  for (const auto& of_communicator : calls) {
    if (!goes_on)
      break;
    if (purpose == Purpose::kLaunch)
      Launch(library, of_communicator);
    else
      *microseconds =
          std::max(*microseconds, EstimateMicroseconds(library, of_communicator));
  }
  calls_.clear();
  if (goes_on && !calls.empty() && library.gpu().HoldsStreams()) {
    const std::string failure = library.gpu().HoldFailure();
    if (!failure.empty())
      return Fail(ncclSystemError, "%s : %s", calls.front().front()->function,
                  failure.c_str());
  }
  return result;
}

ncclResult_t Group::MakeCommunicators(Library& library, ncclResult_t failure) {
  std::vector<Creation> creations = std::exchange(creations_, {});
  const auto place = [](const Creation& creation) {
    const Communicator& known =
        creation.parent != nullptr ? *creation.parent : *creation.joining;
    return std::tuple(creation.order, known.passed_hash, creation.splits_before);
  };
  std::stable_sort(
      creations.begin(), creations.end(),
      [&](const Creation& a, const Creation& b) { return place(a) < place(b); });
  ncclResult_t result = ncclSuccess;
  for (std::span<const Creation> left = creations; !left.empty();) {
    const size_t together = CountTogether(left);
    if (failure != ncclSuccess) {
      Discard(library, left.front(), failure);
      left = left.subspan(1);
      continue;
    }
    ncclResult_t met = Meet(library, left.first(together));
    if (result == ncclSuccess)
      result = met;
    left = left.subspan(together);
  }
  return result;
}

// Each member's k-th window of the group is registered with the k-th of the others.
ncclResult_t Group::MeetForWindows(Library& library) {
  ncclResult_t result = ncclSuccess;
  while (!windows_.empty() && result == ncclSuccess) {
    std::vector<Communicator*> together, later;
    const uint64_t hash = windows_.front()->hash;
    for (Communicator* each : windows_) {
      const bool fits =
          each->hash == hash &&
          std::find(together.begin(), together.end(), each) == together.end();
      (fits ? together : later).push_back(each);
    }
    result = MeetOnly(library, together, "ncclCommWindowRegister");
    windows_ = std::move(later);
  }
  return result;
}

std::vector<std::vector<const Call*>> Group::CallsByCommunicator() const {
  std::vector<std::vector<const Call*>> grouped;
  std::unordered_map<const Communicator*, size_t> places;
  const Communicator* last = nullptr;
  size_t place = 0;
  for (const Call& call : calls_) {
    if (call.communicator != last) {
      last = call.communicator;
      place = places.emplace(last, grouped.size()).first->second;
      if (place == grouped.size())
        grouped.emplace_back();
    }
    grouped[place].push_back(&call);
  }
  const auto order = [](const std::vector<const Call*>& calls) {
    const Communicator& communicator = *calls.front()->communicator;
    return std::pair(communicator.hash, communicator.passed_hash);
  };
  std::stable_sort(grouped.begin(), grouped.end(),
                   [&](const auto& a, const auto& b) { return order(a) < order(b); });
  return grouped;
}

}  // namespace vrank::nccl
