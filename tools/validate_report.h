// What `vrank validate` prints: schema "vrank.validate/1", described in docs/json.md.
//
// Thread rule: pure functions.

#ifndef VRANK_TOOLS_VALIDATE_REPORT_H_
#define VRANK_TOOLS_VALIDATE_REPORT_H_

#include <optional>
#include <string>
#include <vector>

#include "tools/job.h"
#include "tools/run_comparison.h"

namespace vrank::tools {

// Where the programs of virtual ranks come from.
enum class ValidateBy {
  kFullRun,  // the fully real run
  kGraph,    // a graph built from slices that were traced one at a time
};

struct ValidateCase {
  std::vector<int32_t> real_ranks;  // none: a replay
  Comparison recorded;              // virtual ranks play recorded programs
  std::optional<Comparison> live;   // virtual ranks follow real ones of their class
  std::vector<int32_t> live_real_ranks;  // real_ranks, and who had to be added
  std::string live_not_run;              // why not, where there is no `live`
};

std::string ValidateJson(const Job& job, ValidateBy by,
                         const std::vector<ValidateCase>& cases, bool with_output);
std::string ValidateText(const Job& job, ValidateBy by,
                         const std::vector<ValidateCase>& cases, bool with_output);

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_VALIDATE_REPORT_H_
