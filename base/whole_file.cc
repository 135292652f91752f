#include "base/whole_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

namespace vrank {
namespace {

constexpr mode_t kMode = 0666;  // less the umask, as fopen has it

std::string FolderOf(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

}  // namespace

WholeFile::WholeFile(const std::string& path) : path_(path), beside_(path + kBeside) {
  int fd = open(FolderOf(path).c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, kMode);
  if (fd < 0) {  // EOPNOTSUPP, or EISDIR of a file system that has never heard of it
    fd = open(beside_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, kMode);
    named_ = fd >= 0;
  }
  if (fd < 0)
    return;
  stream_ = fdopen(fd, "wb");
  if (stream_ == nullptr)
    close(fd);
}

WholeFile::~WholeFile() {
  if (stream_ != nullptr)
    std::fclose(stream_);
  if (named_)
    unlink(beside_.c_str());
}

// By way of a name beside the place: a link does not replace what is there.
bool WholeFile::GiveName() {
  const std::string unnamed = "/proc/self/fd/" + std::to_string(fileno(stream_));
  unlink(beside_.c_str());
  named_ = linkat(AT_FDCWD, unnamed.c_str(), AT_FDCWD, beside_.c_str(),
                  AT_SYMLINK_FOLLOW) == 0;
  return named_;
}

bool WholeFile::Commit() {
  const bool written = !std::ferror(stream_) && std::fflush(stream_) == 0;
  const bool there = written && (named_ || GiveName());
  const int error = errno;
  const bool closed = std::fclose(stream_) == 0;
  stream_ = nullptr;
  if (!there)
    errno = error;
  if (!there || !closed || std::rename(beside_.c_str(), path_.c_str()) != 0)
    return false;
  named_ = false;
  return true;
}

}  // namespace vrank
