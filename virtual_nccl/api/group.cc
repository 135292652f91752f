// Chapter "group semantics" of nccl.h.

#include <algorithm>
#include <cstring>

#include "virtual_nccl/api/entry.h"
#include "virtual_nccl/core/error.h"

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

// The structure's size decides which fields the caller knows, as with ncclConfig_t. A
// null pointer makes this an ncclGroupEnd, as in NCCL.
NCCL_API(ncclResult_t, ncclGroupSimulateEnd, ncclSimInfo_t* simInfo) {
  constexpr unsigned kMagic = 0x74685283;
  return WithLibrary("ncclGroupSimulateEnd", [&](Library& library) {
    if (simInfo == nullptr)
      return ThreadGroup().End(library);
    ncclSimInfo_t known = NCCL_SIM_INFO_INITIALIZER;
    known.magic = 0;
    size_t size = 0;
    memcpy(&size, simInfo, sizeof size);
    size = std::min(size, sizeof known);
    memcpy(static_cast<void*>(&known), simInfo, size);
    if (known.magic != kMagic)
      ThreadGroup().Note(
          Fail(ncclInvalidArgument,
               "ncclSimInfo_t argument not initialized via NCCL_SIM_INFO_INITIALIZER"));
    ncclResult_t result = ThreadGroup().SimulateEnd(library, &known.estimatedTime);
    if (result == ncclSuccess)
      memcpy(static_cast<void*>(simInfo), &known, size);
    return result;
  });
}
