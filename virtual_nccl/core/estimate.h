// What calls would take, for ncclGroupSimulateEnd.
//
// Thread rule: may be called from any thread; asks the emulator.

#ifndef VRANK_VIRTUAL_NCCL_CORE_ESTIMATE_H_
#define VRANK_VIRTUAL_NCCL_CORE_ESTIMATE_H_

#include <span>

#include "virtual_nccl/core/call.h"
#include "virtual_nccl/core/library.h"

namespace vrank::nccl {

// Of one communicator's calls in a group, were all its members there: its collectives
// one after the other, then its transfers side by side. A communicator of one rank has
// nothing that the network model prices: 0.
float EstimateMicroseconds(Library& library, std::span<const Call* const> calls);

}  // namespace vrank::nccl

#endif  // VRANK_VIRTUAL_NCCL_CORE_ESTIMATE_H_
