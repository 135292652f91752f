// A folder for files that nobody but this process needs.
//
// It goes with its owner, however that ends: a process of its own, which holds one end
// of a socket pair, removes the folder when the other end closes.
//
// Thread rule: made while the process has one thread and no session runs.

#ifndef VRANK_TOOLS_MACHINE_SCRATCH_FOLDER_H_
#define VRANK_TOOLS_MACHINE_SCRATCH_FOLDER_H_

#include <string>

#include <absl/status/statusor.h>

namespace vrank::tools {

class ScratchFolder {
 public:
  // In $TMPDIR, or else /tmp. Whoever needs one late in a run makes one first, too, and
  // lets it go: an error should not come after minutes.
  static absl::StatusOr<ScratchFolder> Make();

  ScratchFolder(ScratchFolder&& other) noexcept;
  ScratchFolder& operator=(ScratchFolder&&) = delete;
  ~ScratchFolder();

  const std::string& path() const { return path_; }

 private:
  ScratchFolder(std::string path, int leash);
  std::string path_;  // empty: moved away
  int leash_;         // our end
};

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_MACHINE_SCRATCH_FOLDER_H_
