// The JSON of `vrank emulate`: schema "vrank.emulate/1", described in docs/json.md.
//
// Thread rule: pure functions.

#ifndef VRANK_TOOLS_REPORT_REPORT_JSON_H_
#define VRANK_TOOLS_REPORT_REPORT_JSON_H_

#include <string>

#include "tools/report/job_report.h"

namespace vrank::tools {

// `with_collectives`: one row per collective of the job.
std::string ReportJson(const JobReport& report, bool with_collectives);

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_REPORT_REPORT_JSON_H_
