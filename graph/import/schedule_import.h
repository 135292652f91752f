// Makes the execution graph of a run from what its timers recorded (schedule.proto):
// tasks of each rank with lengths, lanes, order and partners.
//
// As in an import of profiles, no recorded start is used but where each rank begins its
// first step, and how long it is between its steps: a task starts when its lane is free
// and what it comes after has ended; a collective ends by its last arrival plus the
// shortest length that a member recorded, a transfer likewise. A step ends with its
// last task.
//
// Thread rule: pure functions.

#ifndef VRANK_GRAPH_IMPORT_SCHEDULE_IMPORT_H_
#define VRANK_GRAPH_IMPORT_SCHEDULE_IMPORT_H_

#include <string>

#include <absl/status/statusor.h>

#include "graph/import/imported_run.h"

namespace vrank::graph {

class Schedule;

// `file` is named in errors and kept with the graph. Errors name the rank, the step and
// the task.
absl::StatusOr<ImportedRun> ImportSchedule(const Schedule& schedule,
                                           const std::string& file);

// Reads the file (text), too.
absl::StatusOr<ImportedRun> ReadSchedule(const std::string& file);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_IMPORT_SCHEDULE_IMPORT_H_
