// CRC-32C with the processor's instruction for it, where it has one: eight bytes in
// three cycles (x86-64's SSE4.2). Host programs only; guests ask for no CPU feature.
//
// Thread rule: plain functions.

#ifndef VRANK_BASE_CRC32C_H_
#define VRANK_BASE_CRC32C_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/guest/crc32c.h"

namespace vrank {

#if defined(__x86_64__)
namespace crc32c_internal {

[[gnu::target("sse4.2")]] inline uint32_t ByInstruction(const void* data, size_t size,
                                                        uint32_t previous) {
  const auto* at = static_cast<const unsigned char*>(data);
  uint64_t crc = ~previous;
  for (; size >= 8; at += 8, size -= 8) {
    uint64_t eight;
    std::memcpy(&eight, at, sizeof eight);
    crc = __builtin_ia32_crc32di(crc, eight);
  }
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
