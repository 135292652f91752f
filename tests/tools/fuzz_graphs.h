// Graphs for the replay's fuzz test: a sound one with something of everything, and
// copies of it with parts changed under right checksums.

#ifndef VRANK_TESTS_TOOLS_FUZZ_GRAPHS_H_
#define VRANK_TESTS_TOOLS_FUZZ_GRAPHS_H_

#include <random>
#include <string>
#include <vector>

#include "graph/file/graph_file.pb.h"
#include "graph/program/execution_graph.h"

namespace vrank {

// The parts of a .vgraph file.
struct GraphParts {
  std::vector<std::vector<graph::Op>> programs;
  graph::GraphMeta meta;
};

// Two stages of two replicas, of which one each was traced: communicators made by init
// and by splits, work, tokens, collectives, transfers, waits, polls, queries, memory,
// ranges, releases. `own_programs`: the replicas have programs of their own, too.
GraphParts SoundGraph(bool own_programs);

// With a few ops, or bytes of the metadata, changed.
GraphParts Damaged(const GraphParts& sound, std::mt19937* random);

// The file, with the checksums that fit.
std::string Packed(const GraphParts& parts);

}  // namespace vrank

#endif  // VRANK_TESTS_TOOLS_FUZZ_GRAPHS_H_
