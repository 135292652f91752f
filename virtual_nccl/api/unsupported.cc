// Names that are exported, so that programs load, and refused when they are called.
//
// A call says so once, is counted in the report, and returns ncclInvalidUsage: programs
// that can do without (symmetric windows, shrinking) then do. None of them returns a
// success. nccl.h is not included: these definitions leave the parameters out, which
// the caller places and removes (x86-64 and AArch64).
//
// docs/nccl_compat.md is made from this list.

#include <atomic>

#include "base/guest/export.h"
#include "virtual_nccl/core/refusal.h"

#define NCCL_REFUSED_AS(type, name, value)                                  \
  extern "C" VRANK_EXPORT __attribute__((weak)) type name() {               \
    static std::atomic<bool> said;                                          \
    [[maybe_unused]] const int refused = vrank::nccl::Refuse(#name, &said); \
    return value;                                                           \
  }                                                                         \
  extern "C" VRANK_EXPORT __attribute__((alias(#name))) type p##name()
#define NCCL_REFUSED(name) NCCL_REFUSED_AS(int, name, refused)

// As ncclTeam_t: size and register class are all that a caller of an empty one can see.
struct Team {
  int ranks, rank, stride;
};

// Communicators.
NCCL_REFUSED(ncclCommGetUniqueId);
NCCL_REFUSED(ncclCommGrow);
NCCL_REFUSED(ncclCommQueryProperties);
NCCL_REFUSED(ncclCommSuspend);
NCCL_REFUSED(ncclCommResume);
NCCL_REFUSED(ncclCommMemStats);

// Windows and one-sided operations.
NCCL_REFUSED(ncclWinGetUserPtr);
NCCL_REFUSED(ncclSignal);
NCCL_REFUSED(ncclPutSignal);
NCCL_REFUSED(ncclWaitSignal);
NCCL_REFUSED(ncclGetLsaDevicePointer);
NCCL_REFUSED(ncclGetLsaMultimemDevicePointer);
NCCL_REFUSED(ncclGetMultimemDevicePointer);
NCCL_REFUSED(ncclGetPeerDevicePointer);

// Communication from inside kernels.
NCCL_REFUSED(ncclDevCommCreate);
NCCL_REFUSED(ncclDevCommDestroy);
NCCL_REFUSED(ncclGinBarrierCreateRequirement);
NCCL_REFUSED(ncclGinInboxA2ACreateRequirement);
NCCL_REFUSED(ncclGinOutboxCreateRequirement);
NCCL_REFUSED(ncclLsaBarrierCreateRequirement);
NCCL_REFUSED(ncclLLA2ACreateRequirement);
NCCL_REFUSED_AS(int, ncclLLA2ACalcSlots, 0);
NCCL_REFUSED_AS(int, ncclTeamRankToLsa, -1);
NCCL_REFUSED_AS(int, ncclTeamRankToWorld, -1);
NCCL_REFUSED_AS(Team, ncclTeamLsa, {});
NCCL_REFUSED_AS(Team, ncclTeamRail, {});
NCCL_REFUSED_AS(Team, ncclTeamWorld, {});

// NCCL's own parameters.
NCCL_REFUSED(ncclParamBind);
NCCL_REFUSED(ncclParamGet);
NCCL_REFUSED(ncclParamGetAllParameterKeys);
NCCL_REFUSED(ncclParamGetI16);
NCCL_REFUSED(ncclParamGetI32);
NCCL_REFUSED(ncclParamGetI64);
NCCL_REFUSED(ncclParamGetI8);
NCCL_REFUSED(ncclParamGetParameter);
NCCL_REFUSED(ncclParamGetStr);
NCCL_REFUSED(ncclParamGetU16);
NCCL_REFUSED(ncclParamGetU32);
NCCL_REFUSED(ncclParamGetU64);
NCCL_REFUSED(ncclParamGetU8);
NCCL_REFUSED_AS(void, ncclParamDumpAll, );
