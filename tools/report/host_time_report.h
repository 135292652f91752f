// A comparison of host times, in words and as JSON.
//
// Thread rule: pure functions.

#ifndef VRANK_TOOLS_REPORT_HOST_TIME_REPORT_H_
#define VRANK_TOOLS_REPORT_HOST_TIME_REPORT_H_

#include <string>
#include <vector>

#include "tools/compare/host_time_comparison.h"

namespace vrank::tools {

struct JudgedLimit {
  Limit limit;
  LimitOutcome outcome = LimitOutcome::kHolds;
};
std::string HostTimeComparisonText(const HostTimeComparison& comparison,
                                   const std::vector<JudgedLimit>& limits);
// Schema "vrank.compare_host_time/1", docs/json.md.
std::string HostTimeComparisonJson(const HostTimeComparison& comparison,
                                   const std::vector<JudgedLimit>& limits);

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_REPORT_HOST_TIME_REPORT_H_
