// The links that the operations of a replay share, and what came of it.
//
// Thread rule: one thread; serves one replay.

#ifndef VRANK_TOOLS_CONTENTION_REPORT_H_
#define VRANK_TOOLS_CONTENTION_REPORT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <absl/status/statusor.h>
#include <nlohmann/json.hpp>

#include "graph/flow/cluster_flows.h"
#include "graph/flow/flow_contention.h"
#include "graph/flow/topology.h"
#include "tools/graph_replay.h"

namespace vrank::tools {

class SharedLinks {
 public:
  // The links of the job's cluster. `priced` outlives it. An error where the costs do
  // not come from a cluster.
  static absl::StatusOr<std::unique_ptr<SharedLinks>> Of(const PricedJob& priced);

  graph::Contention* contention() { return &contention_; }

  // After the replay.
  nlohmann::ordered_json ToJson() const;
  std::string ToText() const;

 private:
  SharedLinks(const graph::AlphaBetaNetwork* network, int32_t ranks)
      : topology_(graph::Topology::Of(network->cluster(), ranks)),
        flows_(network, &topology_),
        contention_(&flows_) {}

  struct Link {
    std::string name;
    int64_t delay_ns;
  };
  std::vector<Link> Slowest() const;

  graph::Topology topology_;
  graph::ClusterFlows flows_;
  graph::FlowContention contention_;
};

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_CONTENTION_REPORT_H_
