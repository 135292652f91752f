#include "tools/installation.h"

#include <filesystem>
#include <system_error>

#include <fmt/format.h>

namespace vrank::tools {

absl::StatusOr<Installation> FindInstallation() {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  if (error)
    return absl::FailedPreconditionError(
        fmt::format("/proc/self/exe: {}; vrank needs /proc", error.message()));
  const fs::path root = self.parent_path().parent_path();
  Installation found;
  found.bin_dir = self.parent_path().string();
  found.data_dir = (root / "share" / "vrank").string();
  // Debian puts libraries into a folder per architecture.
  for (const char* place : {"lib/vrank", "lib/x86_64-linux-gnu/vrank", "lib64/vrank"}) {
    if (fs::exists(root / place / "libvrank_host.so", error)) {
      found.guest_dir = (root / place).string();
      return found;
    }
  }
  return absl::NotFoundError(
      fmt::format("{}: no lib/vrank/libvrank_host.so beside it; run vrank from a build "
                  "tree or an installation",
                  root.string()));
}

}  // namespace vrank::tools
