// Whether members of a communicator in the making share a GPU, which NCCL refuses.
//
// A process sees its own members; those of other processes are compared here, by node
// and by the node's number of the device. Virtual ranks say nothing of theirs.
//
// Thread rule: one thread.

#ifndef VRANK_EMULATOR_SESSION_SHARED_GPUS_H_
#define VRANK_EMULATOR_SESSION_SHARED_GPUS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
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
  // The answer's value (protocol::CommInit): 0, or 1 + the first other member on the
  // same GPU. nullopt: not a question of Join's. REQUIRES: all members have joined.
  std::optional<uint64_t> Take(int32_t rank, uint64_t op);

 private:
  using UniqueId = std::array<uint8_t, protocol::kUniqueIdBytes>;
  struct Member {
    uint32_t index = 0;
    int32_t node = 0;
    uint32_t device = 0;
  };
  struct Meeting {
    std::vector<Member> members;
    size_t taken = 0;
  };
  struct Asked {
    std::map<UniqueId, Meeting>::iterator meeting;
    size_t place = 0;  // among its members
  };

  const int32_t ranks_per_node_;
  std::map<UniqueId, Meeting> meetings_;
  std::map<std::pair<int32_t, uint64_t>, Asked> asked_;
};

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_SESSION_SHARED_GPUS_H_
