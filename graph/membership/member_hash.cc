#include "graph/membership/member_hash.h"

#include <bit>

namespace vrank::graph {

int64_t MemberHash(const std::vector<int32_t>& ranks) {
  // xxHash's primes for 64 bits.
  constexpr uint64_t kPrime1 = 11400714785074694791u;
  constexpr uint64_t kPrime2 = 14029467366897019727u;
  constexpr uint64_t kPrime5 = 2870177450012600261u;
  uint64_t hash = kPrime5;
  for (const int32_t rank : ranks)
    hash = std::rotl(hash + static_cast<uint64_t>(rank) * kPrime2, 31) * kPrime1;
  hash += ranks.size() ^ (kPrime5 ^ 3527539u);
  if (hash == ~uint64_t{0})
    hash = 1546275796u;  // -1 means an error to CPython
  // abs() in Python is exact, also for the least of 64-bit numbers.
  const uint64_t magnitude = static_cast<int64_t>(hash) < 0 ? ~hash + 1 : hash;
  return static_cast<int64_t>(magnitude & 0x7fffffffu);
}

}  // namespace vrank::graph
