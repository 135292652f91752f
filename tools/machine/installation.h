// Where vrank's own files lie, seen from the running program: the build tree and an
// installation have the same layout.
//
// Thread rule: reads the file system; no state.

#ifndef VRANK_TOOLS_MACHINE_INSTALLATION_H_
#define VRANK_TOOLS_MACHINE_INSTALLATION_H_

#include <string>

#include <absl/status/statusor.h>

namespace vrank::tools {

struct Installation {
  std::string bin_dir;   // where vrank and the examples are
  std::string data_dir;  // share/vrank: GPU and cluster descriptions
};
absl::StatusOr<Installation> FindInstallation();
// lib/vrank: libraries for the training process, by a name that the loader can preload
// from while vrank runs. NotFound where there are none: only real ranks need them.
absl::StatusOr<std::string> FindGuestFolder(const Installation& installation);

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_MACHINE_INSTALLATION_H_
