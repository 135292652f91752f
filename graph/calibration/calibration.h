// Fits a cluster description to a site: from tables of nccl-tests a factor by size for
// each operation, number of members and number of nodes (MeasuredCurve), on top of the
// algorithms of a base description. The algorithms give the shape between the measured
// sizes and beyond them; the factors give the site.
//
// What no table measured keeps the base's time, or follows the nearest curve
// (measured_factors.h); Undetermined names it.
//
// Thread rule: pure functions and plain values.

#ifndef VRANK_GRAPH_CALIBRATION_CALIBRATION_H_
#define VRANK_GRAPH_CALIBRATION_CALIBRATION_H_

#include <cstdint>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "graph/calibration/nccl_tests_log.h"
#include "graph/models/alpha_beta_network.h"
#include "graph/models/cluster.pb.h"

namespace vrank::graph {

// Relative errors of predictions, as 0.05 for 5 %.
struct ErrorSpread {
  double median = 0;       // of the sizes of the errors
  double p90 = 0;          // likewise
  double median_sign = 0;  // of the errors: negative where predictions are too short
};

struct FittedCurve {
  MeasuredCurve curve;
  std::string operation;           // nccl-tests' name
  std::vector<std::string> files;  // that it was measured in
  uint64_t rows = 0;               // of them
  ErrorSpread before;              // of the base description
  // Each size but the first and last, predicted by a curve without it.
  ErrorSpread left_out;
};

struct Calibration {
  std::vector<FittedCurve> curves;  // by operation, members, nodes
  // Of the description as it becomes: which times are still the base's, and which
  // follow a curve of other members.
  std::vector<std::string> undetermined;
};

// Fails where a table has too few sizes, does not fit the base's nodes, or contradicts
// another one of the same operation, members and nodes: those are of two sites.
absl::StatusOr<Calibration> Calibrate(const ClusterDescription& base,
                                      const std::vector<MeasuredTable>& tables);

// The members' ranks where `members` of them lie evenly on the first `nodes` nodes.
// Fails where they do not fit.
absl::StatusOr<std::vector<int32_t>> SpreadMembers(const ClusterDescription& cluster,
                                                   int64_t members, int64_t nodes);

struct Prediction {
  int64_t ns = 0;
  std::string algorithm;  // "transfer" of a sendrecv
};
// Of a row of nccl-tests: `operation` is one of NcclTestsOperations, a sendrecv is a
// transfer to the next member or, between nodes, to the next node.
Prediction Predict(const AlphaBetaNetwork& network, const std::string& operation,
                   const std::vector<int32_t>& members, uint64_t bytes);

// The text of a description file: that of the base with another name, and the curves
// behind it, each with its source and errors.
std::string CalibratedText(const std::string& base_text, const std::string& name,
                           const Calibration& calibration);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_CALIBRATION_CALIBRATION_H_
