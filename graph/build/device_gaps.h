// What a real GPU takes between two pieces of work of a stream.
//
// A kernel that was queued while another one ran begins a microsecond or two after that
// one's end. A profile shows the gap as nobody's time; to the stream it is as good as
// the kernel's own: it passes at every launch that follows another one. So it counts to
// the work behind it. Longer gaps are waits for something else (another stream, the
// host), which a replay finds again by itself.
//
// Thread rule: a pure function.

#ifndef VRANK_GRAPH_BUILD_DEVICE_GAPS_H_
#define VRANK_GRAPH_BUILD_DEVICE_GAPS_H_

#include <cstdint>
#include <vector>

#include "graph/trace/rank_trace.h"

namespace vrank::graph {

// By row of trace.work, nanoseconds: between its start and the end of the work before
// it on its stream, where its call had returned by that end; 0 for other rows. On a
// virtual GPU the gap is the model's, before every kernel, copy and memset.
std::vector<int64_t> DeviceGaps(const RankTrace& trace);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_BUILD_DEVICE_GAPS_H_
