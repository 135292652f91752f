// Chapter "group semantics" of nccl.h.

#include "virtual_nccl/api/entry.h"
#include "virtual_nccl/core/refusal.h"

using namespace vrank::nccl;  // entry points stand outside of any namespace

NCCL_API(ncclResult_t, ncclGroupStart) {
  return WithLibrary("ncclGroupStart", [](Library&) {
    ThreadGroup().Start();
    return ncclSuccess;
  });
}

NCCL_API(ncclResult_t, ncclGroupEnd) {
  return WithLibrary("ncclGroupEnd",
                     [](Library& library) { return ThreadGroup().End(library); });
}

// Ends the group, as a caller relies on, but has no estimate to give.
NCCL_API(ncclResult_t, ncclGroupSimulateEnd, ncclSimInfo_t*) {
  static std::atomic<bool> said;
  return WithLibrary("ncclGroupSimulateEnd", [](Library& library) {
    auto refused = static_cast<ncclResult_t>(Refuse("ncclGroupSimulateEnd", &said));
    return ThreadGroup().EndWithout(library, refused);
  });
}
