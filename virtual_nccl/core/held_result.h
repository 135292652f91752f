// What a collective leaves in its receive buffer on a real GPU
// (base/guest/held_result.h).
//
// Thread rule: a pure function.

#ifndef VRANK_VIRTUAL_NCCL_CORE_HELD_RESULT_H_
#define VRANK_VIRTUAL_NCCL_CORE_HELD_RESULT_H_

#include "base/guest/held_result.h"
#include "virtual_nccl/core/call.h"

namespace vrank::nccl {

// Nothing where the receive buffer keeps what it held: this member gets no result, or
// what a root sends that is another one. REQUIRES: a collective.
HeldResult HeldResultOf(const Call& call);

}  // namespace vrank::nccl

#endif  // VRANK_VIRTUAL_NCCL_CORE_HELD_RESULT_H_
