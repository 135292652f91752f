#include "tools/machine/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include <fmt/format.h>

namespace vrank::tools {

absl::StatusOr<FolderLock> FolderLock::Take(const std::string& folder) {
  const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0)
    return absl::FailedPreconditionError(
        fmt::format("{}: {}", folder, std::strerror(errno)));
  FolderLock lock(fd);
  if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    return absl::AlreadyExistsError(
        fmt::format("{}: another vrank is tracing into this folder; wait for it, or "
                    "name another one",
                    folder));
  }
  return lock;
}

FolderLock::~FolderLock() {
  if (fd_ < 0)
    return;
  flock(fd_, LOCK_UN);  // a child that was forked meanwhile has the descriptor, too
  close(fd_);
}

}  // namespace vrank::tools
