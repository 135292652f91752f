// Prices collectives and transfers, for scripts/validate_collectives.
//
// Reads lines "CLUSTER OPERATION MEMBERS NODES BYTES" and prints for each the model's
// time in nanoseconds and the algorithm that it takes. OPERATION and BYTES are those of
// nccl-tests: `sendrecv` is a transfer between neighbours, and BYTES is the size of the
// whole buffer. Members are spread evenly over the first NODES nodes.

#include <cstdint>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "graph/models/alpha_beta_network.h"
#include "graph/models/cluster.h"

namespace vrank::graph {
namespace {

int Fail(const std::string& what) {
  std::cerr << "collective_prices: " << what << "\n";
  return 1;
}

int Main() {
  const std::map<std::string, std::pair<CollectiveKind, bool>> operations = {
      // The second: the size is that of all members together.
      {"all_reduce", {CollectiveKind::kAllReduce, false}},
      {"all_gather", {CollectiveKind::kAllGather, true}},
      {"reduce_scatter", {CollectiveKind::kReduceScatter, true}},
      {"broadcast", {CollectiveKind::kBroadcast, false}},
      {"reduce", {CollectiveKind::kReduce, false}},
      {"alltoall", {CollectiveKind::kAllToAll, true}},
  };
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
    const int32_t per_node = RanksPerNode(network->cluster());
    if (nodes < 1 || count < 2 || count % nodes != 0 || count / nodes > per_node)
      return Fail("members that do not fit: " + operation);
    std::vector<int32_t> members;
    for (int32_t i = 0; i < count; ++i)
      members.push_back(i / (count / nodes) * per_node + i % (count / nodes));
    if (operation == "sendrecv") {
      const int32_t to = nodes == 1 ? members[1] : members[count / nodes];
      std::cout << network->Transfer(bytes, members[0], to).duration.nanoseconds()
                << " transfer\n";
      continue;
    }
    const auto found = operations.find(operation);
    if (found == operations.end())
      return Fail("unknown operation " + operation);
    const auto [kind, is_total] = found->second;
    CollectiveCall call;
    call.operation = kind;
    call.type = ElementType::kUint8;
    call.count = is_total ? bytes / static_cast<uint64_t>(count) : bytes;
    std::cout << network->Collective(call, members).duration.nanoseconds() << " "
              << network->AlgorithmName(call, members) << "\n";
  }
  return 0;
}

}  // namespace
}  // namespace vrank::graph

int main() {
  return vrank::graph::Main();
}
