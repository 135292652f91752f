// How communicators end, and how they are.
//
// Thread rule: may be called from any thread. CommunicatorHealth takes no lock and
// waits for nothing where the communicator is made: watchdog threads call it all the
// time. Finalize and Destroy wait until the communicator's work has ended.

#ifndef VRANK_VIRTUAL_NCCL_CORE_RELEASE_H_
#define VRANK_VIRTUAL_NCCL_CORE_RELEASE_H_

#include <nccl.h>

#include "virtual_nccl/core/library.h"

namespace vrank::nccl {

// A null handle is no error for these three, as in NCCL.
ncclResult_t Finalize(Library& library, ncclComm_t handle);
// Also without Finalize before.
ncclResult_t Destroy(Library& library, ncclComm_t handle);
// Does not wait for the communicator's work, nor for members that have not joined.
ncclResult_t Abort(Library& library, ncclComm_t handle);

// From here on no operation is taken. Returns when those in flight have ended.
// What ncclCommSuspend and ncclCommResume do to the communicator's device memory, all
// of which the model counts as memory that can be suspended.
ncclResult_t Suspend(Library& library, ncclComm_t handle, int flags);
ncclResult_t Resume(Library& library, ncclComm_t handle);
// `statistic`: of ncclCommMemStat_t.
ncclResult_t MemoryStatistic(Library& library, ncclComm_t handle, int statistic,
                             uint64_t* value);
ncclResult_t Revoke(Library& library, ncclComm_t handle, int flags);
// Waits for what is in flight. REQUIRES: it is a member of a communicator that exists.
// `function`: for the message.
ncclResult_t StopWork(Library& library, Communicator* communicator,
                      const char* function);

// ncclInProgress while it is being initialized; ncclRemoteError once the emulator has
// called the session off: no member will answer any more.
ncclResult_t CommunicatorHealth(Library& library, ncclComm_t handle,
                                ncclResult_t* health);

}  // namespace vrank::nccl

#endif  // VRANK_VIRTUAL_NCCL_CORE_RELEASE_H_
