// What the vector code can leave out, read off a whole code.
//
// Thread rule: functions of their argument.

#ifndef VRANK_GRAPH_SWEEP_SHORTCUTS_H_
#define VRANK_GRAPH_SWEEP_SHORTCUTS_H_

#include "graph/sweep/code.h"

namespace vrank::graph {

// Puts a kRun in front of all works on one lane that follow each other: mostly the host
// is far ahead of them. And notes which ends of operations only their lane looks at
// (SweepMeeting::is_kept).
void FindShortcuts(SweepCode* code);
// The first part of it. REQUIRES: the code has no kRun.
void MarkRuns(SweepCode* code);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_SWEEP_SHORTCUTS_H_
