// The records of the guest protocol about launches of CUDA graphs.
//
// Include base/guest/protocol.h, which explains the words and the rules.
//
// Thread rule: plain structs.

#ifndef VRANK_BASE_GUEST_PROTOCOL_GRAPHS_H_
#define VRANK_BASE_GUEST_PROTOCOL_GRAPHS_H_

#include <cstdint>

#include "base/guest/protocol_records.h"

namespace vrank::protocol {

// A graph is launched on `lane`, where it takes one place in the launch queue.
//
// `nodes_follow`: its body follows as records with kInGraph, which use `lane` and lanes
// and tokens of the graph's own; where `graph` is not 0 a kGraphEnd ends them, and the
// emulator remembers them by that number. Otherwise the body is what it remembers, with
// `lane` in place of the lane of the launch that was remembered. A body that is
// remembered holds work and edges, and nothing with an answer slot.
struct GraphLaunch {
  Record record;
  uint32_t lane;
  uint32_t graph;  // chosen by the guest: 1, 2, 3, ... never reused
  uint32_t nodes_follow;
  uint32_t reserved = 0;
};

struct Graph {
  Record record;
  uint32_t graph;
  uint32_t reserved = 0;
};

}  // namespace vrank::protocol

#endif  // VRANK_BASE_GUEST_PROTOCOL_GRAPHS_H_
