// What `vrank replay` prints: schema "vrank.replay/1", described in docs/json.md, and
// the text that a person reads.
//
// Thread rule: pure functions.

#ifndef VRANK_TOOLS_REPORT_REPLAY_REPORT_H_
#define VRANK_TOOLS_REPORT_REPLAY_REPORT_H_

#include <optional>
#include <string>

#include "graph/analysis/replay_report.h"
#include "graph/export/goal.h"
#include "tools/compare/recording_comparison.h"
#include "tools/replay/graph_replay.h"
#include "tools/replay/what_if_trials.h"

namespace vrank::tools {

// What is printed where somebody asks for it.
struct ReplayExtras {
  bool collectives = false;  // a row per collective, in the JSON
  std::optional<RecordingComparison> against_recording;
  std::optional<WhatIfOutcome> what_if;
  std::optional<graph::GoalFacts> goal;  // the schedule that was written
};

std::string ReplayJson(const GraphReplay& replay, const graph::ReplayReport& report,
                       const ReplayExtras& extras);
std::string ReplayText(const GraphReplay& replay, const graph::ReplayReport& report,
                       const ReplayExtras& extras = {});

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_REPORT_REPLAY_REPORT_H_
