// `vrank kernels list`: what a job's GPUs spend their time in, and where that time
// comes from.
//
// Thread rule: pure functions.

#ifndef VRANK_TOOLS_REPORT_KERNEL_USES_H_
#define VRANK_TOOLS_REPORT_KERNEL_USES_H_

#include <string>
#include <vector>

#include "graph/analysis/kernel_use.h"

namespace vrank::tools {

// `file`: the graph's, for the reader.
std::string KernelUsesJson(const graph::ExecutionGraph& graph,
                           const std::vector<graph::KernelUse>& uses,
                           const std::string& file);
std::string KernelUsesText(const graph::ExecutionGraph& graph,
                           const std::vector<graph::KernelUse>& uses,
                           const std::string& file);

// The text of a cost file (graph/models/kernel_costs.proto) with one entry for each
// kernel of `uses` whose time is assumed, in their order. Amounts are left empty, which
// `--kernels` refuses by the kernel's name: only who knows the kernel can fill them in.
std::string CostFileSkeleton(const std::vector<graph::KernelUse>& uses);

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_REPORT_KERNEL_USES_H_
