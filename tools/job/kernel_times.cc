#include "tools/job/kernel_times.h"

#include <fmt/format.h>

#include "base/status_macros.h"

namespace vrank::tools {

absl::StatusOr<std::shared_ptr<const graph::KernelTable>> ReadKernelTimes(
    const std::vector<std::string>& files, const std::string& gpu,
    std::string_view or_else) {
  if (files.empty())
    return nullptr;
  auto all = std::make_shared<graph::KernelTable>(gpu);
  for (const std::string& file : files) {
    ASSIGN_OR_RETURN(const graph::KernelTable table, graph::KernelTable::Read(file));
    if (const absl::Status status = all->Merge(table); !status.ok())
      return absl::InvalidArgumentError(fmt::format(
          "--kernel-times {}: {}{}", file, std::string(status.message()), or_else));
  }
  return all;
}

}  // namespace vrank::tools
