// How a unique id begins that every process makes for itself (NCCL_COMM_ID).
//
// The n-th id of each process is the same text then, whatever it is used for. A program
// that hands ids out all the same would give one to groups of different leaders, so the
// last bytes, behind the text and its zeros, say who made the id: 1 + that rank, lowest
// byte first. An id that a rank made and others pass was handed out; where each passes
// its own, nobody did, and the text alone says what belongs together.
//
// Thread rule: a constant, and functions of their arguments.

#ifndef VRANK_BASE_GUEST_SHARED_ID_H_
#define VRANK_BASE_GUEST_SHARED_ID_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace vrank {

inline constexpr char kSharedIdPrefix[] = "vrank NCCL_COMM_ID ";
inline constexpr size_t kSharedIdBytes = 128;  // of a ncclUniqueId
inline constexpr size_t kSharedIdMakerBytes = 4;

// `id`: kSharedIdBytes of them, here and below.
inline bool IsSharedId(const void* id) {
  return memcmp(id, kSharedIdPrefix, sizeof kSharedIdPrefix - 1) == 0;
}

// The rank that made a shared id; -1 where that is not known.
inline int64_t MakerOfSharedId(const void* id) {
  const auto* bytes =
      static_cast<const uint8_t*>(id) + kSharedIdBytes - kSharedIdMakerBytes;
  int64_t maker = 0;
  for (size_t i = 0; i < kSharedIdMakerBytes; ++i)
    maker |= int64_t{bytes[i]} << (8 * i);
  return maker - 1;
}

// -1: nobody, which leaves what all processes share.
inline void SetMakerOfSharedId(void* id, int64_t rank) {
  auto* bytes = static_cast<uint8_t*>(id) + kSharedIdBytes - kSharedIdMakerBytes;
  for (size_t i = 0; i < kSharedIdMakerBytes; ++i)
    bytes[i] = static_cast<uint8_t>((rank + 1) >> (8 * i));
}

}  // namespace vrank

#endif  // VRANK_BASE_GUEST_SHARED_ID_H_
