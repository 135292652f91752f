#include "tools/job/program_fingerprint.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/guest/crc32c.h"
#include "base/regular_file.h"
#include "base/status_macros.h"
#include "emulator/launch/command_check.h"
#include "tools/job/kernel_descriptions.h"
#include "tools/job/stated_options.h"
#include "tools/machine/installation.h"

namespace vrank::tools {
namespace {

absl::StatusOr<uint32_t> ChecksumOf(const std::string& path) {
  const absl::StatusOr<OpenFile> file = OpenRegularFile(path);
  if (!file.ok())
    return absl::Status(
        file.status().code(),
        fmt::format("{}: cannot be read, so its version is not known: {}", path,
                    std::string(file.status().message())));
  std::array<char, 1 << 16> block;
  uint32_t checksum = 0;
  while (const size_t read = fread(block.data(), 1, block.size(), file->get()))
    checksum = Crc32c(block.data(), read, checksum);
  return checksum;
}

}  // namespace

absl::StatusOr<std::string> FileFingerprint(const std::string& path) {
  ASSIGN_OR_RETURN(const uint32_t checksum, ChecksumOf(path));
  return fmt::format("{}:{:08x}", std::filesystem::path(path).filename().string(),
                     checksum);
}

absl::StatusOr<std::string> CostOptions(const JobFlags& flags) {
  std::vector<std::string> options = flags.host_costs;
  std::sort(options.begin(), options.end());
  ASSIGN_OR_RETURN(const Installation installation, FindInstallation());
  for (const std::string& path : flags.kernels) {
    ASSIGN_OR_RETURN(const bool is_own, IsOwnDescription(path, installation));
    if (is_own)
      continue;  // which goes without saying
    ASSIGN_OR_RETURN(std::string file, FileFingerprint(path));
    options.push_back(std::move(file));
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> others, StatedOptions(flags));
  options.insert(options.end(), others.begin(), others.end());
  // Last, since `vrank build` may add them.
  for (const std::string& path : flags.kernel_times) {
    ASSIGN_OR_RETURN(const std::string file, FileFingerprint(path));
    options.push_back(kKernelTimesOption + file);
  }
  return fmt::format("{}", fmt::join(options, " "));
}

absl::StatusOr<std::string> ProgramFingerprint(
    const std::vector<std::string>& command) {
  namespace fs = std::filesystem;
  std::string fingerprint;
  for (size_t i = 0; i < command.size(); ++i) {
    std::string path = command[i];
    std::error_code error;
    if (i == 0) {
      ASSIGN_OR_RETURN(path, emulator::ResolveCommand(command[0]));
    } else if (!fs::is_regular_file(path, error)) {
      continue;
    }
    ASSIGN_OR_RETURN(const std::string file, FileFingerprint(path));
    fingerprint += (fingerprint.empty() ? "" : " ") + file;
  }
  return fingerprint;
}

}  // namespace vrank::tools
