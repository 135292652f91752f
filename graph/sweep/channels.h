// Which transfers of which blocks go through one channel (block.h).
//
// Thread rule: one thread.

#ifndef VRANK_GRAPH_SWEEP_CHANNELS_H_
#define VRANK_GRAPH_SWEEP_CHANNELS_H_

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include <absl/status/status.h>

#include "graph/sweep/layout.h"

namespace vrank::graph {

class ChannelMaker {
 public:
  // All outlive it.
  ChannelMaker(const ResolvedJob& job, const NetworkModel& network, SweepLayout* layout)
      : job_(job), network_(network), layout_(*layout) {}

  // A group of transfers of a block. Its parts are filled in by Make, in all bindings
  // of that group.
  absl::Status Bind(SweepBlock& block, const SweepCode::Meeting& meeting,
                    SweepBinding* binding);
  // Makes the channels. Unimplemented: what they cannot carry.
  absl::Status Make();

 private:
  // A rank's part in a transfer of a group.
  struct Use {
    SweepBlock* block;
    uint32_t communicator, group, place;  // communicator: its place in the code
    uint32_t from, to, instance;          // ranks: places in the job
    uint32_t peer;                        // as the program states it
    bool is_send;
  };
  // What the two sides of a pair of ranks state.
  struct Ends {
    uint32_t sender = kNone, receiver = kNone;  // the peers in their programs
    uint32_t sends_on = 0, receives_on = 0;     // places of the communicator
    SweepChannel* channel = nullptr;
  };

  absl::Status PairUp();
  absl::Status Open();
  void Connect();
  int32_t WorldRank(uint32_t place) const { return job_.job.ranks[place].world_rank; }

  const ResolvedJob& job_;
  const NetworkModel& network_;
  SweepLayout& layout_;
  std::vector<Use> uses_;
  std::map<std::tuple<uint32_t, uint32_t, uint32_t>, Ends> pairs_;  // instance, ranks
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_SWEEP_CHANNELS_H_
