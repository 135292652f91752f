// Where vrank's own files lie, seen from the running program: the build tree and an
// installation have the same layout.
//
// Thread rule: reads the file system; no state.

#ifndef VRANK_TOOLS_INSTALLATION_H_
#define VRANK_TOOLS_INSTALLATION_H_

#include <string>

#include <absl/status/statusor.h>

namespace vrank::tools {

struct Installation {
  std::string bin_dir;    // where vrank and the examples are
  std::string guest_dir;  // lib/vrank: libraries for the training process
  std::string data_dir;   // share/vrank: GPU and cluster descriptions
};
absl::StatusOr<Installation> FindInstallation();

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_INSTALLATION_H_
