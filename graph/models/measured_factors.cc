#include "graph/models/measured_factors.h"

#include <algorithm>
#include <cmath>

namespace vrank::graph {
namespace {

constexpr size_t kInside = 0, kBetween = 1;

size_t ClassOf(int64_t nodes) {
  return nodes <= 1 ? kInside : kBetween;
}

}  // namespace

MeasuredFactors::MeasuredFactors(const ClusterDescription& cluster)
    : empty_(cluster.measured().empty()) {
  for (const MeasuredCurve& measured : cluster.measured()) {
    Curve curve{.members = measured.members(), .nodes = measured.nodes(), .points = {}};
    for (const MeasuredCurve::Point& point : measured.point())
      curve.points.emplace_back(std::log(static_cast<double>(point.bytes())),
                                point.factor());
    Classes& classes =
        measured.transfer() ? transfers_ : collectives_[measured.operation()];
    classes[ClassOf(curve.nodes)].push_back(std::move(curve));
  }
}

double MeasuredFactors::Curve::At(double bytes) const {
  const double at = std::log(std::max(bytes, 1.));
  const auto after = std::upper_bound(
      points.begin(), points.end(), at,
      [](double value, const auto& point) { return value < point.first; });
  if (after == points.begin())
    return points.front().second;
  if (after == points.end())
    return points.back().second;
  const auto& [low, low_factor] = *(after - 1);
  const auto& [high, high_factor] = *after;
  return low_factor + (high_factor - low_factor) * (at - low) / (high - low);
}

double MeasuredFactors::OfCollective(ClusterOperation operation, int64_t members,
                                     int64_t nodes, double bytes) const {
  const std::vector<Curve>& curves = collectives_[operation][ClassOf(nodes)];
  const Curve* nearest = nullptr;
  double least = 0;
  for (const Curve& curve : curves) {
    if (curve.members == members && curve.nodes == nodes)
      return curve.At(bytes);
    const double apart = std::fabs(
        std::log(static_cast<double>(curve.members) / static_cast<double>(members)));
    if (nearest == nullptr || apart < least) {
      nearest = &curve;
      least = apart;
    }
  }
  return nearest == nullptr ? 1 : nearest->At(bytes);
}

double MeasuredFactors::OfTransfer(bool inside, uint64_t bytes) const {
  const std::vector<Curve>& curves = transfers_[inside ? kInside : kBetween];
  return curves.empty() ? 1 : curves.front().At(static_cast<double>(bytes));
}

}  // namespace vrank::graph
