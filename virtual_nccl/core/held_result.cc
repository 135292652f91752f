#include "virtual_nccl/core/held_result.h"

#include <cstring>

namespace vrank::nccl {

HeldResult HeldResultOf(const Call& call) {
  const Shape& shape = ShapeOf(call.operation);
  const Communicator& communicator = *call.communicator;
  HeldResult result;
  if (call.ResultBytes() == 0 ||
      (shape.root_contributes && communicator.rank != call.root))
    return result;
  result.to = call.receive;
  result.from = static_cast<const unsigned char*>(call.send) +
                (shape.sends_all ? communicator.rank * call.bytes() : 0);
  result.bytes = call.bytes();
  result.times = shape.receives_all ? communicator.ranks : 1;
  result.type = call.type;
  if (!shape.reduces)
    return result;
  result.multiplied = call.reduction == protocol::Reduction::kPreMulSum;
  if (result.multiplied || call.reduction == protocol::Reduction::kSum)
    result.members = communicator.ranks;
  if (result.multiplied) {
    result.device_scalar = call.multiplier.device_scalar;
    static_assert(sizeof result.scalar == sizeof call.multiplier.scalar);
    memcpy(result.scalar, call.multiplier.scalar.data(), sizeof result.scalar);
  }
  return result;
}

}  // namespace vrank::nccl
