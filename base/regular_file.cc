// Tells pipes and devices from files.

#include "base/regular_file.h"

#include <sys/stat.h>

#include <fmt/format.h>

namespace vrank {

absl::Status CheckNoPipe(const std::string& path) {
  struct stat facts = {};
  if (stat(path.c_str(), &facts) != 0 || S_ISREG(facts.st_mode) ||
      S_ISDIR(facts.st_mode))
    return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "this is no regular file but a {}; give a file", S_ISFIFO(facts.st_mode) ? "pipe"
                                                       : S_ISSOCK(facts.st_mode)
                                                           ? "socket"
                                                           : "device"));
}

}  // namespace vrank
