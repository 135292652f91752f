// Everything in nccl.h that only looks something up.

#include "virtual_nccl/api/entry.h"
#include "virtual_nccl/core/error.h"
#include "virtual_nccl/core/meeting.h"
#include "virtual_nccl/core/release.h"

using namespace vrank::nccl;  // entry points stand outside of any namespace

namespace {

template <typename Read>
ncclResult_t ReadNumber(const char* function, ncclComm_t comm, int* out, Read read) {
  return WithLibrary(function, [&](Library& library) {
    Communicator* communicator = nullptr;
    ncclResult_t result = FindCommunicator(comm, function, &communicator);
    if (result == ncclSuccess)
      result = RequirePointer(out, function, "out");
    if (result == ncclSuccess)
      result = FindReadyCommunicator(library, comm, function, &communicator,
                                     /*may_be_finalized=*/true);
    if (result == ncclSuccess)
      *out = static_cast<int>(read(*communicator));
    return result;
  });
}

}  // namespace

NCCL_API(ncclResult_t, ncclCommCount, const ncclComm_t comm, int* count) {
  return ReadNumber("ncclCommCount", comm, count, [](const Communicator& communicator) {
    return communicator.ranks;
  });
}

NCCL_API(ncclResult_t, ncclCommUserRank, const ncclComm_t comm, int* rank) {
  return ReadNumber("ncclCommUserRank", comm, rank,
                    [](const Communicator& communicator) { return communicator.rank; });
}

NCCL_API(ncclResult_t, ncclCommCuDevice, const ncclComm_t comm, int* device) {
  return ReadNumber(
      "ncclCommCuDevice", comm, device,
      [](const Communicator& communicator) { return communicator.device; });
}

NCCL_API(ncclResult_t, ncclCommGetAsyncError, ncclComm_t comm,
         ncclResult_t* asyncError) {
  return WithLibrary("ncclCommGetAsyncError", [&](Library& library) {
    return CommunicatorHealth(library, comm, asyncError);
  });
}

NCCL_API(ncclResult_t, ncclGetVersion, int* version) {
  if (version == nullptr)
    return RequirePointer(version, "ncclGetVersion", "version");
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

NCCL_API(const char*, ncclGetErrorString, ncclResult_t result) {
  return ErrorString(result);
}

NCCL_API(const char*, ncclGetLastError, const ncclComm_t) {
  return LastError();
}
