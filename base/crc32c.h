// CRC-32C with the processor's instruction for it, where it has one (x86-64's SSE4.2).
// Host programs only; guests ask for no CPU feature.
//
// One instruction takes eight bytes and three cycles, but three of them run at a time.
// So long data is three parts, each with a sum of its own. Sums are linear: the sum of
// two parts is that of the first, carried over as many zero bytes as the second has,
// xor that of the second.
//
// Thread rule: plain functions.

#ifndef VRANK_BASE_CRC32C_H_
#define VRANK_BASE_CRC32C_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/guest/crc32c.h"

namespace vrank {

#if defined(__x86_64__)
namespace crc32c_internal {

constexpr size_t kPart = 4096;  // bytes

// What each byte of a sum becomes over kPart zero bytes.
constexpr std::array<std::array<uint32_t, 256>, 4> MakeOverPart() {
  std::array<uint32_t, 32> over{};  // by bit of the sum
  for (size_t bit = 0; bit < 32; ++bit) {
    const uint32_t crc = uint32_t{1} << bit;
    over[bit] = crc >> 8 ^ kTables[0][crc & 0xff];
  }
  const auto apply = [](const std::array<uint32_t, 32>& to, uint32_t crc) {
    uint32_t sum = 0;
    for (size_t bit = 0; bit < 32; ++bit)
      sum ^= (crc >> bit & 1) != 0 ? to[bit] : 0;
    return sum;
  };
  for (size_t bytes = 1; bytes < kPart; bytes *= 2) {
    std::array<uint32_t, 32> twice{};
    for (size_t bit = 0; bit < 32; ++bit)
      twice[bit] = apply(over, over[bit]);
    over = twice;
  }
  std::array<std::array<uint32_t, 256>, 4> tables{};
  for (size_t i = 0; i < 4; ++i)
    for (uint32_t byte = 0; byte < 256; ++byte)
      tables[i][byte] = apply(over, byte << 8 * i);
  return tables;
}

inline constexpr auto kOverPart = MakeOverPart();

inline uint64_t OverPart(uint64_t crc) {
  return kOverPart[0][crc & 0xff] ^ kOverPart[1][crc >> 8 & 0xff] ^
         kOverPart[2][crc >> 16 & 0xff] ^ kOverPart[3][crc >> 24 & 0xff];
}

[[gnu::target("sse4.2"), gnu::always_inline]] inline uint64_t TakeEight(
    uint64_t crc, const unsigned char* from) {
  uint64_t eight;
  std::memcpy(&eight, from, sizeof eight);
  return __builtin_ia32_crc32di(crc, eight);
}

[[gnu::target("sse4.2")]] inline uint32_t ByInstruction(const void* data, size_t size,
                                                        uint32_t previous) {
  const auto* at = static_cast<const unsigned char*>(data);
  uint64_t crc = ~previous;
  for (; size >= 3 * kPart; at += 3 * kPart, size -= 3 * kPart) {
    uint64_t second = 0, third = 0;
    for (size_t i = 0; i < kPart; i += 8) {
      crc = TakeEight(crc, at + i);
      second = TakeEight(second, at + kPart + i);
      third = TakeEight(third, at + 2 * kPart + i);
    }
    crc = OverPart(OverPart(crc) ^ second) ^ third;
  }
  for (; size >= 8; at += 8, size -= 8)
    crc = TakeEight(crc, at);
  auto rest = static_cast<uint32_t>(crc);
  for (; size > 0; ++at, --size)
    rest = __builtin_ia32_crc32qi(rest, *at);
  return ~rest;
}

}  // namespace crc32c_internal
#endif

// As Crc32c.
inline uint32_t HostCrc32c(const void* data, size_t size, uint32_t previous = 0) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2") != 0)
    return crc32c_internal::ByInstruction(data, size, previous);
#endif
  return Crc32c(data, size, previous);
}

}  // namespace vrank

#endif  // VRANK_BASE_CRC32C_H_
