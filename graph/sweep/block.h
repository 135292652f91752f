// Blocks of ranks, and how they meet.
//
// A block is up to 64 ranks that run one code in lock step. It goes on until it needs
// the end of an operation that others have not come to. Operations are met by whole
// blocks:
//
//   Assembly   the blocks whose ranks belong to common communicators. The last block
//              that comes computes the ends of all.
//   Channel    transfers from ranks of one block to ranks of another, pair by pair in
//              one order, with the rules of transfer_channel.h.
//
// Times do not depend on who comes when, so waiting for whole blocks changes no time.
// It could make blocks wait for each other in a circle where ranks would not; the sweep
// then comes to a halt, and the job is played by the incremental engine.
//
// Thread rule: a block belongs to the thread that drives it. An assembly is written by
// its last block, a channel under its mutex; `pending` hands ends over.

#ifndef VRANK_GRAPH_SWEEP_BLOCK_H_
#define VRANK_GRAPH_SWEEP_BLOCK_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "graph/fold/job.h"
#include "graph/sweep/code.h"
#include "graph/sweep/cost_rows.h"
#include "graph/sweep/lanes.h"

namespace vrank::graph {

inline constexpr uint32_t kBlockRanks = 64;

struct SweepBlock;
class SweepChannel;

// Stamps of several ranks: all times, then each ledger of all.
using StampLanes = std::vector<int64_t>;

struct SweepAssembly {
  struct Place {
    uint32_t member = 0, lane = 0;
  };
  struct Round {
    std::atomic<uint32_t> missing{0};
    std::vector<uint32_t> meetings;  // by member: which of its code
  };
  std::vector<SweepBlock*> members;
  std::vector<std::vector<Place>> instances;  // in communicator order
  Round collective, host;
};

// What a block's meeting (SweepCode::Meeting) is about.
struct SweepBinding {
  SweepAssembly* assembly = nullptr;
  uint32_t member = 0;  // the block's place in it
  // By lane. Of a group of transfers: that of its most expensive one.
  const StampLanes* cost = nullptr;
  struct Part {
    SweepChannel* channel = nullptr;
    bool is_send = false;
    uint32_t place = 0;  // in the group
    uint64_t bytes = 0;
  };
  std::vector<Part> parts;  // of a group of transfers
};

struct SweepBlock {
  // Of the first rank. Others have their own costs, or the same ones.
  const SweepCode* code = nullptr;
  std::vector<const SweepCode*> own_codes;  // by lane; empty: all have `code`
  CostRows own_costs;                       // SweepLanes::own
  std::vector<int64_t> own_works;           // SweepLanes::own_works
  SweepLanes lanes;
  SweepKernel kernel = nullptr;
  std::vector<uint32_t> ranks;  // places in the job
  uint32_t home = 0;            // thread
  uint32_t vector_width = 1;    // of the kernel

  std::vector<int64_t> state, bits, busy, waited, met, ends;
  std::vector<uint64_t> rank_keys;
  std::vector<int64_t> divergences;
  std::vector<int64_t> communicated;     // by lane: costs of all operations
  std::vector<StampLanes> observations;  // by number, as stamps of all lanes
  std::vector<SweepBinding> bindings;    // by meeting
  std::vector<const int64_t*> columns;   // by meeting
  std::vector<uint8_t> decided;          // by communicator
  std::vector<uint32_t> meeting;         // by communicator: the one that is pending
  // By communicator: parts of the pending operation without an end, and one more until
  // the block has come to need it.
  std::unique_ptr<std::atomic<int32_t>[]> pending;
  bool suspended = false;

  int64_t* Slot(uint32_t slot) const {
    return lanes.state + static_cast<size_t>(slot) * stride;
  }
  // Whose fixed results are those of the rank at `lane`.
  const SweepCode& CodeOf(uint32_t lane) const {
    return own_codes.empty() ? *code : *own_codes[lane];
  }
  size_t stride = 0;  // numbers per slot
};

// Called for a block whose last pending part has ended while it waits.
class SweepWaker {
 public:
  virtual ~SweepWaker() = default;
  virtual void Wake(SweepBlock* block) = 0;

  // A part of the block's operation has ended.
  void PartEnded(SweepBlock* block, uint32_t communicator) {
    if (block->pending[communicator].fetch_sub(1, std::memory_order_acq_rel) == 1)
      Wake(block);
  }
};

// Who sends to whom, and what it costs.
struct ChannelPairs {
  SweepBlock *from = nullptr, *to = nullptr;
  uint32_t from_communicator = 0, to_communicator = 0;  // places in their codes
  std::vector<uint32_t> from_lane, to_lane;
  std::vector<int32_t> from_rank, to_rank;  // world ranks
  uint64_t credit = 0;
};

class SweepChannel {
 public:
  SweepChannel(ChannelPairs pairs, const NetworkModel* network,
               const LedgerSet& ledgers);

  // The ranks at one side have arrived: their arrivals are in the communicator's slot.
  // Their ends go into transfer slot `place`. False: the two sides state different
  // sizes.
  bool Send(uint32_t place, uint64_t bytes, SweepWaker* waker);
  bool Receive(uint32_t place, uint64_t bytes, SweepWaker* waker);
  bool all_sends_received() const { return received_ >= sent_; }
  void Reset();

 private:
  struct Entry {
    uint64_t sent_bytes = 0, received_bytes = 0;
    uint32_t send_place = 0, receive_place = 0;
    StampLanes send, receive;  // arrivals; then when a send can go, a receive's end
  };
  Entry& At(uint64_t sequence);
  // The arrivals of one side.
  void Gather(bool is_send, StampLanes* to) const;
  bool Advance(SweepWaker* waker);
  bool ReleaseSend(SweepWaker* waker);
  bool Complete(SweepWaker* waker);
  void End(bool is_send, uint32_t place, const StampLanes& own, const StampLanes* other,
           const StampLanes& cost, StampLanes* keep);
  const StampLanes& CostOf(uint64_t bytes);

  const ChannelPairs pairs_;
  const NetworkModel* const network_;
  const LedgerSet ledgers_;
  const size_t parts_;                                  // numbers of a stamp
  const bool from_in_order_, to_in_order_;              // lanes follow each other
  std::vector<std::pair<uint64_t, StampLanes>> costs_;  // by size

  std::mutex mutex_;
  uint64_t base_ = 0;
  std::deque<Entry> entries_;
  std::vector<Entry> spare_;
  StampLanes ends_;  // of one operation
  uint64_t sent_ = 0, received_ = 0, effective_ = 0, completed_ = 0;
  uint64_t window_first_ = 0, window_next_ = 0, window_bytes_ = 0;
};

// All members of the assembly have come: computes their ends.
void EndCollective(SweepAssembly& assembly, const LedgerSet& ledgers);
void EndCreation(SweepAssembly& assembly, const LedgerSet& ledgers);
// A group of transfers, all of which have ended: its end.
void EndTransfers(SweepBlock& block, uint32_t communicator, const LedgerSet& ledgers);

// A stamp of one lane, and back. `slot`: numbers of all lanes.
Stamp ReadStamp(const int64_t* slot, uint32_t width, uint32_t lane,
                const LedgerSet& ledgers);
void WriteStamp(const Stamp& stamp, int64_t* slot, uint32_t width, uint32_t lane,
                const LedgerSet& ledgers);
// Cost as a stamp.
Stamp StampOf(const Cost& cost, bool host);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_SWEEP_BLOCK_H_
