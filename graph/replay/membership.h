// Who belongs to a communicator: asked by the engine when one comes into being.
//
// A program states only its own view (unique id, size and index; or colour and key).
// The other members follow from the other programs, or, for ranks that follow a
// leader's program, from the declared layout. The engine does not know layouts, so it
// asks.
//
// Thread rule: called from the engine's thread only.

#ifndef VRANK_GRAPH_REPLAY_MEMBERSHIP_H_
#define VRANK_GRAPH_REPLAY_MEMBERSHIP_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "graph/schema/op.h"

namespace vrank::graph {

class Membership {
 public:
  virtual ~Membership() = default;

  struct InitCaller {
    int32_t rank = 0;
    uint32_t number = 0;       // of its inits, in the order of its program
    bool is_follower = false;  // the call is its leader's
  };
  struct InitAnswer {
    std::string identity;  // equal for all members, different for all others
    // World rank of each member, in communicator order. Where all members get one
    // list, it is not compared again for each of them. nullptr: not told yet.
    std::shared_ptr<const std::vector<int32_t>> members;
    uint32_t index = 0;  // the caller's place among them
  };
  // A rank initialises a communicator from a unique id; a follower's id, size and index
  // are its leader's. An answer without members, and kUnavailable: not told yet, to be
  // asked again after another rank's call. A host that does not wait for its
  // communicator goes on after the first; after the second what it calls next could
  // not be told apart from this call, so it goes on only where nothing else moves.
  virtual absl::StatusOr<InitAnswer> Init(const InitCaller& caller,
                                          const Creation& call) = 0;
  // Which two ranks of a process group, the lower one first, have a communicator for
  // their sends and receives to themselves.
  struct PairEnds {
    uint32_t low = 0, high = 0;
    bool of_world = false;  // the group is that of all ranks
  };
  // The job's store has said so of the communicator with this id, before they join it.
  virtual void NotePair(const std::array<uint8_t, protocol::kUniqueIdBytes>& unique_id,
                        const PairEnds& ends) {
    (void)unique_id, (void)ends;
  }
  // Who has called with the id of a call that is not told yet, and who has not, for
  // messages; adds world ranks that may be missing to *awaited.
  virtual std::string DescribeInit(const InitCaller& caller, const Creation& call,
                                   std::vector<int32_t>* awaited) const {
    (void)caller, (void)call, (void)awaited;
    return "";
  }

  // One member's part in a split. A follower states its leader's colour and key; its
  // own must be inferred from the declared layout.
  struct SplitMember {
    int32_t world_rank = 0;
    const Creation* call = nullptr;  // nullptr: absent altogether (assume-absent)
    bool is_follower = false;        // then *call is its leader's
  };
  struct SplitGroup {
    std::vector<uint32_t> members;  // indices in the parent, in the child's order
    // The world ranks (or aliases) that the members go by in the child; empty: those of
    // the parent.
    std::vector<int32_t> names;
  };
  // Called once all members of the parent have arrived. Every member with a colour is
  // in exactly one group; members that passed kNoColor are in none.
  virtual absl::StatusOr<std::vector<SplitGroup>> Split(
      std::string_view parent_identity, uint32_t split_sequence,
      std::span<const SplitMember> members) = 0;
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_MEMBERSHIP_H_
