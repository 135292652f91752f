// --kernel-times: tables of recorded kernel times that a job is priced with.
//
// Thread rule: reads files, keeps no state.

#ifndef VRANK_TOOLS_JOB_KERNEL_TIMES_H_
#define VRANK_TOOLS_JOB_KERNEL_TIMES_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <absl/status/statusor.h>

#include "graph/file/kernel_table.h"

namespace vrank::tools {

// All tables as one (KernelTable::Merge); nullptr where there is no file. An error that
// names the file where one cannot be read, or is not of `gpu` (Gpu::short_name);
// `or_else` is what the latter says besides of a way out.
absl::StatusOr<std::shared_ptr<const graph::KernelTable>> ReadKernelTimes(
    const std::vector<std::string>& files, const std::string& gpu,
    std::string_view or_else = "");

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_JOB_KERNEL_TIMES_H_
