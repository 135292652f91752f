// Times of kernels out of traces of a real GPU.
//
// Thread rule: one table.

#ifndef VRANK_GRAPH_BUILD_KERNEL_COLLECTION_H_
#define VRANK_GRAPH_BUILD_KERNEL_COLLECTION_H_

#include <absl/status/status.h>

#include "graph/file/kernel_table.h"
#include "graph/trace/rank_trace.h"

namespace vrank::graph {

// Adds every kernel of the trace; KernelTable::Finish makes rows of them. NCCL's
// kernels are left out: how long they take is a matter of the other ranks. Fails for a
// trace of a virtual GPU, whose times are a model's, and for one of another GPU.
absl::Status CollectKernels(const RankTrace& trace, KernelTable* table);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_BUILD_KERNEL_COLLECTION_H_
