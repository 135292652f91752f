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

#define NCCL_REFUSED_AS(type, name, value, instead)                                  \
  extern "C" VRANK_EXPORT __attribute__((weak)) type name() {                        \
    static std::atomic<bool> said;                                                   \
    [[maybe_unused]] const int refused = vrank::nccl::Refuse(#name, instead, &said); \
    return value;                                                                    \
  }                                                                                  \
  extern "C" VRANK_EXPORT __attribute__((alias(#name))) type p##name()
#define NCCL_REFUSED(name, instead) NCCL_REFUSED_AS(int, name, refused, instead)

namespace {

// What a program can do in the place of a refused call.
constexpr const char* kNoKernels =
    "no kernel runs here that could communicate; leave symmetric memory and device "
    "communicators off, and use collectives or ncclSend and ncclRecv";
constexpr const char* kOneSided = "use ncclSend and ncclRecv in its place";
constexpr const char* kParameters = "read the NCCL_ variables of the environment";

}  // namespace

// As ncclTeam_t: size and register class are all that a caller of an empty one can see.
struct Team {
  int ranks, rank, stride;
};

// Communicators.
NCCL_REFUSED(ncclCommQueryProperties, kNoKernels);

// Windows and one-sided operations.
NCCL_REFUSED(ncclSignal, kOneSided);
NCCL_REFUSED(ncclPutSignal, kOneSided);
NCCL_REFUSED(ncclWaitSignal, kOneSided);
NCCL_REFUSED(ncclGetLsaDevicePointer, kNoKernels);
NCCL_REFUSED(ncclGetLsaMultimemDevicePointer, kNoKernels);
NCCL_REFUSED(ncclGetMultimemDevicePointer, kNoKernels);
NCCL_REFUSED(ncclGetPeerDevicePointer, kNoKernels);

// Communication from inside kernels.
NCCL_REFUSED(ncclDevCommCreate, kNoKernels);
NCCL_REFUSED(ncclDevCommDestroy, kNoKernels);
NCCL_REFUSED(ncclGinBarrierCreateRequirement, kNoKernels);
NCCL_REFUSED(ncclGinInboxA2ACreateRequirement, kNoKernels);
NCCL_REFUSED(ncclGinOutboxCreateRequirement, kNoKernels);
NCCL_REFUSED(ncclLsaBarrierCreateRequirement, kNoKernels);
NCCL_REFUSED(ncclLLA2ACreateRequirement, kNoKernels);
NCCL_REFUSED_AS(int, ncclLLA2ACalcSlots, 0, kNoKernels);
NCCL_REFUSED_AS(int, ncclTeamRankToLsa, -1, kNoKernels);
NCCL_REFUSED_AS(int, ncclTeamRankToWorld, -1, kNoKernels);
NCCL_REFUSED_AS(Team, ncclTeamLsa, {}, kNoKernels);
NCCL_REFUSED_AS(Team, ncclTeamRail, {}, kNoKernels);
NCCL_REFUSED_AS(Team, ncclTeamWorld, {}, kNoKernels);

// NCCL's own parameters.
NCCL_REFUSED(ncclParamBind, kParameters);
NCCL_REFUSED(ncclParamGet, kParameters);
NCCL_REFUSED(ncclParamGetAllParameterKeys, kParameters);
NCCL_REFUSED(ncclParamGetI16, kParameters);
NCCL_REFUSED(ncclParamGetI32, kParameters);
NCCL_REFUSED(ncclParamGetI64, kParameters);
NCCL_REFUSED(ncclParamGetI8, kParameters);
NCCL_REFUSED(ncclParamGetParameter, kParameters);
NCCL_REFUSED(ncclParamGetStr, kParameters);
NCCL_REFUSED(ncclParamGetU16, kParameters);
NCCL_REFUSED(ncclParamGetU32, kParameters);
NCCL_REFUSED(ncclParamGetU64, kParameters);
NCCL_REFUSED(ncclParamGetU8, kParameters);
NCCL_REFUSED_AS(void, ncclParamDumpAll, , kParameters);
