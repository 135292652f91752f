// The type is asked of the open descriptor, not of the path, which may change between.

#include "base/regular_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include <fmt/format.h>

namespace vrank {
namespace {

absl::Status SystemError(int error) {
  const std::string why = std::strerror(error);
  if (error == ENOENT || error == ENOTDIR)
    return absl::NotFoundError(fmt::format("{}; check the path", why));
  return absl::FailedPreconditionError(
      fmt::format("{}; check the path and its permissions", why));
}

absl::Status NotRegular(const char* what) {
  return absl::InvalidArgumentError(
      fmt::format("this is no regular file but a {}; give a file", what));
}

// Its files are made by the kernel as they are read, and may have no end.
bool IsOfKernel(int fd) {
  struct statfs system = {};
  if (fstatfs(fd, &system) != 0)
    return false;
  switch (static_cast<unsigned long>(system.f_type)) {
    case PROC_SUPER_MAGIC:
    case SYSFS_MAGIC:
    case DEBUGFS_MAGIC:
    case TRACEFS_MAGIC:
    case CGROUP_SUPER_MAGIC:
    case CGROUP2_SUPER_MAGIC:
      return true;
    default:
      return false;
  }
}

absl::Status CheckOpened(int fd) {
  struct stat facts = {};
  if (fstat(fd, &facts) != 0)
    return SystemError(errno);
  switch (facts.st_mode & S_IFMT) {
    case S_IFREG:
      break;
    case S_IFDIR:
      return NotRegular("folder");
    case S_IFIFO:
      return NotRegular("pipe");
    case S_IFSOCK:
      return NotRegular("socket");
    default:
      return NotRegular("device");
  }
  return IsOfKernel(fd) ? NotRegular("view of the kernel (/proc, /sys)")
                        : absl::OkStatus();
}

}  // namespace

absl::StatusOr<OpenFile> OpenRegularFile(const std::string& path) {
  if (path.find('\0') != std::string::npos)
    return SystemError(ENOENT);
  // Opening a pipe waits for a writer, opening a terminal may make it this process's.
  const int fd = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (fd < 0)
    return errno == ENXIO ? NotRegular("socket") : SystemError(errno);
  if (absl::Status status = CheckOpened(fd); !status.ok()) {
    close(fd);
    return status;
  }
  OpenFile file(fdopen(fd, "rb"));
  if (file != nullptr)
    return file;
  const int error = errno;
  close(fd);
  return SystemError(error);
}

absl::StatusOr<std::string> ReadRegularFile(const std::string& path,
                                            uint64_t most_bytes) {
  absl::StatusOr<OpenFile> opened = OpenRegularFile(path);
  if (!opened.ok())
    return opened.status();
  FILE* const file = opened->get();
  std::string bytes;
  char piece[1 << 16];
  size_t read = 0;
  while ((read = std::fread(piece, 1, sizeof piece, file)) > 0) {
    bytes.append(piece, read);
    if (bytes.size() > most_bytes)
      return absl::InvalidArgumentError(
          fmt::format("more than {} bytes; no such file is that long", most_bytes));
  }
  if (std::ferror(file) != 0)
    return SystemError(errno);
  return bytes;
}

}  // namespace vrank
