// How far a replay is from what was recorded, in words and as JSON.
//
// Thread rule: pure functions.

#ifndef VRANK_TOOLS_REPORT_RECORDING_REPORT_H_
#define VRANK_TOOLS_REPORT_RECORDING_REPORT_H_

#include <string>

#include <nlohmann/json.hpp>

#include "tools/compare/recording_comparison.h"

namespace vrank::tools {

std::string ComparisonText(const RecordingComparison& comparison);
nlohmann::ordered_json ComparisonJson(const RecordingComparison& comparison);

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_REPORT_RECORDING_REPORT_H_
