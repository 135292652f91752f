// A what-if: one change of how long things take in a job, as a user writes it.
//
//   kernel GLOB CHANGE        kernels, copies and memsets by name (`*`, `?`)
//   busiest stream CHANGE     work of the stream with the most of it, on each rank
//   OPERATION CHANGE          all_reduce, all_gather, ..., send_recv
//   communication CHANGE      all of them; also `network`
//   host CHANGE               the host's time between operations
//   rank N host CHANGE        likewise, of one rank
//   gaps CHANGE               recorded gaps of unknown cause on streams
//   launch_latency CHANGE     from a launch to its work
//   rank N host as median     each host time is the median of its like, or the mean
//   no stragglers             each work takes the median duration of its like
//   no stragglers as mean     ... computations take the mean
//
// CHANGE is `x0.5` (that many times as long) or `free` (`x0`).
//
// Thread rule: plain values.

#ifndef VRANK_GRAPH_WHAT_IF_WHAT_IF_H_
#define VRANK_GRAPH_WHAT_IF_WHAT_IF_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <absl/status/statusor.h>

namespace vrank::graph {

struct WhatIf {
  enum class Subject : uint8_t {
    kKernel,
    kBusiestStream,
    kCommunication,
    kHost,
    kGaps,
    kLaunchLatency,
    kStragglers,
  };

  std::string text;  // as written, for reports
  Subject subject = Subject::kKernel;
  std::string name;   // kKernel: the glob; kCommunication: empty is all of it
  int32_t rank = -1;  // kHost: of this rank alone
  enum class Change : uint8_t { kScale, kMedian, kMean };
  Change change = Change::kScale;
  double factor = 1;  // kScale

  bool ChangesCommunication() const {
    return subject == Subject::kCommunication || subject == Subject::kStragglers;
  }
};

// The error states what is wrong and what an edit may be.
absl::StatusOr<WhatIf> ParseWhatIf(std::string_view text);

// The operations that a what-if may name.
const std::vector<std::string>& CommunicationNames();

// Whether `glob` (`*`: any text, `?`: any character) matches all of `text`.
bool GlobMatches(std::string_view glob, std::string_view text);

// Up to `most` of `names`, the most similar to `wanted` first.
std::vector<std::string> NearestNames(std::string_view wanted,
                                      const std::vector<std::string>& names,
                                      size_t most);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_WHAT_IF_WHAT_IF_H_
