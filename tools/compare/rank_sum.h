// How far two sets of measurements lie apart, without an assumption about how they are
// distributed: the Hodges-Lehmann estimate, and the interval that the Mann-Whitney test
// does not reject (Hollander and Wolfe, Nonparametric Statistical Methods,
// section 4.3).
//
// Thread rule: pure functions.

#ifndef VRANK_TOOLS_COMPARE_RANK_SUM_H_
#define VRANK_TOOLS_COMPARE_RANK_SUM_H_

#include <cstddef>
#include <optional>
#include <span>

namespace vrank::tools {

// Of the values of `b` less those of `a`.
struct Shift {
  double estimate = 0;       // the median of all differences
  double low = 0, high = 0;  // the interval
};

// The exact interval that contains the shift with at least this confidence (0.99).
// Nothing where so few values cannot have it: at 0.99, five on each side can.
std::optional<Shift> FindShift(std::span<const double> a, std::span<const double> b,
                               double confidence);

// Equal numbers on both sides that FindShift needs for the confidence.
size_t LeastValues(double confidence);

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_COMPARE_RANK_SUM_H_
