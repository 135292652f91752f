// Keeps two runs of vrank from writing into one folder at the same time.
//
// The lock is the kernel's (flock), so it ends with the process, however that ends.
// Where the file system has no locks, there is no protection, and no error either.
//
// Thread rule: one thread.

#ifndef VRANK_TOOLS_MACHINE_FOLDER_LOCK_H_
#define VRANK_TOOLS_MACHINE_FOLDER_LOCK_H_

#include <string>
#include <utility>

#include <absl/status/statusor.h>

namespace vrank::tools {

class FolderLock {
 public:
  // An error where another one holds the folder, which must be there.
  static absl::StatusOr<FolderLock> Take(const std::string& folder);

  FolderLock(FolderLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FolderLock& operator=(FolderLock&&) = delete;
  ~FolderLock();

 private:
  explicit FolderLock(int fd) : fd_(fd) {}
  int fd_;
};

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_MACHINE_FOLDER_LOCK_H_
