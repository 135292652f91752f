// Names of the kHostFunc ops by which an imported program delays a stream
// (graph/import): what a report says of them depends on which of the two it is.

#ifndef VRANK_GRAPH_SCHEMA_LANE_GAPS_H_
#define VRANK_GRAPH_SCHEMA_LANE_GAPS_H_

namespace vrank::graph {

// From a launch to its work, beyond EngineOptions::launch_latency: beside the stream.
inline constexpr char kLaunchLatencyName[] = "launch latency";
// On the stream, later than all that the work is known to wait for.
inline constexpr char kUnexplainedGapName[] = "gap on the stream";

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_SCHEMA_LANE_GAPS_H_
