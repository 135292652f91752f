// Whether members of a communicator in the making share a GPU, which NCCL refuses.
//
// A process sees its own members; those of other processes are compared here, by node
// and by the node's number of the device. A virtual rank has none, but where the real
// members of its node are all on GPU 0, which is that of one of them at most, the
// program has not chosen a device, and a rank that is not real would be there, too. Who
// the members are is the engine's word: with NCCL_COMM_ID several communicators may be
// made from ids of one text.
//
// Thread rule: one thread.

#ifndef VRANK_EMULATOR_WORLD_SHARED_GPUS_H_
#define VRANK_EMULATOR_WORLD_SHARED_GPUS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/guest/protocol.h"

namespace vrank::emulator {

class SharedGpus {
 public:
  // `ranks_per_node` 0: each rank is on a node of its own.
  explicit SharedGpus(int32_t ranks_per_node) : ranks_per_node_(ranks_per_node) {}

  // World rank `rank` joins; `op`: the question in its program, to be asked about once.
  void Join(int32_t rank, uint64_t op, const protocol::CommInit& init);
  // The rank's communicator `number` is a member of `identity`, which has these world
  // ranks. All members are bound before the first is answered. Nothing where it came
  // into being by a split.
  void Bind(int32_t rank, uint32_t number, const std::string& identity,
            std::span<const int32_t> world_ranks);
  // The answer's value (protocol::kTwinIsPlayed): 0, or 1 + the first other member on
  // the same GPU. nullopt: not a question of Join's.
  std::optional<uint64_t> Take(int32_t rank, uint64_t op);

 private:
  struct Member {
    uint32_t index = 0;
    int32_t node = 0;
    uint32_t device = 0;
    uint32_t of_process = 0;  // members in its process
    bool is_first = false;    // its rank is the first of its node
  };
  struct Meeting {
    std::vector<Member> members;
    std::vector<int32_t> nodes;  // of all members, by index
    size_t taken = 0;
  };
  int32_t NodeOf(int32_t rank) const;
  // The index of a member that is not real, and would be on `own`'s GPU.
  static std::optional<uint32_t> FindPlayedTwin(const Meeting& meeting,
                                                const Member& own);
  // Who has joined and is not answered.
  struct Joined {
    Member member;
    std::string communicator;  // empty: not bound yet
  };
  using Place = std::pair<int32_t, uint32_t>;  // rank, the communicator's number

  const int32_t ranks_per_node_;
  std::map<std::pair<int32_t, uint64_t>, Place> asked_;  // by rank and question
  std::map<Place, Joined> joined_;
  std::map<std::string, Meeting> meetings_;  // by identity
};

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_WORLD_SHARED_GPUS_H_
