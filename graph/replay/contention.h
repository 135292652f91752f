// Who decides when operations end that share links with others.
//
// Without one, an operation ends its cost after the last arrival that it depends on.
// With one, the engine goes on until nothing moves without an end that is held here;
// then every operation that could begin before the next of these ends has been handed
// over, since nothing that is still unknown begins earlier than what it waits for. So
// the next end is final, and the engine asks for it by Advance. That is all that is
// different: what a node does is step.h's, and who waits for what is the engine's.
//
// An end is never earlier than it would be alone; what sharing adds counts as modelled.
//
// Thread rule: that of the engine that uses it; one engine at a time.

#ifndef VRANK_GRAPH_REPLAY_CONTENTION_H_
#define VRANK_GRAPH_REPLAY_CONTENTION_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "graph/schema/op.h"

namespace vrank::graph {

class Contention {
 public:
  // A member of a collective, and when it would end alone. `ticket`: by which its end
  // is told.
  struct Member {
    uint32_t member = 0;
    uint64_t ticket = 0;
    int64_t end_ns = 0;
  };
  struct Collective {
    uint32_t communicator = 0;  // the engine's number; used again once it is unused
    const std::string* identity = nullptr;
    uint32_t sequence = 0;
    const CollectiveCall* call = nullptr;
    std::span<const int32_t> members;  // world ranks
    uint32_t present = 0;              // members that will get to their ends
  };
  // The data of one transfer begins to move.
  struct Transfer {
    uint64_t ticket = 0;
    const std::string* identity = nullptr;  // of its communicator
    uint32_t sequence = 0;                  // from this sender to this receiver
    int32_t from = 0, to = 0;               // world ranks
    uint64_t bytes = 0;
    int64_t end_ns = 0;  // alone
  };
  struct Ended {
    uint64_t ticket = 0;
    int64_t end_ns = 0;
  };

  virtual ~Contention() = default;

  // These members' ends depend on nothing but the network any more. Every present
  // member gets there once; those of one call have got there together.
  virtual void Begin(const Collective& collective, std::span<const Member> members) = 0;
  virtual void Begin(const Transfer& transfer) = 0;
  // Appends the ends that come next, at least one. False: nothing is held.
  virtual bool Advance(std::vector<Ended>* ended) = 0;
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_CONTENTION_H_
