// Group scope, and the step from a checked call to a group's member.

#include "virtual_nccl/core/group.h"

#include <algorithm>
#include <utility>

#include "virtual_nccl/core/arguments.h"
#include "virtual_nccl/core/error.h"
#include "virtual_nccl/core/launcher.h"

namespace vrank::nccl {
namespace {

// NCCL launches on the communicator's device; a stream of another one fails there.
ncclResult_t FindStream(Library& library, const Request& request, Call* call) {
  void* handle = request.stream;
  if (!library.gpu().FindStream(handle, &call->stream))
    return Fail(ncclUnhandledCudaError, "%s : stream %p is no stream of this process",
                request.function, handle);
  if (call->stream.device != call->communicator->device)
    return Fail(ncclUnhandledCudaError,
                "%s : stream %p belongs to device %d, the communicator to device %d",
                request.function, handle, call->stream.device,
                call->communicator->device);
  return ncclSuccess;
}

ncclResult_t CheckAndAdd(Library& library, Group& group, const Request& request,
                         Communicator* communicator) {
  Channel& channel = library.channel();
  Call call{};
  bool dropped = false;
  if (ncclResult_t result = CheckArguments(request, channel.settings().gpu,
                                           communicator, &call, &dropped);
      result != ncclSuccess || dropped)
    return result;
  if (ncclResult_t result = FindStream(library, request, &call); result != ncclSuccess)
    return result;
  call.capture = library.gpu().CaptureOf(call.stream);
  channel.Spend(HostCost::kCollective);
  group.Add(call);
  return ncclSuccess;
}

}  // namespace

ncclResult_t Enqueue(Library& library, Group& group, const Request& request) {
  Communicator* communicator = nullptr;
  if (ncclResult_t result =
          FindReadyCommunicator(request.communicator, request.function, &communicator);
      result != ncclSuccess)
    return group.Note(result);
  group.Start();
  ncclResult_t result = group.Note(CheckAndAdd(library, group, request, communicator));
  ncclResult_t end = group.End(library);
  return result != ncclSuccess ? result : end;
}

ncclResult_t Group::Note(ncclResult_t result) {
  if (depth_ > 0 && failure_ == ncclSuccess)
    failure_ = result;
  return result;
}

ncclResult_t Group::End(Library& library) {
  if (depth_ == 0)
    return Fail(ncclInvalidUsage, "ncclGroupEnd: not in a group call.");
  if (--depth_ > 0)
    return ncclSuccess;
  return Finish(library);
}

ncclResult_t Group::EndWithout(Library& library, ncclResult_t result) {
  if (depth_ == 0)
    return result;
  Note(result);
  if (--depth_ == 0)
    Finish(library);
  return result;
}

ncclResult_t Group::Finish(Library& library) {
  ncclResult_t result = std::exchange(failure_, ncclSuccess);
  if (result == ncclSuccess)
    result = CheckCalls();
  std::vector<Creation> creations = std::exchange(creations_, {});
  std::stable_sort(
      creations.begin(), creations.end(),
      [](const Creation& a, const Creation& b) { return a.order < b.order; });
  bool discard = result != ncclSuccess;
  for (const Creation& creation : creations) {
    if (discard) {
      Discard(library, creation);
      continue;
    }
    ncclResult_t created = Create(library, creation);
    if (result == ncclSuccess)
      result = created;
  }
  if (result == ncclSuccess)
    LaunchCalls(library);
  calls_.clear();
  return result;
}

ncclResult_t Group::CheckCalls() const {
  for (const Call& call : calls_) {
    if (call.communicator->state() == CommunicatorState::kGone)
      return Fail(ncclInvalidUsage,
                  "%s : its communicator was destroyed before the end of the group",
                  call.function);
    const bool one_graph =
        std::all_of(calls_.begin(), calls_.end(), [&](const Call& other) {
          return other.communicator != call.communicator ||
                 other.capture == call.capture;
        });
    if (!one_graph)
      return Fail(
          ncclInvalidUsage,
          "%s : streams given to a communicator within a NCCL group must either "
          "be all uncaptured or all captured by the same graph",
          call.function);
    if (call.IsCollective() || call.root != call.communicator->rank)
      continue;
    auto same = [&](const Call& other, Request::Kind kind) {
      return other.kind == kind && other.communicator == call.communicator &&
             other.root == call.root;
    };
    auto sends = std::count_if(calls_.begin(), calls_.end(), [&](const Call& other) {
      return same(other, Request::kSend);
    });
    auto receives = std::count_if(calls_.begin(), calls_.end(), [&](const Call& other) {
      return same(other, Request::kReceive);
    });
    if (sends != receives)
      return Fail(ncclInvalidUsage,
                  "%s : rank %u %s itself without a matching %s in the same group",
                  call.function, call.root,
                  sends > receives ? "sends to" : "receives from",
                  sends > receives ? "ncclRecv" : "ncclSend");
  }
  return ncclSuccess;
}

void Group::LaunchCalls(Library& library) const {
  std::vector<const Call*> of_communicator;
  of_communicator.reserve(calls_.size());
  for (auto first = calls_.begin(); first != calls_.end(); ++first) {
    auto same = [&](const Call& call) {
      return call.communicator == first->communicator;
    };
    if (std::any_of(calls_.begin(), first, same))
      continue;  // launched with an earlier call
    of_communicator.clear();
    for (auto call = first; call != calls_.end(); ++call)
      if (same(*call))
        of_communicator.push_back(&*call);
    Launch(library, of_communicator);
  }
}

}  // namespace vrank::nccl
