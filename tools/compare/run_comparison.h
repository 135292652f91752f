// Two runs of one job, compared to the nanosecond and to the byte.
//
// Thread rule: plain values.

#ifndef VRANK_TOOLS_COMPARE_RUN_COMPARISON_H_
#define VRANK_TOOLS_COMPARE_RUN_COMPARISON_H_

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "tools/job/job.h"
#include "tools/replay/graph_replay.h"

namespace vrank::tools {

// What is compared of a run. Kept after the run itself is gone.
struct RunRecord {
  struct EndKey {
    std::string communicator;
    uint32_t member = 0, peer = 0, is_send = 0, sequence = 0;
    friend auto operator<=>(const EndKey&, const EndKey&) = default;
  };
  // By rank: those that programs annotate, of all ranks; without annotations those that
  // are found, of real ranks.
  std::map<int32_t, std::vector<emulator::Iteration>> iterations, found_iterations;
  std::map<EndKey, int64_t> ends;
  struct Peak {
    int64_t bytes = 0, context_bytes = 0, communicator_bytes = 0;
  };
  std::map<int32_t, Peak> peaks;
  std::map<int32_t, std::vector<std::string>> output;  // stdout of real ranks
};
RunRecord MakeRecord(const Run& run,
                     std::map<int32_t, std::vector<std::string>> output);
// REQUIRES: played with GraphReplayOptions::member_ends.
RunRecord MakeRecord(const GraphReplay& replay);

struct RunComparison {
  uint64_t iterations = 0;   // compared, over all ranks
  uint64_t collectives = 0;  // ends of members compared
  uint64_t transfers = 0;
  // What one run has and the other has not: iterations, ends, ranks.
  uint64_t unmatched = 0;
  int64_t max_iteration_error_ns = 0;   // of begin and end, not only of the length
  int64_t max_collective_error_ns = 0;  // transfers included
  int64_t peak_memory_error_bytes = 0;  // of the peak, and of what it is made of
  uint64_t output_differences = 0;      // lines

  bool Equal() const {
    return unmatched == 0 && max_iteration_error_ns == 0 &&
           max_collective_error_ns == 0 && peak_memory_error_bytes == 0 &&
           output_differences == 0;
  }
};
// `full`: all ranks real. Output is compared for the ranks that have some in both.
RunComparison Compare(const RunRecord& full, const RunRecord& hybrid);

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_COMPARE_RUN_COMPARISON_H_
