// Unique ids: 128 bytes that the members of a communicator agree on outside of NCCL.
//
// NCCL puts an address and a random number into them. Here they must be the same in
// every run, so they say which rank made them and how many it had made before: unique
// within the job. Where NCCL_COMM_ID is set, every process makes the same id from it,
// as NCCL does, and programs need no exchange; only the last bytes say who made it
// (base/guest/shared_id.h).
//
// Thread rule: plain functions.

#ifndef VRANK_VIRTUAL_NCCL_CORE_UNIQUE_ID_H_
#define VRANK_VIRTUAL_NCCL_CORE_UNIQUE_ID_H_

#include <nccl.h>

#include <cstdint>

namespace vrank::nccl {

// `comm_id`: the value of NCCL_COMM_ID, or nullptr. `rank`, `made_before`: see above.
ncclUniqueId MakeUniqueId(const char* comm_id, uint32_t rank, uint32_t made_before);

// The id by which ranks join grow number `grows_before` of the communicator of hash
// `parent`: all its members can compute it.
ncclUniqueId MakeGrowId(uint64_t parent, uint32_t grows_before);

// Equal for all members of a communicator, and different from others' in all
// likelihood: NCCL's commHash. Who made a shared id does not count. A child's follows
// from its parent's, the number of splits of that parent before it, and its color.
uint64_t HashOf(const ncclUniqueId& id);
// The maker counts, too: equal for members of one process only, which pass one id, and
// where the id was handed out.
uint64_t HashOfPassed(const ncclUniqueId& id);
uint64_t HashOfChild(uint64_t parent, uint32_t splits_before, int color);

}  // namespace vrank::nccl

#endif  // VRANK_VIRTUAL_NCCL_CORE_UNIQUE_ID_H_
