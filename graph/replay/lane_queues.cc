// See lane_queues.h.

#include "graph/replay/lane_queues.h"

#include <algorithm>
#include <cstddef>

namespace vrank::graph {

void LaneQueues::EndHostFunction(uint32_t program, uint64_t op, int64_t duration_ns) {
  ForEachPending([&](uint32_t queue, LaneQueue& q) {
    if (ranks_[q.rank].program_index != program)
      return;
    const auto head = q.ops.begin() + static_cast<std::ptrdiff_t>(q.head);
    const auto runs = std::find_if(head, q.ops.end(), [op](const QueuedOp& each) {
      return each.kind == OpKind::kHostFunc && each.op() == op;
    });
    if (runs == q.ops.end())
      return;
    runs->value = duration_ns;
    if (runs == head)
      worklist_.AddQueue(queue);
  });
}

std::vector<std::vector<uint32_t>> LaneQueues::PendingByRank() const {
  std::vector<std::vector<uint32_t>> pending(ranks_.size());
  ForEachPending([&](uint32_t i, const LaneQueue& q) { pending[q.rank].push_back(i); });
  return pending;
}

void LaneQueues::Discard(uint32_t queue) {
  LaneQueue& q = queues_[queue];
  std::vector<QueuedOp>().swap(q.ops);
  q.head = 0;
  q.meeting = LaneQueue::Meeting::kNotArrived;
  queues_.Drop(queue);
}

}  // namespace vrank::graph
