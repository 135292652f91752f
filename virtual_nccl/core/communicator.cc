// Validity of handles, and the reductions that a communicator owns.

#include "virtual_nccl/core/communicator.h"

#include <algorithm>

#include "virtual_nccl/core/error.h"

namespace vrank::nccl {
namespace {

constexpr int kReductionIndexMask = (1 << kReductionIndexBits) - 1;
constexpr size_t kMostReductions = kReductionIndexMask - ncclNumOps;

// ncclRedOp_t is an int with 31 usable bits (ncclMaxRedOp).
ncclRedOp_t ReductionHandle(const Communicator& communicator, size_t index) {
  uint64_t handle = static_cast<uint64_t>(communicator.number) << kReductionIndexBits |
                    (ncclNumOps + index);
  return static_cast<ncclRedOp_t>(handle & ncclMaxRedOp);
}

}  // namespace

ncclResult_t RequirePointer(const void* pointer, const char* function,
                            const char* argument) {
  if (pointer == nullptr)
    return Fail(ncclInvalidArgument, "%s : %s argument is NULL", function, argument);
  return ncclSuccess;
}

ncclResult_t FindCommunicator(ncclComm_t handle, const char* function,
                              Communicator** found) {
  if (ncclResult_t result = RequirePointer(handle, function, "comm");
      result != ncclSuccess)
    return result;
  *found = Communicator::From(handle);
  if (*found == nullptr)
    return Fail(ncclInvalidArgument,
                "%s : comm is no communicator, or was destroyed before", function);
  return ncclSuccess;
}

ncclResult_t CreateReduction(Communicator* communicator, const UserReduction& reduction,
                             ncclRedOp_t* made) {
  std::lock_guard lock(communicator->mutex);
  auto& reductions = communicator->reductions;
  auto free = std::find_if(reductions.begin(), reductions.end(),
                           [](const UserReduction& each) { return !each.exists; });
  if (free == reductions.end() && reductions.size() == kMostReductions)
    return Fail(ncclInvalidUsage,
                "ncclRedOpCreatePreMulSum : %zu operations exist on this communicator; "
                "destroy some",
                kMostReductions);
  size_t index = static_cast<size_t>(free - reductions.begin());
  if (free == reductions.end())
    reductions.push_back(reduction);
  else
    *free = reduction;
  *made = ReductionHandle(*communicator, index);
  return ncclSuccess;
}

const UserReduction* FindReduction(const Communicator& communicator, int operation) {
  const int index = (operation & kReductionIndexMask) - ncclNumOps;
  if (index < 0 || static_cast<size_t>(index) >= communicator.reductions.size() ||
      operation != ReductionHandle(communicator, static_cast<size_t>(index)))
    return nullptr;
  const UserReduction& found = communicator.reductions[static_cast<size_t>(index)];
  return found.exists ? &found : nullptr;
}

ncclResult_t DestroyReduction(Communicator* communicator, int operation) {
  if (operation >= 0 && operation < ncclNumOps)
    return Fail(ncclInvalidArgument, "ncclRedOpDestroy : operation %d is built in",
                operation);
  std::lock_guard lock(communicator->mutex);
  const UserReduction* found = FindReduction(*communicator, operation);
  if (found == nullptr)
    return Fail(ncclInvalidArgument,
                "ncclRedOpDestroy : operation %d is unknown to this communicator",
                operation);
  communicator->reductions[static_cast<size_t>(found - communicator->reductions.data())]
      .exists = false;
  return ncclSuccess;
}

}  // namespace vrank::nccl
