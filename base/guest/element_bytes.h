// How large one element of a type is.

#ifndef VRANK_BASE_GUEST_ELEMENT_BYTES_H_
#define VRANK_BASE_GUEST_ELEMENT_BYTES_H_

#include <cstdint>

#include "base/guest/protocol.h"

namespace vrank::protocol {

// 0: no such type.
inline uint64_t ElementBytes(ElementType type) {
  switch (type) {
    case ElementType::kInt8:
    case ElementType::kUint8:
    case ElementType::kFloat8E4M3:
    case ElementType::kFloat8E5M2:
      return 1;
    case ElementType::kFloat16:
    case ElementType::kBfloat16:
      return 2;
    case ElementType::kInt32:
    case ElementType::kUint32:
    case ElementType::kFloat32:
    case ElementType::kTfloat32:  // stored as float32
      return 4;
    case ElementType::kInt64:
    case ElementType::kUint64:
    case ElementType::kFloat64:
      return 8;
  }
  return 0;
}

}  // namespace vrank::protocol

#endif  // VRANK_BASE_GUEST_ELEMENT_BYTES_H_
