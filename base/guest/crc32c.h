// CRC-32C (Castagnoli), the checksum of the chunks of a trace file.
//
// Polynomial 0x1EDC6F41, reflected 0x82F63B78, initial value and final xor ~0: RFC 3720
// (iSCSI), section 12.1; the check value of "123456789" is 0xE3069283. Eight bytes per
// step by tables ("slicing by 8"): no CPU feature is asked for.
//
// Thread rule: plain functions.

#ifndef VRANK_BASE_GUEST_CRC32C_H_
#define VRANK_BASE_GUEST_CRC32C_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace vrank {

namespace crc32c_internal {

using Tables = std::array<std::array<uint32_t, 256>, 8>;

constexpr Tables MakeTables() {
  Tables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit)
      crc = crc >> 1 ^ ((crc & 1) != 0 ? 0x82f63b78u : 0);
    tables[0][byte] = crc;
  }
  for (size_t i = 1; i < tables.size(); ++i)
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t crc = tables[i - 1][byte];
      tables[i][byte] = crc >> 8 ^ tables[0][crc & 0xff];
    }
  return tables;
}

inline constexpr Tables kTables = MakeTables();

}  // namespace crc32c_internal

// The checksum of `size` bytes. `previous`: the checksum of what came before them.
inline uint32_t Crc32c(const void* data, size_t size, uint32_t previous = 0) {
  const auto& tables = crc32c_internal::kTables;
  const auto* at = static_cast<const unsigned char*>(data);
  uint32_t crc = ~previous;
  for (; size >= 8; at += 8, size -= 8) {
    uint32_t low, high;  // little-endian, as all platforms with CUDA are
    std::memcpy(&low, at, 4);
    std::memcpy(&high, at + 4, 4);
    low ^= crc;
    crc = tables[7][low & 0xff] ^ tables[6][low >> 8 & 0xff] ^
          tables[5][low >> 16 & 0xff] ^ tables[4][low >> 24] ^ tables[3][high & 0xff] ^
          tables[2][high >> 8 & 0xff] ^ tables[1][high >> 16 & 0xff] ^
          tables[0][high >> 24];
  }
  for (; size > 0; ++at, --size)
    crc = crc >> 8 ^ tables[0][(crc ^ *at) & 0xff];
  return ~crc;
}

}  // namespace vrank

#endif  // VRANK_BASE_GUEST_CRC32C_H_
