// What `vrank replay` prints: schema "vrank.replay/1", described in docs/json.md, and
// the text that a person reads.
//
// Thread rule: pure functions.

#ifndef VRANK_TOOLS_REPLAY_REPORT_H_
#define VRANK_TOOLS_REPLAY_REPORT_H_

#include <string>

#include "graph/analysis/replay_report.h"
#include "tools/graph_replay.h"

namespace vrank::tools {

std::string ReplayJson(const GraphReplay& replay, const graph::ReplayReport& report,
                       bool with_collectives);
std::string ReplayText(const GraphReplay& replay, const graph::ReplayReport& report);

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_REPLAY_REPORT_H_
