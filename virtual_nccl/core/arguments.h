// The rules that a call's arguments must meet, in the order in which NCCL looks at
// them.
//
// Buffers are not looked at, as in NCCL without NCCL_CHECK_POINTERS.
//
// Thread rule: takes the communicator's lock.

#ifndef VRANK_VIRTUAL_NCCL_CORE_ARGUMENTS_H_
#define VRANK_VIRTUAL_NCCL_CORE_ARGUMENTS_H_

#include <nccl.h>

#include "base/guest/protocol.h"
#include "virtual_nccl/core/call.h"

namespace vrank::nccl {

// Fills *call but for its stream. *dropped: a collective of nothing, which NCCL forgets
// without a word (sends and receives of nothing stay: their peers wait for them).
// REQUIRES: communicator is ready.
ncclResult_t CheckArguments(const Request& request, const protocol::GpuProperties& gpu,
                            Communicator* communicator, Call* call, bool* dropped);

}  // namespace vrank::nccl

#endif  // VRANK_VIRTUAL_NCCL_CORE_ARGUMENTS_H_
