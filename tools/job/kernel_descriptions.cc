#include "tools/job/kernel_descriptions.h"

#include "base/status_macros.h"
#include "tools/job/program_fingerprint.h"

namespace vrank::tools {
namespace {

std::string OwnFile(const Installation& installation) {
  return installation.data_dir + "/kernels/pytorch.textproto";
}

}  // namespace

absl::StatusOr<bool> IsOwnDescription(const std::string& path,
                                      const Installation& installation) {
  ASSIGN_OR_RETURN(const std::string own, FileFingerprint(OwnFile(installation)));
  ASSIGN_OR_RETURN(const std::string given, FileFingerprint(path));
  return given == own;
}

absl::StatusOr<graph::KernelCosts> ReadKernelCosts(
    const std::vector<std::string>& given, const Installation& installation) {
  graph::KernelCosts costs;
  bool has_own = false;
  for (const std::string& file : given) {
    RETURN_IF_ERROR(costs.AddFile(file));
    ASSIGN_OR_RETURN(const bool is_own, IsOwnDescription(file, installation));
    has_own = has_own || is_own;
  }
  if (!has_own)
    RETURN_IF_ERROR(costs.AddFile(OwnFile(installation),
                                  graph::KernelCosts::Strictness::kUndescribed));
  return costs;
}

}  // namespace vrank::tools
