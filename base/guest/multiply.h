// The multiplication that a pre-multiplied sum does to each contribution.
//
// In the element's own type and rounded to it, as NCCL's kernels do.
//
// Thread rule: pure functions.

#ifndef VRANK_BASE_GUEST_MULTIPLY_H_
#define VRANK_BASE_GUEST_MULTIPLY_H_

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "base/guest/minifloat.h"
#include "base/guest/protocol.h"

namespace vrank {

namespace multiply {

template <typename T>
T Load(const void* at) {
  T value;
  memcpy(&value, at, sizeof value);
  return value;
}

// Integers wrap around: computed without sign, in at least 32 bits.
template <typename T>
void Native(const void* scalar, unsigned char* values, uint64_t bytes) {
  using Wide =
      std::conditional_t<std::is_floating_point_v<T>, T,
                         std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>>;
  const auto factor = static_cast<Wide>(Load<T>(scalar));
  for (uint64_t at = 0; at < bytes; at += sizeof(T)) {
    const auto product =
        static_cast<T>(static_cast<Wide>(Load<T>(values + at)) * factor);
    memcpy(values + at, &product, sizeof product);
  }
}

// The product of two narrow values is exact in a float, so it is rounded once.
template <typename Format, typename Bits>
void Narrow(const void* scalar, unsigned char* values, uint64_t bytes) {
  const float factor = Format::Decode(Load<Bits>(scalar));
  for (uint64_t at = 0; at < bytes; at += sizeof(Bits)) {
    const auto product = static_cast<Bits>(
        Format::Encode(Format::Decode(Load<Bits>(values + at)) * factor));
    memcpy(values + at, &product, sizeof product);
  }
}

}  // namespace multiply

// values[i] *= *scalar, for whole elements. `bytes`: a multiple of the element's size.
inline void Multiply(protocol::ElementType type, const void* scalar,
                     unsigned char* values, uint64_t bytes) {
  using protocol::ElementType;
  switch (type) {
    case ElementType::kInt8:
      return multiply::Native<int8_t>(scalar, values, bytes);
    case ElementType::kUint8:
      return multiply::Native<uint8_t>(scalar, values, bytes);
    case ElementType::kInt32:
      return multiply::Native<int32_t>(scalar, values, bytes);
    case ElementType::kUint32:
      return multiply::Native<uint32_t>(scalar, values, bytes);
    case ElementType::kInt64:
      return multiply::Native<int64_t>(scalar, values, bytes);
    case ElementType::kUint64:
      return multiply::Native<uint64_t>(scalar, values, bytes);
    case ElementType::kFloat16:
      return multiply::Narrow<Float16, uint16_t>(scalar, values, bytes);
    case ElementType::kBfloat16:
      return multiply::Narrow<Bfloat16, uint16_t>(scalar, values, bytes);
    case ElementType::kFloat8E4M3:
      return multiply::Narrow<Float8E4M3, uint8_t>(scalar, values, bytes);
    case ElementType::kFloat8E5M2:
      return multiply::Narrow<Float8E5M2, uint8_t>(scalar, values, bytes);
    case ElementType::kFloat32:
    case ElementType::kTfloat32:
      return multiply::Native<float>(scalar, values, bytes);
    case ElementType::kFloat64:
      return multiply::Native<double>(scalar, values, bytes);
  }
}

}  // namespace vrank

#endif  // VRANK_BASE_GUEST_MULTIPLY_H_
