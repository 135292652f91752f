// What each piece of work and each wait of the host comes after, and how long after.
//
// Starts are explained and then forgotten: a program holds costs, not times. Work
// starts after what ran before it on its stream, after its launch, and after what its
// stream was told to wait for. What lies between the last of these and the recorded
// start is a cost of whichever of them it was: a launch latency beside the stream, or a
// gap on it. A gap that neither explains is counted as unexplained.
//
// Waits of streams and of the host are as the profiler recorded them (cuda_sync), or
// inferred where it was not asked to:
//   - A stream's wait belongs to the work that is issued next, and is for the work of
//     another stream, issued before it, that ended last among those that had ended when
//     the waiting work began; each wait before one work takes another stream.
//   - Where that work did not begin at such an end, the wait may be that of another
//     stream, to which something is issued only later (FSDP2's copies beside its
//     products): it belongs to work that nothing else explains and that begins at the
//     end of another stream's, behind which an event was recorded before the wait.
//   - The host's wait for a stream is for the one that its thread used last, if that
//     had ended by then; any other wait is for what had ended last.
//
// Thread rule: pure function.

#ifndef VRANK_GRAPH_IMPORT_DEPENDENCIES_H_
#define VRANK_GRAPH_IMPORT_DEPENDENCIES_H_

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "graph/import/host_order.h"
#include "graph/import/import_losses.h"
#include "graph/import/recording.h"

namespace vrank::graph {

// How a piece of work starts.
struct WorkStart {
  int64_t begin_ns = 0, end_ns = 0;  // as recorded, but never before its inputs
  // From its launch to the device, beyond EngineOptions::launch_latency.
  int64_t latency_ns = 0;
  int64_t gap_ns = 0;             // on its stream, after all it waits for
  std::vector<uint32_t> awaited;  // work of other streams
};

struct Dependencies {
  std::vector<WorkStart> works;  // by work
  // By point of a host wait: the work that it waits for.
  std::unordered_map<uint32_t, std::vector<uint32_t>> host_waits;
  std::vector<bool> is_awaited;  // by work: by a stream or the host
  int64_t unexplained_ns = 0;    // of starts that neither launch nor inputs explain
  uint64_t unexplained_works = 0;
};

// `latency_ns`: EngineOptions::launch_latency, the same for all ranks.
Dependencies FindDependencies(const Recording& recording, const HostOrder& order,
                              int64_t latency_ns, ImportLosses* losses);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_IMPORT_DEPENDENCIES_H_
