// The links that the operations of a replay share.
//
// Thread rule: one thread; serves one replay.

#ifndef VRANK_TOOLS_REPLAY_SHARED_LINKS_H_
#define VRANK_TOOLS_REPLAY_SHARED_LINKS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "graph/flow/cluster_flows.h"
#include "graph/flow/flow_contention.h"
#include "graph/flow/topology.h"
#include "tools/replay/graph_replay.h"

namespace vrank::tools {

class SharedLinks {
 public:
  // The links of the job's cluster. `priced` outlives it. An error where the costs do
  // not come from a cluster.
  static absl::StatusOr<std::unique_ptr<SharedLinks>> Of(const PricedJob& priced);

  graph::Contention* contention() { return &contention_; }

  // After the replay.
  const graph::FlowSimulation& simulation() const { return contention_.simulation(); }
  struct Link {
    std::string name;
    int64_t delay_ns;
  };
  // Links that delayed flows, at most `most` of them, the largest delay first.
  std::vector<Link> Slowest(size_t most) const;

 private:
  SharedLinks(const graph::AlphaBetaNetwork* network, int32_t ranks)
      : topology_(graph::Topology::Of(network->cluster(), ranks)),
        flows_(network, &topology_),
        contention_(&flows_) {}

  graph::Topology topology_;
  graph::ClusterFlows flows_;
  graph::FlowContention contention_;
};

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_REPLAY_SHARED_LINKS_H_
