#include "tools/compare/work_totals.h"

#include <algorithm>
#include <cmath>

namespace vrank::tools {

WorkChanges FindWorkChanges(const WorkTotals& base, const WorkTotals& updated) {
  WorkChanges changes;
  if (base.ranks == 0 || updated.ranks == 0)
    return changes;
  changes.per_iteration = base.iterations == updated.iterations;
  if (changes.per_iteration)
    changes.iterations = std::max<int64_t>(base.iterations, 1);
  std::map<std::pair<std::string, std::string>, WorkChange> rows;
  const auto add = [&](const WorkTotals& totals, double sign) {
    const double share = sign / static_cast<double>(changes.iterations * totals.ranks);
    for (const auto& [key, total] : totals.rows) {
      WorkChange& row = rows[key];
      row.kind = key.first;
      row.name = key.second;
      row.calls += share * static_cast<double>(total.calls);
      row.time_ns += share * static_cast<double>(total.time_ns);
    }
  };
  add(updated, 1);
  add(base, -1);
  // What is left of equal sums of fractions is no change.
  constexpr double kRounding = 1e-3;
  for (auto& [key, row] : rows)
    if (std::abs(row.calls) > kRounding || std::abs(row.time_ns) > kRounding)
      changes.rows.push_back(std::move(row));
  std::stable_sort(changes.rows.begin(), changes.rows.end(),
                   [](const WorkChange& a, const WorkChange& b) {
                     return std::abs(a.time_ns) > std::abs(b.time_ns);
                   });
  return changes;
}

}  // namespace vrank::tools
