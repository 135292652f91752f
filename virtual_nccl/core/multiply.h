// The multiplication that a pre-multiplied sum does to each contribution.
//
// Bytes that exist are multiplied here, before they are deposited, in the element's own
// type and rounded to it, as NCCL's kernels do; what a kernel would have computed stays
// computed.
//
// Thread rule: pure functions.

#ifndef VRANK_VIRTUAL_NCCL_CORE_MULTIPLY_H_
#define VRANK_VIRTUAL_NCCL_CORE_MULTIPLY_H_

#include <cstdint>

#include "base/guest/protocol.h"

namespace vrank::nccl {

// values[i] *= *scalar, for whole elements. `bytes`: a multiple of the element's size.
void Multiply(protocol::ElementType type, const void* scalar, unsigned char* values,
              uint64_t bytes);

}  // namespace vrank::nccl

#endif  // VRANK_VIRTUAL_NCCL_CORE_MULTIPLY_H_
