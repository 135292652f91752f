#include "tools/machine/installation.h"

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>

#include <fmt/format.h>

namespace vrank::tools {
namespace {

// A name of the folder that the dynamic loader can preload from: LD_PRELOAD has no
// quoting, so where the path has a separator in it, this is a descriptor of this
// process, which ranks may follow for as long as vrank runs.
std::string PreloadableName(const std::string& folder) {
  if (folder.find_first_of(" :;\t\n") == std::string::npos)
    return folder;
  const int fd = open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  return fd < 0 ? folder : fmt::format("/proc/{}/fd/{}", getpid(), fd);
}

}  // namespace

absl::StatusOr<Installation> FindInstallation() {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  if (error)
    return absl::FailedPreconditionError(
        fmt::format("/proc/self/exe: {}; vrank needs /proc", error.message()));
  Installation found;
  found.bin_dir = self.parent_path().string();
  found.data_dir = (self.parent_path().parent_path() / "share" / "vrank").string();
  return found;
}

absl::StatusOr<std::string> FindGuestFolder(const Installation& installation) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path root = fs::path(installation.bin_dir).parent_path();
  // Debian puts libraries into a folder per architecture.
  for (const char* place : {"lib/vrank", "lib/x86_64-linux-gnu/vrank", "lib64/vrank"}) {
    if (fs::exists(root / place / "libvrank_host.so", error)) {
      static const std::string name = PreloadableName((root / place).string());
      return name;
    }
  }
  return absl::NotFoundError(
      fmt::format("{}: no lib/vrank/libvrank_host.so beside it; run vrank from a build "
                  "tree or an installation",
                  root.string()));
}

}  // namespace vrank::tools
