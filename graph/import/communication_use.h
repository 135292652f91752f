// Which collective a communication kernel is, as far as one rank's recording says.
//
// A kernel's own arguments come first (newer profilers), then the call of the process
// group around its launch. The kernel of a batch of sends and receives has neither: the
// batch is made of the calls since the communication that its thread launched before,
// which launched nothing of their own. Sizes and types are NCCL's: elements per member
// where NCCL counts so.
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

// The recording does not say (transfer_peers.h).
inline constexpr int32_t kUnknownPeer = -1;

// A send or a receive of a kernel.
struct TransferPart {
  bool is_send = false;
  int32_t peer = 0;       // in the world, another rank, or kUnknownPeer
  uint64_t elements = 0;  // 0: not recorded
  ElementType type = ElementType::kInt8;
};

// A kernel that sends, receives, or does several of both at once (batch_isend_irecv).
struct TransferUse {
  uint32_t work = 0;
  std::string group, step;  // as CollectiveUse's
  bool is_batch = false;
  bool is_complete = true;  // the peers of all of its transfers are known
  std::vector<TransferPart> parts;
};

struct CommunicationUses {
  // Both in program order.
  std::vector<CollectiveUse> collectives;
  std::vector<TransferUse> transfers;
  // By work: the operation of every kernel that communicates, as far as it is known.
  std::map<uint32_t, std::string> operations;
};

// Sets the members, and NCCL's count argument, which for some operations depends on how
// many they are. REQUIRES: !members.empty()
void SetMembers(std::vector<int32_t> members, CollectiveUse* use);

// What a rank's kernels communicate. Kernels of which no more is known than their
// operation are counted.
absl::StatusOr<CommunicationUses> FindCommunication(const Recording& recording,
                                                    const HostOrder& order,
                                                    int32_t rank, int32_t world_size,
                                                    ImportLosses* losses);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_IMPORT_COMMUNICATION_USE_H_
