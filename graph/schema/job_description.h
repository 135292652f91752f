// What a job is, apart from what its ranks do: the same in each recorded slice and in
// the graph that is built of them.
//
// Thread rule: plain values. Times: nanoseconds.

#ifndef VRANK_GRAPH_SCHEMA_JOB_DESCRIPTION_H_
#define VRANK_GRAPH_SCHEMA_JOB_DESCRIPTION_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace vrank::graph {

struct JobDescription {
  int32_t world_size = 0;
  std::string layout;            // membership's Layout::ToString(); empty: none
  bool layout_inferred = false;  // from the calls of all ranks; else stated
  std::vector<std::string> group_hints;
  std::string gpu, cluster;         // names of descriptions
  bool virtual_gpu = false;         // work was timed by models, not recorded on a GPU
  std::string command;              // arguments, by spaces
  std::string program_fingerprint;  // of the program's own code
  std::string cost_options;         // virtual GPU: costs that were stated, and files
  std::map<std::string, std::string> software;  // versions, by name
  int64_t launch_latency_ns = 0;                // virtual GPU
  uint32_t launch_queue_depth = 0;
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_SCHEMA_JOB_DESCRIPTION_H_
