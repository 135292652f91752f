// A block of ranks as the vector code of the sweep sees it.
//
// The state is an array of numbers per slot (code.h): first the times of all
// ranks of the block, then each ledger of all of them. A step of the sweep does one op
// for the whole block.
//
// The same source is compiled for each kind of vector unit (kernel_inl.h); which
// one runs is decided at run time. All give the same bytes.
//
// Thread rule: a block belongs to one thread at a time.

#ifndef VRANK_GRAPH_SWEEP_LANES_H_
#define VRANK_GRAPH_SWEEP_LANES_H_

#include <cstddef>
#include <cstdint>

#include "graph/sweep/op.h"

namespace vrank::graph {

struct SweepLanes {
  // Of SweepCode.
  const SweepOp* ops = nullptr;
  const uint32_t* ledgers = nullptr;
  const uint32_t* places = nullptr;
  const uint64_t* four_keys = nullptr;
  const SweepMeeting* meetings = nullptr;
  const SweepRun* runs = nullptr;
  // Where ranks have costs of their own: by op, rows of a number per rank: issue, x and
  // y of SweepOp, then the ledgers of issue. nullptr: those of ops and ledgers are all
  // ranks'.
  static constexpr uint32_t kOwnCosts = 3;
  const uint32_t* own = nullptr;
  // As issue: the rank does not do this work. Others are less.
  static constexpr uint32_t kNoWork = 0xffffffff;
  // By rank, how many works it has done; nullptr: all ranks do all works.
  int64_t* own_works = nullptr;

  uint32_t ranks = 0;
  uint32_t width = 0;  // ranks, and fillers up to whole vectors
  uint32_t next = 0;   // op
  uint64_t works = 0;  // done
  uint32_t runs_done = 0;
  int64_t* state = nullptr;
  const uint64_t* rank_keys = nullptr;
  // By rank: what is left of the jitter bits of works that share them.
  int64_t* bits = nullptr;
  int64_t* busy = nullptr;    // by rank: what jitter added to the lowest durations
  int64_t* waited = nullptr;  // by rank: for other members of operations
  int64_t* met = nullptr;     // by rank: host time that passed in meetings
  // By op of the program, by rank, aligned to 64 bytes; nullptr: not stored.
  int64_t* ends = nullptr;
  // Lanes are rows of `column_count` columns. By meeting: where it is a collective of
  // the ranks of each column, in their order, what it costs, as a stamp per rank
  // (times, then ledgers); nullptr elsewhere.
  uint32_t column_count = 1;
  const int64_t* const* columns = nullptr;
  // By communicator: its operation's end is in the communicator's slot.
  uint8_t* decided = nullptr;

  int64_t* Slot(uint32_t slot, int ledgers) const {
    return state + static_cast<size_t>(slot) * (1 + ledgers) * width;
  }
};

// Brings what a block that waits reads first when it goes on into the caches. Where
// ranks have programs of their own none of it is there, and others run meanwhile.
void FetchAhead(const SweepLanes& lanes, int ledgers);

// Executes ops from `next` on, up to one that is not done for whole vectors: it is left
// at `next`.
using SweepKernel = void (*)(SweepLanes& lanes);

enum class VectorUnit : uint8_t { kScalar, kAvx2, kAvx512 };
const char* Name(VectorUnit unit);
// The best one of this machine.
VectorUnit BestVectorUnit();

struct SweepKernelKey {
  int ledgers = 0;  // 0, 1 or 4
  bool jitter = false;
  bool store_ends = false;
  bool own_costs = false;
};
// nullptr: this machine has no such unit.
SweepKernel FindSweepKernel(VectorUnit unit, const SweepKernelKey& key);
// Blocks are filled up to whole multiples of this.
uint32_t VectorWidth(VectorUnit unit);

// One per vector unit, each in a file of its own.
SweepKernel ScalarSweepKernel(const SweepKernelKey& key);
SweepKernel Avx2SweepKernel(const SweepKernelKey& key);
SweepKernel Avx512SweepKernel(const SweepKernelKey& key);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_SWEEP_LANES_H_
