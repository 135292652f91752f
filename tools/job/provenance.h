// Where a result comes from: what was run, by which versions, under which options. JSON
// of results carries it, graphs keep it, and `vrank compare` names what differs.
//
// Thread rule: reads files, keeps no state.

#ifndef VRANK_TOOLS_JOB_PROVENANCE_H_
#define VRANK_TOOLS_JOB_PROVENANCE_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "graph/program/execution_graph.h"

namespace vrank::tools {

struct Provenance {
  std::string command;  // of the ranks: arguments, by spaces
  std::string program;  // ProgramFingerprint
  std::string options;  // CostOptions, and stragglers
  // Name -> version: "vrank" with a checksum of its descriptions, and what
  // emulator/launch/loaded_software.h finds in a real rank.
  std::map<std::string, std::string> software;
};

// What the slices of a graph say; "vrank" is the version that recorded them.
Provenance ProvenanceOf(const graph::ExecutionGraph& graph);

// What the programs of a graph hand to NCCL, each program once, in bytes: collectives'
// counts and sends. With the number of iterations it tells one model from another.
uint64_t CommunicationBytes(const graph::ExecutionGraph& graph);

// {"command": ..., "program": ..., "options": ..., "software": {...}}
nlohmann::ordered_json ProvenanceJson(const Provenance& provenance);

// One thing that is not the same in the provenance of two results.
struct ProvenanceDifference {
  std::string what;  // "command", "program", "options", or a name of software
  std::string base, updated;
};
// Of `command` and `options`, the part between what both begin and end with.
std::vector<ProvenanceDifference> FindDifferences(const Provenance& base,
                                                  const Provenance& updated);

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_JOB_PROVENANCE_H_
