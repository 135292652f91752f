// Writes an operation's result: what the hold kernel does while it waits anyway. The
// same code runs on a GPU and, in tests, on host threads.
//
// Values are multiplied in their own type, integers wrap around, narrow floating-point
// numbers are widened to float and rounded once, to the nearest even.
//
// `Narrow` converts those of 8 and 16 bits:
//   float Decode(ElementType, uint32_t bits)
//   uint32_t Encode(ElementType, float)
//
// Thread rule: FillResult by all threads of all CTAs, each with its own number.

#ifndef VRANK_GPU_HOLD_HOLD_RESULT_H_
#define VRANK_GPU_HOLD_HOLD_RESULT_H_

#include <stdint.h>

#include "base/guest/held_result.h"

#ifdef __CUDACC__
#define VRANK_DEVICE __device__
#else
#define VRANK_DEVICE
#endif

namespace vrank::hold {

// Which of the threads that share the work this one is.
struct WorkShare {
  uint64_t thread;
  uint64_t threads;
};

// A bus transaction of a thread.
struct alignas(16) Pack {
  uint64_t words[2];
};

template <typename T>
struct Whole {  // integers without sign, float and double
  using Bits = T;
  T factor;
  VRANK_DEVICE Bits operator()(Bits bits) const {
    return static_cast<Bits>(bits * factor);
  }
};

template <typename Narrow, typename T>
struct NarrowFloat {
  using Bits = T;
  protocol::ElementType type;
  float factor;
  VRANK_DEVICE Bits operator()(Bits bits) const {
    return static_cast<Bits>(Narrow::Encode(type, Narrow::Decode(type, bits) * factor));
  }
};

template <typename T>
VRANK_DEVICE T ScalarOf(const HeldResult& result) {
  const void* const at =
      result.device_scalar != nullptr ? result.device_scalar : result.scalar;
  return result.multiplied ? *static_cast<const T*>(at) : T(1);
}

inline VRANK_DEVICE bool AreAligned(const HeldResult& result) {
  return ((reinterpret_cast<uintptr_t>(result.to) |
           reinterpret_cast<uintptr_t>(result.from) | result.bytes) &
          (sizeof(Pack) - 1)) == 0;
}

// Each unit is read and written by one thread, so the buffers may be one, or `from` one
// of the places of `to`.
template <typename Unit, typename Change>
VRANK_DEVICE void Spread(const HeldResult& result, const WorkShare& share,
                         const Change& change) {
  const auto* const from = static_cast<const Unit*>(result.from);
  auto* const to = static_cast<Unit*>(result.to);
  const uint64_t units = result.bytes / sizeof(Unit);
#ifdef __CUDACC__
#pragma unroll 4
#endif
  for (uint64_t i = share.thread; i < units; i += share.threads) {
    const Unit value = change(from[i]);
    for (uint64_t place = i; place < units * result.times; place += units)
      to[place] = value;
  }
}

template <typename Change>
VRANK_DEVICE void Multiply(const HeldResult& result, const WorkShare& share,
                           const Change& change) {
  using Bits = typename Change::Bits;
  if (!AreAligned(result))
    return Spread<Bits>(result, share, change);
  Spread<Pack>(result, share, [&change](Pack pack) {
    auto* const bits = reinterpret_cast<Bits*>(&pack);
    for (unsigned i = 0; i < sizeof(Pack) / sizeof(Bits); ++i)
      bits[i] = change(bits[i]);
    return pack;
  });
}

template <typename T>
VRANK_DEVICE void MultiplyWhole(const HeldResult& result, const WorkShare& share) {
  Multiply(
      result, share,
      Whole<T>{static_cast<T>(ScalarOf<T>(result) * static_cast<T>(result.members))});
}

template <typename Narrow, typename Bits>
VRANK_DEVICE void MultiplyNarrow(const HeldResult& result, const WorkShare& share) {
  float factor = static_cast<float>(result.members);
  if (result.multiplied)
    factor *= Narrow::Decode(result.type, ScalarOf<Bits>(result));
  Multiply(result, share, NarrowFloat<Narrow, Bits>{result.type, factor});
}

inline VRANK_DEVICE void CopyResult(const HeldResult& result, const WorkShare& share) {
  if (result.to == result.from && result.times == 1)
    return;
  if (AreAligned(result))
    Spread<Pack>(result, share, [](const Pack& pack) { return pack; });
  else
    Spread<unsigned char>(result, share, [](unsigned char byte) { return byte; });
}

template <typename Narrow>
VRANK_DEVICE void FillResult(const HeldResult& result, const WorkShare& share) {
  using protocol::ElementType;
  if (result.members == 1 && !result.multiplied)
    return CopyResult(result, share);
  switch (result.type) {
    case ElementType::kInt8:
    case ElementType::kUint8:
      return MultiplyWhole<uint8_t>(result, share);
    case ElementType::kInt32:
    case ElementType::kUint32:
      return MultiplyWhole<uint32_t>(result, share);
    case ElementType::kInt64:
    case ElementType::kUint64:
      return MultiplyWhole<uint64_t>(result, share);
    case ElementType::kFloat32:
    case ElementType::kTfloat32:
      return MultiplyWhole<float>(result, share);
    case ElementType::kFloat64:
      return MultiplyWhole<double>(result, share);
    case ElementType::kFloat16:
    case ElementType::kBfloat16:
      return MultiplyNarrow<Narrow, uint16_t>(result, share);
    case ElementType::kFloat8E4M3:
    case ElementType::kFloat8E5M2:
      return MultiplyNarrow<Narrow, uint8_t>(result, share);
  }
}

}  // namespace vrank::hold

#endif  // VRANK_GPU_HOLD_HOLD_RESULT_H_
