// Descriptions of kernels that a job is priced with (graph/models/kernel_costs.proto):
// those that its flags give, then vrank's own, of frameworks whose kernels everybody
// has.
//
// Thread rule: reads files; no state.

#ifndef VRANK_TOOLS_JOB_KERNEL_DESCRIPTIONS_H_
#define VRANK_TOOLS_JOB_KERNEL_DESCRIPTIONS_H_

#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "graph/models/kernel_costs.h"
#include "tools/machine/installation.h"

namespace vrank::tools {

// Whether a file that the user gives is, by its name and content, vrank's own.
absl::StatusOr<bool> IsOwnDescription(const std::string& path,
                                      const Installation& installation);

// The first description that fits a kernel holds, so that given files come before
// vrank's own.
absl::StatusOr<graph::KernelCosts> ReadKernelCosts(
    const std::vector<std::string>& given, const Installation& installation);

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_JOB_KERNEL_DESCRIPTIONS_H_
