// How much of a device's memory allocations take.
//
// A device gives its memory away in blocks of 2 MiB. Requests below 1 MiB share blocks,
// larger ones have theirs alone, so what an allocation adds is the blocks that it is
// the first one in. (The virtual GPU accounts by the same rule: device_memory.h.)
//
// Thread rule: one builder.

#ifndef VRANK_GRAPH_BUILD_BLOCK_ACCOUNT_H_
#define VRANK_GRAPH_BUILD_BLOCK_ACCOUNT_H_

#include <cstdint>
#include <map>

namespace vrank::graph {

class BlockAccount {
 public:
  // By how much the used memory changes.
  int64_t Take(uint64_t address, uint64_t bytes) {
    sizes_[address] = bytes;
    int64_t delta = 0;
    for (uint64_t block = address / kBlock; block * kBlock < address + bytes; ++block)
      if (blocks_[block]++ == 0)
        delta += static_cast<int64_t>(kBlock);
    return delta;
  }
  // 0 for an address that was not taken.
  int64_t GiveBack(uint64_t address) {
    const auto taken = sizes_.find(address);
    if (taken == sizes_.end())
      return 0;
    const uint64_t end = address + taken->second;
    sizes_.erase(taken);
    int64_t delta = 0;
    for (uint64_t block = address / kBlock; block * kBlock < end; ++block) {
      const auto users = blocks_.find(block);
      if (users == blocks_.end() || --users->second != 0)
        continue;
      blocks_.erase(users);
      delta -= static_cast<int64_t>(kBlock);
    }
    return delta;
  }
  bool Holds(uint64_t address) const { return sizes_.count(address) != 0; }

 private:
  static constexpr uint64_t kBlock = uint64_t{2} << 20;

  std::map<uint64_t, uint64_t> sizes_;   // by address
  std::map<uint64_t, uint32_t> blocks_;  // allocations in it, by number
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_BUILD_BLOCK_ACCOUNT_H_
