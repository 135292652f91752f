// Which collective a communication kernel is, as far as one rank's recording says.
//
// A kernel's own arguments come first (newer profilers), then the call of the process
// group around its launch. Sizes and types are NCCL's: elements per member where NCCL
// counts so.
//
// Thread rule: pure function.

#ifndef VRANK_GRAPH_IMPORT_COMMUNICATION_USE_H_
#define VRANK_GRAPH_IMPORT_COMMUNICATION_USE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "graph/import/host_order.h"
#include "graph/import/import_losses.h"
#include "graph/import/recording.h"

namespace vrank::graph {

struct CollectiveUse {
  uint32_t work = 0;
  CollectiveCall call;  // its count: once the members are known
  std::vector<int32_t>
      members;              // world ranks, in the group's order; empty: not recorded
  int64_t group_size = -1;  // negative: not recorded
  int64_t in_elements = -1, out_elements = -1;
  // Tells apart groups with the same members; the same on all of them.
  std::string group;
  int64_t sequence = -1;  // of the group's collectives; negative: not recorded
  std::string step;       // the profiler's step that launches it; empty: none
};

struct CommunicationUses {
  std::vector<CollectiveUse> collectives;  // in program order
  // By work: the operation of every kernel that communicates, as far as it is known.
  std::map<uint32_t, std::string> operations;
};

// Sets the members, and NCCL's count argument, which for some operations depends on how
// many they are. REQUIRES: !members.empty()
void SetMembers(std::vector<int32_t> members, CollectiveUse* use);

// What a rank's kernels communicate. Transfers, and kernels of which more is unknown
// than their operation, are counted.
absl::StatusOr<CommunicationUses> FindCommunication(const Recording& recording,
                                                    const HostOrder& order,
                                                    int32_t world_size,
                                                    ImportLosses* losses);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_IMPORT_COMMUNICATION_USE_H_
