// What PyTorch's caching allocator had given to tensors when that was the most: each
// block, and when it was taken.
//
// A block that was live at the peak is kept until the next peak, freed or not; other
// freed blocks are dropped. Memory: the blocks live at the peak or now, and 16 bytes
// for each backward pass.
//
// Thread rule: one thread (the session's).

#ifndef VRANK_EMULATOR_WORLD_PEAK_BLOCKS_H_
#define VRANK_EMULATOR_WORLD_PEAK_BLOCKS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/guest/protocol.h"
#include "graph/program/program.h"

namespace vrank::emulator {

class PeakBlocks {
 public:
  struct Block {
    uint64_t bytes = 0;
    uint64_t op = 0;           // the first work that was launched since
    std::string launched;      // its name; empty: it is not known
    bool in_backward = false;  // taken by PyTorch's autograd engine
  };
  // The latest time at which the most was held.
  struct Peak {
    uint64_t bytes = 0;
    uint64_t op = 0;            // the first work since
    std::vector<Block> blocks;  // their bytes add up to `bytes`
  };

  // In order. The program's next op is the first work since. `complete`: none are left
  // out.
  void Add(const graph::Program& program,
           std::span<const protocol::AllocatorBlock> blocks, bool complete);

  // Of the GPU of which the most was held. nullopt: there is no such allocator, or some
  // of its blocks are not known.
  std::optional<Peak> Most(const graph::Program& program) const;

  // Whether a block was taken in a backward pass before the op number `end`, and since
  // the op number `begin`.
  bool HasBackward(uint64_t begin, uint64_t end) const;

 private:
  struct Held {
    uint64_t bytes = 0;
    uint64_t op = 0;
    uint64_t number = 0;  // of all that were taken, in order
    uint32_t name = 0;    // of the program's
    bool in_backward = false;
  };
  struct Device {
    std::unordered_map<uint64_t, Held> held;  // by address
    uint64_t bytes = 0;
    uint64_t peak_bytes = 0, peak_op = 0;
    uint64_t taken_by_peak = 0;  // Held::number of the last one
    std::vector<Held> gone;      // given back since the peak
  };

  void Change(const protocol::AllocatorBlock& block, uint64_t op);
  void NameLatest(const graph::Program& program);
  uint32_t LatestName(const graph::Program& program) const;

  std::map<uint32_t, Device> devices_;
  uint64_t taken_ = 0;
  bool complete_ = true;
  uint64_t latest_op_ = 0;
  std::vector<std::pair<uint32_t, uint64_t>> latest_;  // device and address, not named
  // First and last op of blocks taken in backward passes, one after the other.
  std::vector<std::pair<uint64_t, uint64_t>> backward_;
  bool in_backward_ = false;
};

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_WORLD_PEAK_BLOCKS_H_
