// What the incremental engine says of every rank, written down by its observers.

#ifndef VRANK_TESTS_GRAPH_REPLAY_ENGINE_RECORDER_H_
#define VRANK_TESTS_GRAPH_REPLAY_ENGINE_RECORDER_H_

#include <map>
#include <vector>

#include "graph/fold/job.h"
#include "graph/replay/engine.h"
#include "graph/replay/silent_observer.h"
#include "graph/sweep/sweep.h"

namespace vrank::graph {

// What a replay says of one rank.
struct Said {
  RankResult result;
  RankActivity activity;
  std::vector<RangeMark> marks;
  std::vector<int64_t> ends;  // by op
};

// Writes down what the engine tells.
class Recorder : public SilentObserver, public TimelineObserver {
 public:
  Recorder(const ResolvedJob* job, const NetworkModel* network)
      : job_(job), network_(network), said(job->job.ranks.size()) {
    for (size_t i = 0; i < said.size(); ++i)
      said[i].ends.resize(job->job.ranks[i].program->size());
  }

  void OnOpPassed(int32_t rank, uint64_t op, const Stamp& reached,
                  const Stamp&) override {
    const uint32_t place = job_->place_of.at(rank);
    const OpKind kind = OpAt(place, op).kind;
    if (kind == OpKind::kRangeBegin || kind == OpKind::kRangeEnd)
      said[place].marks.push_back({static_cast<uint32_t>(op), reached});
  }
  void OnOpEnded(int32_t rank, uint64_t index, const Stamp& begin,
                 const Stamp& end) override {
    const uint32_t place = job_->place_of.at(rank);
    const Op& op = OpAt(place, index);
    Said& one = said[place];
    one.ends[index] = end.ns;
    if (op.kind == OpKind::kWork || op.kind == OpKind::kHostFunc)
      one.activity.busy_ns += end.ns - begin.ns;
    if (op.kind != OpKind::kCollective && op.kind != OpKind::kTransfers)
      return;
    const int64_t cost = CostOf(place, op);
    one.activity.communication_ns += end.ns - begin.ns;
    one.activity.communication_waited_ns += end.ns - begin.ns - cost;
  }

 private:
  const Op& OpAt(uint32_t place, uint64_t op) const {
    return job_->job.ranks[place].program->op(op);
  }
  int64_t CostOf(uint32_t place, const Op& op) const {
    const Details& details = job_->job.ranks[place].program->details();
    const CommunicatorInstance& instance = job_->InstanceOf(place, op.a);
    std::vector<int32_t> ranks;
    for (const uint32_t member : instance.members)
      ranks.push_back(job_->job.ranks[member].world_rank);
    if (op.kind == OpKind::kCollective)
      return network_->Collective(details.collectives[op.b], ranks)
          .duration.nanoseconds();
    int64_t dearest = 0;
    const auto size = static_cast<uint32_t>(ranks.size());
    const uint32_t shift = job_->PeerShift(place, op.a);
    for (const Transfer& transfer : details.transfer_groups[op.b]) {
      const int32_t own = job_->job.ranks[place].world_rank;
      const int32_t peer = ranks[(transfer.peer + shift) % size];
      const Cost cost = transfer.is_send != 0
                            ? network_->Transfer(transfer.bytes, own, peer)
                            : network_->Transfer(transfer.bytes, peer, own);
      dearest = std::max(dearest, cost.duration.nanoseconds());
    }
    return dearest;
  }

  const ResolvedJob* job_;
  const NetworkModel* network_;

 public:
  std::vector<Said> said;
};

}  // namespace vrank::graph

#endif  // VRANK_TESTS_GRAPH_REPLAY_ENGINE_RECORDER_H_
