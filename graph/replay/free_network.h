// A network on which nothing takes time: for plays that ask whether a job fits
// together, not how long it takes.
//
// Thread rule: const methods, safe from several threads.

#ifndef VRANK_GRAPH_REPLAY_FREE_NETWORK_H_
#define VRANK_GRAPH_REPLAY_FREE_NETWORK_H_

#include "graph/replay/network_model.h"

namespace vrank::graph {

class FreeNetwork : public NetworkModel {
 public:
  Cost Collective(const CollectiveCall&, std::span<const int32_t>) const override {
    return {};
  }
  Cost Transfer(uint64_t, int32_t, int32_t) const override { return {}; }
  // A send goes without its receiver as on the clusters in data/clusters, so that what
  // runs there is no halt here. NCCL src/include/device.h: the Simple buffer of a
  // channel.
  uint64_t TransferCreditBytes(int32_t, int32_t) const override { return 4 << 20; }
  Cost Creation(std::span<const int32_t>) const override { return {}; }
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_FREE_NETWORK_H_
