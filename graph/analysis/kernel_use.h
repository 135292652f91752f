// Which kernels a job spends its time in, and how sure that time is.
//
// A sum over programs, not over a replay: the time that work takes once it runs. Waits
// and overlaps are not in it.
//
// Thread rule: pure functions.

#ifndef VRANK_GRAPH_ANALYSIS_KERNEL_USE_H_
#define VRANK_GRAPH_ANALYSIS_KERNEL_USE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "graph/program/execution_graph.h"

namespace vrank::graph {

struct KernelUse {
  std::string name;  // as launched: mangled, or what the API function is called
  WorkClass work = WorkClass::kOther;
  Source source = Source::kModelled;
  uint64_t launches = 0;  // over all ranks
  int64_t total_ns = 0;   // over all ranks
  int64_t min_ns = 0, max_ns = 0;
  // By how much more assumed work weighs in the ledger (OpKind::kWork), over all ranks.
  int64_t unseen_ns = 0;
  int64_t weight_ns() const { return total_ns + unseen_ns; }
};

// Everything that runs on a GPU apart from NCCL, the heaviest in total first.
std::vector<KernelUse> KernelsByTime(const ExecutionGraph& graph);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_ANALYSIS_KERNEL_USE_H_
