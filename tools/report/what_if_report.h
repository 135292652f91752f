// What-ifs of a graph (replay/what_if_trials.h) in words and as JSON: their effect on
// the iteration, and the table of what each part of the job would bring.
//
// Thread rule: pure functions.

#ifndef VRANK_TOOLS_REPORT_WHAT_IF_REPORT_H_
#define VRANK_TOOLS_REPORT_WHAT_IF_REPORT_H_

#include <string>

#include <nlohmann/json.hpp>

#include "graph/program/execution_graph.h"
#include "tools/replay/what_if_trials.h"

namespace vrank::tools {

std::string WhatIfText(const WhatIfOutcome& outcome);
nlohmann::ordered_json WhatIfJson(const WhatIfOutcome& outcome);

// The text, or the JSON (schema "vrank.what_if_table/1"), ends with a line break.
std::string WhatIfTableText(const graph::ExecutionGraph& graph,
                            const WhatIfTrials& present);
std::string WhatIfTableJson(const graph::ExecutionGraph& graph,
                            const WhatIfTrials& present);

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_REPORT_WHAT_IF_REPORT_H_
