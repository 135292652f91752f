// Prices collectives and transfers, for scripts/validate_collectives.
//
// Reads lines "CLUSTER OPERATION MEMBERS NODES BYTES" and prints for each the model's
// time in nanoseconds and the algorithm that it takes. OPERATION and BYTES are those of
// nccl-tests: `sendrecv` is a transfer between neighbours, and BYTES is the size of the
// whole buffer. Members are spread evenly over the first NODES nodes.

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "graph/calibration/calibration.h"
#include "graph/models/alpha_beta_network.h"
#include "graph/models/cluster.h"

namespace vrank::graph {
namespace {

int Fail(const std::string& what) {
  std::cerr << "collective_prices: " << what << "\n";
  return 1;
}

int Main() {
  std::map<std::string, std::unique_ptr<AlphaBetaNetwork>> networks;
  std::string cluster, operation;
  int32_t count = 0, nodes = 0;
  uint64_t bytes = 0;
  while (std::cin >> cluster >> operation >> count >> nodes >> bytes) {
    std::unique_ptr<AlphaBetaNetwork>& network = networks[cluster];
    if (network == nullptr) {
      const auto description = LoadCluster(cluster, VRANK_DATA_DIR);
      if (!description.ok())
        return Fail(description.status().ToString());
      network = std::make_unique<AlphaBetaNetwork>(*description);
    }
    const std::vector<std::string>& known = NcclTestsOperations();
    if (std::find(known.begin(), known.end(), operation) == known.end())
      return Fail("unknown operation " + operation);
    const auto members = SpreadMembers(network->cluster(), count, nodes);
    if (!members.ok())
      return Fail(std::string(members.status().message()));
    const Prediction predicted = Predict(*network, operation, *members, bytes);
    std::cout << predicted.ns << " " << predicted.algorithm << "\n";
  }
  return 0;
}

}  // namespace
}  // namespace vrank::graph

int main() {
  return vrank::graph::Main();
}
