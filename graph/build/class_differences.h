// What traced ranks of one class do differently on their GPUs.
//
// Ranks of a class run one program, and in a balanced job their GPUs do the same work.
// Where a class was traced more than once, a difference is either meant (a rank that
// writes the log) or the cause of a hang or of waits: a batch fewer, a longer sequence.
// Compared are kernels, copies, communication and the program's own memory; times of
// the host, peers, roots, streams and events are each rank's own. Times of kernels
// count where a model made them, since those that were measured are never equal.
//
// Thread rule: a pure function.

#ifndef VRANK_GRAPH_BUILD_CLASS_DIFFERENCES_H_
#define VRANK_GRAPH_BUILD_CLASS_DIFFERENCES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "graph/program/execution_graph.h"

namespace vrank::graph {

struct ClassDifference {
  struct Side {
    uint64_t op = 0;      // of its program; its size where that ends first
    std::string what;     // the op in words
    int64_t work_ns = 0;  // kernels and copies of the whole program
  };
  std::string class_name;
  std::vector<int32_t> ranks;  // which do the same
  int32_t reference = 0;       // a rank of the class that does something else
  Side of_ranks, of_reference;
};

// One row for each set of traced ranks that do not do what the first traced rank of
// their class does, with the first op in which they differ.
std::vector<ClassDifference> DifferencesWithinClasses(const ExecutionGraph& graph);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_BUILD_CLASS_DIFFERENCES_H_
