// Turns what a group holds for one communicator into records.
//
// As in NCCL, a group is one launch per communicator. It goes onto the first stream
// that the group used with it; that stream first waits for the group's other streams,
// and these wait for it afterwards. On it the collectives follow each other in call
// order, then all sends and receives at once: they must be able to meet in any order.
//
// A communicator of one rank has nobody to meet: its collectives are device copies on
// their own streams, or nothing at all in place.
//
// Thread rule: may be called from any thread; takes the communicator's lock, and the
// GPU's in it.

#ifndef VRANK_VIRTUAL_NCCL_CORE_LAUNCHER_H_
#define VRANK_VIRTUAL_NCCL_CORE_LAUNCHER_H_

#include <span>

#include "virtual_nccl/core/call.h"
#include "virtual_nccl/core/library.h"

namespace vrank::nccl {

// REQUIRES: calls is not empty, in call order, all of one living communicator.
void Launch(Library& library, std::span<const Call* const> calls);

}  // namespace vrank::nccl

#endif  // VRANK_VIRTUAL_NCCL_CORE_LAUNCHER_H_
