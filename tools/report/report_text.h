// The summary that a person reads after a run.
//
// Thread rule: pure functions.

#ifndef VRANK_TOOLS_REPORT_REPORT_TEXT_H_
#define VRANK_TOOLS_REPORT_REPORT_TEXT_H_

#include <string>

#include "tools/report/job_report.h"

namespace vrank::tools {

std::string ReportText(const JobReport& report);

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_REPORT_REPORT_TEXT_H_
