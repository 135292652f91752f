// Costs of communication as somebody's profiler recorded them: what a graph that was
// imported replays with, unless a cluster is named to replay it on.
//
// Collectives carry their cost (CollectiveCall::recorded_ns). An imported graph has no
// transfers (they are plain work), and its communicators existed before the recording
// began, so they cost nothing here.
//
// Thread rule: const methods, from any thread.

#ifndef VRANK_GRAPH_MODELS_RECORDED_NETWORK_H_
#define VRANK_GRAPH_MODELS_RECORDED_NETWORK_H_

#include <span>

#include "graph/replay/network_model.h"

namespace vrank::graph {

class RecordedNetwork : public NetworkModel {
 public:
  Cost Collective(const CollectiveCall& call, std::span<const int32_t>) const override {
    return {Duration::Nanoseconds(static_cast<int64_t>(call.recorded_ns)),
            Source::kRecorded};
  }
  Cost Transfer(uint64_t, int32_t, int32_t) const override { return Nothing(); }
  uint64_t TransferCreditBytes(int32_t, int32_t) const override { return 0; }
  Cost Creation(std::span<const int32_t>) const override { return Nothing(); }

 private:
  static Cost Nothing() { return {Duration::Nanoseconds(0), Source::kRecorded}; }
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_MODELS_RECORDED_NETWORK_H_
