// Chapter "communicators" of nccl.h: unique ids, init, split, the end.

#include <cstdlib>

#include "virtual_nccl/api/entry.h"
#include "virtual_nccl/core/creation.h"
#include "virtual_nccl/core/release.h"

using namespace vrank::nccl;  // entry points stand outside of any namespace

NCCL_API(ncclResult_t, ncclGetUniqueId, ncclUniqueId* uniqueId) {
  return WithLibrary("ncclGetUniqueId", [&](Library& library) {
    ncclResult_t result = RequirePointer(uniqueId, "ncclGetUniqueId", "out");
    if (result == ncclSuccess)
      *uniqueId = library.NewUniqueId(getenv("NCCL_COMM_ID"));
    return result;
  });
}

NCCL_API(ncclResult_t, ncclCommInitRank, ncclComm_t* comm, int nranks,
         ncclUniqueId commId, int rank) {
  return WithLibrary("ncclCommInitRank", [&](Library& library) {
    return InitRank(library, ThreadGroup(),
                    {.function = "ncclCommInitRank",
                     .out = comm,
                     .ranks = nranks,
                     .rank = rank,
                     .ids = &commId});
  });
}

NCCL_API(ncclResult_t, ncclCommInitRankConfig, ncclComm_t* comm, int nranks,
         ncclUniqueId commId, int rank, ncclConfig_t* config) {
  return WithLibrary("ncclCommInitRankConfig", [&](Library& library) {
    return InitRank(library, ThreadGroup(),
                    {.function = "ncclCommInitRankConfig",
                     .out = comm,
                     .ranks = nranks,
                     .rank = rank,
                     .ids = &commId,
                     .config = config});
  });
}

NCCL_API(ncclResult_t, ncclCommInitRankScalable, ncclComm_t* newcomm, int nranks,
         int myrank, int nId, ncclUniqueId* commIds, ncclConfig_t* config) {
  return WithLibrary("ncclCommInitRankScalable", [&](Library& library) {
    return InitRank(library, ThreadGroup(),
                    {.function = "ncclCommInitRankScalable",
                     .out = newcomm,
                     .ranks = nranks,
                     .rank = myrank,
                     .id_count = nId,
                     .ids = commIds,
                     .config = config});
  });
}

NCCL_API(ncclResult_t, ncclCommInitAll, ncclComm_t* comm, int ndev,
         const int* devlist) {
  return WithLibrary("ncclCommInitAll", [&](Library& library) {
    return InitAll(library, ThreadGroup(), comm, ndev, devlist);
  });
}

NCCL_API(ncclResult_t, ncclCommSplit, ncclComm_t comm, int color, int key,
         ncclComm_t* newcomm, ncclConfig_t* config) {
  return WithLibrary("ncclCommSplit", [&](Library& library) {
    return Split(library, ThreadGroup(), comm, color, key, newcomm, config);
  });
}

NCCL_API(ncclResult_t, ncclCommShrink, ncclComm_t comm, int* excludeRanksList,
         int excludeRanksCount, ncclComm_t* newcomm, ncclConfig_t* config,
         int shrinkFlags) {
  return WithLibrary("ncclCommShrink", [&](Library& library) {
    return Shrink(library, ThreadGroup(),
                  {.parent = comm,
                   .excluded = excludeRanksList,
                   .excluded_count = excludeRanksCount,
                   .out = newcomm,
                   .config = config,
                   .flags = shrinkFlags});
  });
}

NCCL_API(ncclResult_t, ncclCommGetUniqueId, ncclComm_t comm, ncclUniqueId* uniqueId) {
  return WithLibrary("ncclCommGetUniqueId",
                     [&](Library& library) { return GrowId(library, comm, uniqueId); });
}

NCCL_API(ncclResult_t, ncclCommGrow, ncclComm_t comm, int nRanks,
         const ncclUniqueId* uniqueId, int rank, ncclComm_t* newcomm,
         ncclConfig_t* config) {
  return WithLibrary("ncclCommGrow", [&](Library& library) {
    return Grow(library, ThreadGroup(),
                {.parent = comm,
                 .ranks = nRanks,
                 .id = uniqueId,
                 .rank = rank,
                 .out = newcomm,
                 .config = config});
  });
}

NCCL_API(ncclResult_t, ncclCommRevoke, ncclComm_t comm, int revokeFlags) {
  return WithLibrary("ncclCommRevoke", [&](Library& library) {
    return Revoke(library, comm, revokeFlags);
  });
}

NCCL_API(ncclResult_t, ncclCommSuspend, ncclComm_t comm, int flags) {
  return WithLibrary("ncclCommSuspend",
                     [&](Library& library) { return Suspend(library, comm, flags); });
}

NCCL_API(ncclResult_t, ncclCommResume, ncclComm_t comm) {
  return WithLibrary("ncclCommResume",
                     [&](Library& library) { return Resume(library, comm); });
}

#if NCCL_VERSION_CODE < NCCL_VERSION(2, 29, 7)
enum ncclCommMemStat_t : int;
#endif
NCCL_API(ncclResult_t, ncclCommMemStats, ncclComm_t comm, ncclCommMemStat_t stat,
         uint64_t* value) {
  return WithLibrary("ncclCommMemStats", [&](Library& library) {
    return MemoryStatistic(library, comm, static_cast<int>(stat), value);
  });
}

NCCL_API(ncclResult_t, ncclCommFinalize, ncclComm_t comm) {
  return WithLibrary("ncclCommFinalize",
                     [&](Library& library) { return Finalize(library, comm); });
}

NCCL_API(ncclResult_t, ncclCommDestroy, ncclComm_t comm) {
  return WithLibrary("ncclCommDestroy",
                     [&](Library& library) { return Destroy(library, comm); });
}

NCCL_API(ncclResult_t, ncclCommAbort, ncclComm_t comm) {
  return WithLibrary("ncclCommAbort",
                     [&](Library& library) { return Abort(library, comm); });
}
