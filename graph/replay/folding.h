// How a running engine plays some ranks for all of them.
//
// Ranks of one colour (live_colours.h) have one timeline. One of them is played, the
// others only keep who they are. A family of communicators that look alike is played in
// its first instance: there, of several members of one colour, the first arrives and
// the others count as absent.
//
// Thread rule: plain data of the engine.

#ifndef VRANK_GRAPH_REPLAY_FOLDING_H_
#define VRANK_GRAPH_REPLAY_FOLDING_H_

#include <cstdint>
#include <vector>

#include <absl/container/flat_hash_set.h>

#include "graph/program/pool.h"
#include "graph/schema/op.h"

namespace vrank::graph {

struct Folding {
  struct Family {
    // Communicators; the first one is played. None: all colours have released it.
    std::vector<uint32_t> instances;
    bool whole = true;     // no member stands for another one of its communicator
    uint32_t colours = 0;  // of its members
    std::vector<uint32_t> released;  // by which: places in the first instance
    uint32_t absentees = 0;          // members assumed absent, of all instances
    // What costs the same in every instance, as far as known: calls, sorted; groups of
    // transfers by program, place among its details and member.
    std::vector<CollectiveCall> calls;
    absl::flat_hash_set<std::pair<uint64_t, uint32_t>> transfers;
  };

  std::vector<uint32_t> played_by;                // by rank; itself if it is played
  std::vector<std::vector<uint32_t>> stands_for;  // by played rank; itself first
  std::vector<uint32_t> family_of;                // by communicator; kNone: no member
  std::vector<Family> families;
  // By communicator and member: the place in the first instance; kNone: absent.
  std::vector<std::vector<uint32_t>> seats;

  Family& FamilyOf(uint32_t communicator) { return families[family_of[communicator]]; }
  const Family& FamilyOf(uint32_t communicator) const {
    return families[family_of[communicator]];
  }
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_FOLDING_H_
