#include "virtual_gpu/core/page_parts.h"

#include <algorithm>
#include <iterator>

namespace vrank::gpu {
namespace {

// Where the room after `address` ends, which is in no allocation; nothing where its
// block has no memory.
std::optional<uint64_t> EndOfRoom(DeviceMemory& memory, uint64_t address) {
  const uint64_t block = address / DeviceMemory::kBlock * DeviceMemory::kBlock;
  const uint64_t block_end = block + DeviceMemory::kBlock;
  const auto next = memory.allocations().upper_bound(address);
  if (next != memory.allocations().end() && next->first < block_end)
    return next->first;
  if (next == memory.allocations().begin())
    return std::nullopt;
  const Allocation& before = std::prev(next)->second;
  if (before.reserved || before.base + before.bytes <= block)
    return std::nullopt;
  return block_end;
}

}  // namespace

std::optional<std::vector<PagePart>> PartsOf(Contents& contents, uint64_t address,
                                             uint64_t bytes) {
  if (contents.IsValid(address, bytes))
    return std::vector<PagePart>{{0, bytes, true}};
  std::vector<PagePart> parts;
  for (uint64_t done = 0; done < bytes;) {
    const uint64_t at = address + done;
    if (contents.DeviceOf(at) != contents.DeviceOf(address))
      return std::nullopt;
    const Allocation* const allocation = contents.Find(at);
    uint64_t end = 0;
    if (allocation == nullptr) {
      const std::optional<uint64_t> room =
          EndOfRoom(contents.memory(contents.DeviceOf(at)), at);
      if (!room.has_value())
        return std::nullopt;
      end = *room;
    } else {
      end = allocation->base + allocation->bytes;
      if (allocation->reserved)  // memory lies behind some of its blocks
        end = std::min(end, (at / DeviceMemory::kBlock + 1) * DeviceMemory::kBlock);
    }
    parts.push_back({done, std::min(bytes - done, end - at), allocation != nullptr});
    done += parts.back().bytes;
  }
  return parts;
}

}  // namespace vrank::gpu
