// What an operation leaves in a receive buffer on a real GPU, where no bytes come from
// others: its members that are played hold what this one holds (the mirror policy,
// emulator/payload/operation.h).
//
//   sums                 value * members; pre-multiplied ones value * scalar * members
//   averages, products,  the value
//   minima, maxima
//   gathers              this member's contribution in every place
//   all-to-all           its block for itself in every place
//
// Thread rule: a plain value.

#ifndef VRANK_BASE_GUEST_HELD_RESULT_H_
#define VRANK_BASE_GUEST_HELD_RESULT_H_

#include <stdint.h>

#include "base/guest/protocol_records.h"

namespace vrank {

struct HeldResult {
  void* to = nullptr;  // on the device, as `from`
  const void* from = nullptr;
  uint64_t bytes = 0;    // of `from`; a multiple of the element's size
  uint32_t times = 0;    // `to` holds them so often, one after the other; 0: no result
  uint32_t members = 1;  // factor of each element
  protocol::ElementType type = protocol::ElementType::kInt8;
  bool multiplied = false;              // by a scalar of `type`, first
  const void* device_scalar = nullptr;  // where it lies, if on the device
  alignas(8) unsigned char scalar[8] = {};
};

}  // namespace vrank

#endif  // VRANK_BASE_GUEST_HELD_RESULT_H_
