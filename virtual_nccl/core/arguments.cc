// The checks of NCCL 2.28.9: ArgsCheck (src/misc/argcheck.cc), then what follows once a
// call is known not to be empty (src/enqueue.cc, taskAppend).

#include "virtual_nccl/core/arguments.h"

#include "virtual_nccl/core/error.h"

namespace vrank::nccl {
namespace {

using protocol::Reduction;

static_assert(static_cast<int>(Reduction::kAvg) == ncclAvg);
static_assert(static_cast<int>(protocol::ElementType::kFloat8E5M2) == ncclFloat8e5m2);

bool IsFloat8(int type) {
  return type == ncclFloat8e4m3 || type == ncclFloat8e5m2;
}

ncclResult_t CheckPlain(const Request& request, const Communicator& communicator) {
  if (request.root < 0 || request.root >= static_cast<int>(communicator.ranks))
    return Fail(ncclInvalidArgument,
                "%s : invalid root %d (root should be in the 0..%u range)",
                request.function, request.root, communicator.ranks - 1);
  if (request.type < 0 || request.type >= ncclNumTypes)
    return Fail(ncclInvalidArgument, "%s : invalid type %d", request.function,
                request.type);
  if (request.reduction < 0)
    return Fail(ncclInvalidArgument, "%s : invalid reduction operation %d",
                request.function, request.reduction);
  return ncclSuccess;
}

// What a user reduction is; of type ncclNumTypes for the built-in ones, which take
// every type.
ncclResult_t FindMultiplier(const Request& request, Communicator* communicator,
                            UserReduction* multiplier) {
  multiplier->type = ncclNumTypes;
  if (request.reduction < ncclNumOps)
    return ncclSuccess;
  std::lock_guard lock(communicator->mutex);
  const UserReduction* found = FindReduction(*communicator, request.reduction);
  if (found == nullptr)
    return Fail(ncclInvalidArgument,
                "%s : reduction operation %d unknown to this communicator",
                request.function, request.reduction);
  *multiplier = *found;
  return ncclSuccess;
}

}  // namespace

ncclResult_t CheckArguments(const Request& request, const protocol::GpuProperties& gpu,
                            Communicator* communicator, Call* call, bool* dropped) {
  if (ncclResult_t result = CheckPlain(request, *communicator); result != ncclSuccess)
    return result;
  UserReduction multiplier{};
  if (ncclResult_t result = FindMultiplier(request, communicator, &multiplier);
      result != ncclSuccess)
    return result;
  *dropped = request.kind == Request::kCollective && request.count == 0;
  if (*dropped)
    return ncclSuccess;
  if (request.kind == Request::kCollective && ShapeOf(request.operation).reduces) {
    if (IsFloat8(request.type) && gpu.compute_major < 9)
      return Fail(ncclInvalidArgument,
                  "%s : FP8 reductions need a GPU of compute capability 9.0, this one "
                  "has %u.%u",
                  request.function, gpu.compute_major, gpu.compute_minor);
    // NCCL 2.28.9, on an H100: its kernel for one rank knows no FP8.
    if (IsFloat8(request.type) && communicator->ranks == 1 &&
        (request.reduction == ncclAvg || request.reduction >= ncclNumOps))
      return Fail(
          ncclInvalidArgument,
          "%s : averages and pre-multiplied sums of FP8 need more than one rank",
          request.function);
    if (multiplier.type != ncclNumTypes && multiplier.type != request.type)
      return Fail(ncclInvalidArgument,
                  "%s : reduction operation %d was made for type %d, not for %d",
                  request.function, request.reduction,
                  static_cast<int>(multiplier.type), request.type);
  }
  *call = Call{.communicator = communicator,
               .function = request.function,
               .kind = request.kind,
               .operation = request.operation,
               .type = static_cast<protocol::ElementType>(request.type),
               .reduction = request.reduction < ncclNumOps
                                ? static_cast<Reduction>(request.reduction)
                                : Reduction::kPreMulSum,
               .send = request.send,
               .receive = request.receive,
               .count = request.count,
               .root = static_cast<uint32_t>(request.root),
               .stream = {},
               .multiplier = multiplier};
  return ncclSuccess;
}

}  // namespace vrank::nccl
