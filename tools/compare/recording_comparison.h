// How far a replay of an imported graph is from what was recorded: iterations, ends of
// collectives, ends of all work.
//
// Recorded durations went into the graph, so this checks order, waits and the coupling
// of ranks; it is no prediction. What can differ is what one recorded run cannot tell:
// members of a collective that end at different times, work before its inputs, a wait
// that was inferred wrongly.
//
// Thread rule: pure functions.

#ifndef VRANK_TOOLS_COMPARE_RECORDING_COMPARISON_H_
#define VRANK_TOOLS_COMPARE_RECORDING_COMPARISON_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "tools/replay/graph_replay.h"

namespace vrank::tools {

// Of differences without their signs.
struct Differences {
  uint64_t count = 0;
  int64_t median_ns = 0, largest_ns = 0;
  std::string largest_at;  // in words; empty where all are 0
};

struct RecordingComparison {
  // Lengths and ends as graph/iterations/rank_iterations.h defines them: where the host
  // runs ahead, those of the device.
  struct Iteration {
    int32_t rank = 0;
    std::string name;
    int64_t recorded_ns = 0, replayed_ns = 0;
    int64_t end_difference_ns = 0;  // replayed less recorded
    // Likewise, of the last work that the iteration issued; nothing without work.
    std::optional<int64_t> device_end_difference_ns;
    double Error() const;  // of the length: relative, with its sign
  };
  std::vector<Iteration> iterations;
  Differences collective_ends;  // of every member of every collective
  // How far the members' recorded ends of one collective are apart: what no replay that
  // ends them together can come below.
  Differences collective_noise;
  Differences work_ends;  // kernels, copies and memsets
};

// `report`: of the replay. An error where the graph was not imported.
absl::StatusOr<RecordingComparison> CompareWithRecording(
    const GraphReplay& replay, const graph::ReplayReport& report);

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_COMPARE_RECORDING_COMPARISON_H_
