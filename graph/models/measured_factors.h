// What a site's measurements make of the modelled times: the curves of a cluster
// description (MeasuredCurve), found by operation, members, nodes and size.
//
// A curve counts for its own members and nodes. For others in the same link class
// (inside a node, between nodes) the curve of the operation counts whose members are
// nearest by ratio; without a curve of the operation the factor is 1.
//
// Thread rule: const methods, safe from several threads.

#ifndef VRANK_GRAPH_MODELS_MEASURED_FACTORS_H_
#define VRANK_GRAPH_MODELS_MEASURED_FACTORS_H_

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "graph/models/cluster.pb.h"

namespace vrank::graph {

class MeasuredFactors {
 public:
  // REQUIRES: CheckCluster(cluster).ok()
  explicit MeasuredFactors(const ClusterDescription& cluster);

  bool empty() const { return empty_; }
  // `bytes`: nccl-tests' size, the buffer with the data of all members.
  double OfCollective(ClusterOperation operation, int64_t members, int64_t nodes,
                      double bytes) const;
  double OfTransfer(bool inside, uint64_t bytes) const;

 private:
  struct Curve {
    int64_t members = 0, nodes = 0;
    std::vector<std::pair<double, double>> points;  // log of the bytes, factor
    double At(double bytes) const;
  };
  // By link class: inside a node, between nodes.
  using Classes = std::array<std::vector<Curve>, 2>;

  std::array<Classes, ClusterOperation_ARRAYSIZE> collectives_;
  Classes transfers_;
  bool empty_;
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_MODELS_MEASURED_FACTORS_H_
