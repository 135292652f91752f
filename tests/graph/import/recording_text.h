// All of a recording as text, to compare two of them.
//
// Thread rule: pure function.

#ifndef VRANK_TESTS_GRAPH_IMPORT_RECORDING_TEXT_H_
#define VRANK_TESTS_GRAPH_IMPORT_RECORDING_TEXT_H_

#include <string>

#include <absl/status/statusor.h>

#include "graph/import/recording.h"

namespace vrank::graph {

// A line for each row; the error where there is no recording.
std::string RecordingText(const absl::StatusOr<Recording>& recording);

}  // namespace vrank::graph

#endif  // VRANK_TESTS_GRAPH_IMPORT_RECORDING_TEXT_H_
