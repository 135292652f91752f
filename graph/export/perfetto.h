// A replay as a Perfetto trace: https://ui.perfetto.dev opens it.
//
// One process per class of ranks; its threads are the host (waits of the host; its
// ranges are on a track of their own) and the lanes with work and communication. Arrows
// join the two sides of a communication: who comes last, and who waits for it. A
// counter shows device memory. Packets are written as they are made; the bytes depend
// on the replay alone.
//
// Thread rule: one thread.

#ifndef VRANK_GRAPH_EXPORT_PERFETTO_H_
#define VRANK_GRAPH_EXPORT_PERFETTO_H_

#include <ostream>

#include <absl/status/status.h>

#include "graph/analysis/timeline.h"

namespace vrank::graph {

// DataLoss if `out` does not take all of it.
absl::Status WritePerfetto(const Timeline& timeline, std::ostream& out);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_EXPORT_PERFETTO_H_
