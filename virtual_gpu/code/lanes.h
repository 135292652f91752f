// The values of a register or predicate in the 32 lanes of a warp, each with a mask of
// the bits that are known.
//
// Invariant of the interpreter: a bit that is known here is the one that the GPU would
// compute. An unknown bit may have any value here, which decides nothing.
//
// Thread rule: plain data.

#ifndef VRANK_VIRTUAL_GPU_CODE_LANES_H_
#define VRANK_VIRTUAL_GPU_CODE_LANES_H_

#include <array>
#include <cstdint>

namespace vrank::gpu {

inline constexpr unsigned kLanes = 32;
inline constexpr uint32_t kAllLanes = 0xffffffff;
inline constexpr uint32_t kAllBits = 0xffffffff;

struct Lanes {
  std::array<uint32_t, kLanes> value{};
  std::array<uint32_t, kLanes> known{};

  static Lanes Of(uint32_t number, uint32_t known = kAllBits) {
    Lanes lanes;
    lanes.value.fill(number);
    lanes.known.fill(known);
    return lanes;
  }
  bool IsKnown(unsigned lane) const { return known[lane] == kAllBits; }
};

// A predicate: one bit per lane.
struct Flags {
  uint32_t value = 0;
  uint32_t known = kAllLanes;

  static Flags Of(bool all) { return {all ? kAllLanes : 0, kAllLanes}; }
  uint32_t True() const { return value & known; }
  uint32_t False() const { return ~value & known; }
  uint32_t Unknown() const { return ~known; }
};

// Doubles, each of a pair of registers, and the lanes where they are known.
struct Doubles {
  std::array<double, kLanes> value{};
  uint32_t known = 0;
};

inline Flags operator!(const Flags& a) {
  return {~a.value, a.known};
}
// Known false wins over unknown, and so does known true in `or`.
inline Flags operator&(const Flags& a, const Flags& b) {
  return {a.value & b.value, (a.known & b.known) | a.False() | b.False()};
}
inline Flags operator|(const Flags& a, const Flags& b) {
  return {a.value | b.value, (a.known & b.known) | a.True() | b.True()};
}
inline Flags operator^(const Flags& a, const Flags& b) {
  return {a.value ^ b.value, a.known & b.known};
}

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CODE_LANES_H_
