// What `vrank validate` prints: schema "vrank.validate/1", described in docs/json.md.
//
// Thread rule: pure functions.

#ifndef VRANK_TOOLS_REPORT_VALIDATE_REPORT_H_
#define VRANK_TOOLS_REPORT_VALIDATE_REPORT_H_

#include <optional>
#include <string>
#include <vector>

#include "tools/compare/run_comparison.h"
#include "tools/job/job.h"

namespace vrank::tools {

struct ValidateCase {
  std::vector<int32_t> real_ranks;    // none: a replay
  RunComparison recorded;             // virtual ranks play recorded programs
  std::optional<RunComparison> live;  // virtual ranks follow real ones of their class
  std::vector<int32_t> live_real_ranks;  // real_ranks, and who had to be added
  std::string live_not_run;              // why not, where there is no `live`
};

// A rank of which the graph does not have what it did in the full run.
struct GraphDifference {
  int32_t rank = 0;
  int32_t plays = 0;  // the traced rank whose program it has there; own: its own
  std::string difference;
};

struct ValidateResult {
  std::vector<ValidateCase> cases;
  bool with_output = false;
  // Set where programs come from a graph of slices that were traced one at a time; else
  // they are those of the full run.
  std::optional<std::vector<GraphDifference>> graph_differences;
};

std::string ValidateJson(const Job& job, const ValidateResult& result);
std::string ValidateText(const Job& job, const ValidateResult& result);

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_REPORT_VALIDATE_REPORT_H_
