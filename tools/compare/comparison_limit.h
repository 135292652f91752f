// Limits of a comparison, as --fail-if states them: METRIC > [+]AMOUNT[UNIT].
//
// Thread rule: plain values and pure functions.

#ifndef VRANK_TOOLS_COMPARE_COMPARISON_LIMIT_H_
#define VRANK_TOOLS_COMPARE_COMPARISON_LIMIT_H_

#include <string>

#include <absl/status/statusor.h>

#include "tools/compare/comparison.h"

namespace vrank::tools {

// A condition that fails the comparison: "iteration_time > +2%", "peak_memory > 75GiB".
struct Limit {
  std::string text;
  std::string metric;
  bool is_change = false;   // a "+": of the change against the base
  bool is_percent = false;  // of the base
  double amount = 0;        // percent, nanoseconds or bytes
};
absl::StatusOr<Limit> ParseLimit(const std::string& text);

// The finding that breaks the limit; nullptr: it holds. Fails for an unknown metric and
// for a unit that does not fit.
absl::StatusOr<const Finding*> Broken(const Limit& limit, const Comparison& comparison);

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_COMPARE_COMPARISON_LIMIT_H_
