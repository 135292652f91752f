// How many operations of each communicator are in flight, counted anew after ranks have
// been folded or unfolded.
//
// Thread rule: function of its arguments.

#ifndef VRANK_GRAPH_REPLAY_PENDING_OPERATIONS_H_
#define VRANK_GRAPH_REPLAY_PENDING_OPERATIONS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "graph/replay/communicators.h"
#include "graph/replay/lane_queues.h"
#include "graph/replay/rank_table.h"

namespace vrank::graph {

// `pending`: by rank, the queues that count.
template <class Step>
void RecountOperations(const std::vector<std::vector<uint32_t>>& pending,
                       const RankTable& ranks, const LaneQueues& queues,
                       Communicators<Step>& communicators) {
  for (uint32_t i = 0; i < communicators.taken(); ++i)
    communicators[i].operations = 0;
  for (const std::vector<uint32_t>& of_rank : pending) {
    for (const uint32_t queue : of_rank) {
      const LaneQueue& q = queues[queue];
      for (size_t i = q.head; i < q.ops.size(); ++i) {
        if (q.ops[i].kind == OpKind::kCollective || q.ops[i].kind == OpKind::kTransfers)
          ++communicators[ranks[q.rank].communicators[q.ops[i].a].played].operations;
      }
    }
  }
}

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_PENDING_OPERATIONS_H_
