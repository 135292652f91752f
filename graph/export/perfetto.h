// A replay as a Perfetto trace: https://ui.perfetto.dev opens it.
//
// One process per class of ranks, or one for each rank that was asked for; its threads
// are the host (its waits, and its own time where that was recorded or measured; its
// ranges are on a track of their own) and the lanes with work and communication. Arrows
// join the two sides of a communication: who comes last, and who waits for it. A
// counter shows device memory. Processes come in the order of their ranks. Packets are
// written as they are made; the bytes depend on the replay alone.
//
// Of an iteration each process shows its own: it begins and ends at other times on
// other ranks.
//
// Size: about 40 bytes per slice, since names are written once; a class of a trainer
// with 64 micro-batches has some 10,000 of them per iteration.
//
// Thread rule: one thread.

#ifndef VRANK_GRAPH_EXPORT_PERFETTO_H_
#define VRANK_GRAPH_EXPORT_PERFETTO_H_

#include <limits>
#include <ostream>
#include <vector>

#include <absl/status/status.h>

#include "graph/analysis/timeline.h"

namespace vrank::graph {

// A span of a rank's clock, without its end.
struct PerfettoSpan {
  int64_t begin_ns = std::numeric_limits<int64_t>::min();
  int64_t end_ns = std::numeric_limits<int64_t>::max();

  // Whether anything from begin to end is in it; a moment is where it begins.
  bool Shows(int64_t begin, int64_t end) const {
    return begin < end_ns && (begin == end ? begin >= begin_ns : end > begin_ns);
  }
};

struct PerfettoOptions {
  // What is shown of each rank that was played, by place in Timeline::ranks(); empty:
  // all. What goes beyond its rank's span is cut at it, host and streams alike: work
  // that an earlier iteration issued shows where it runs into the span. An arrow is
  // shown where both of its ends begin in the spans of their ranks.
  std::vector<PerfettoSpan> spans;
  // World ranks to show, each as a process of its own. Empty: one process per class,
  // under the name of its lowest rank.
  std::vector<int32_t> ranks;
  // Who meets whom. REQUIRED where `ranks` has any: the job that was replayed, and how
  // it was folded.
  const ResolvedJob* job = nullptr;
  const Quotient* quotient = nullptr;
};

// DataLoss if `out` does not take all of it.
absl::Status WritePerfetto(const Timeline& timeline, const PerfettoOptions& options,
                           std::ostream& out);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_EXPORT_PERFETTO_H_
