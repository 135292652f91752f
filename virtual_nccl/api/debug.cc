// ncclResetDebugInit: NCCL_DEBUG changed, read it again.
//
// Apart from the other entry points because nccl.h declares the name as deprecated, and
// the one behind it not at all. The latter has no twin and is strong, as in NCCL.

#include "base/guest/export.h"
#include "virtual_nccl/core/debug_log.h"

extern "C" VRANK_EXPORT void ncclResetDebugInitInternal() {
  vrank::nccl::ResetDebugLog();
}

extern "C" VRANK_EXPORT __attribute__((weak)) void ncclResetDebugInit() {
  ncclResetDebugInitInternal();
}
extern "C" VRANK_EXPORT __attribute__((alias("ncclResetDebugInit"))) void
pncclResetDebugInit();
