// Recognises objects that a Python program has serialized by what they begin with.
//
// Thread rule: pure functions.

#ifndef VRANK_BASE_SERIALIZED_OBJECT_H_
#define VRANK_BASE_SERIALIZED_OBJECT_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

namespace vrank {

// A pickle of protocol 4 or 5 with its first frame (pickletools: PROTO, FRAME), or the
// archive that torch.save writes (ZIP: signature of a local file header). Pickles of
// fewer than four bytes, as of None, have no frame, and are not recognised.
inline bool IsSerializedObject(std::span<const std::byte> bytes) {
  constexpr std::array kArchive{std::byte{'P'}, std::byte{'K'}, std::byte{3},
                                std::byte{4}};
  if (bytes.size() < kArchive.size())
    return false;
  if (std::equal(kArchive.begin(), kArchive.end(), bytes.begin()))
    return true;
  return bytes[0] == std::byte{0x80} &&
         (bytes[1] == std::byte{4} || bytes[1] == std::byte{5}) &&
         bytes[2] == std::byte{0x95};
}

}  // namespace vrank

#endif  // VRANK_BASE_SERIALIZED_OBJECT_H_
