#include "base/whole_file.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <filesystem>

#include <fmt/format.h>

namespace vrank {
namespace {

constexpr mode_t kMode = 0666;  // less the umask, as fopen has it
constexpr int kMostTries = 100;

std::string FolderOf(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

}  // namespace

WholeFile::WholeFile(const std::string& path, Unnamed unnamed) : path_(path) {
  int fd = -1;
  if (unnamed == Unnamed::kIfPossible)
    fd = open(FolderOf(path).c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, kMode);
  // EOPNOTSUPP, or EISDIR of a file system that does not know the flag.
  if (fd < 0)
    TakeName([&](const std::string& name) {
      fd = open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, kMode);
      return fd >= 0;
    });
  if (fd < 0)
    return;
  stream_ = fdopen(fd, "wb");
  if (stream_ == nullptr)
    close(fd);
}

WholeFile::~WholeFile() {
  if (stream_ != nullptr)
    std::fclose(stream_);
  RemoveName();
}

// A name that no other file has. Its length does not depend on the place's name, which
// may be as long as a name can be.
template <class Make>
bool WholeFile::TakeName(Make make) {
  for (int i = 0; i < kMostTries; ++i) {
    uint64_t random = 0;
    if (getrandom(&random, sizeof random, 0) != sizeof random)
      return false;
    beside_ = fmt::format("{}/.vrank-{:016x}", FolderOf(path_), random);
    removed_.emplace(beside_);
    if (make(beside_))
      return true;
    const int error = errno;
    removed_.reset();  // another's file, if there is one
    beside_.clear();
    errno = error;
    if (error != EEXIST)
      return false;
  }
  return false;
}

void WholeFile::RemoveName() {
  if (beside_.empty())
    return;
  unlink(beside_.c_str());
  removed_.reset();
  beside_.clear();
}

// By way of a name beside the place: a link does not replace what is there.
bool WholeFile::GiveName() {
  const std::string unnamed = "/proc/self/fd/" + std::to_string(fileno(stream_));
  return TakeName([&](const std::string& name) {
    return linkat(AT_FDCWD, unnamed.c_str(), AT_FDCWD, name.c_str(),
                  AT_SYMLINK_FOLLOW) == 0;
  });
}

bool WholeFile::Commit() {
  const bool written = !std::ferror(stream_) && std::fflush(stream_) == 0;
  const bool there = written && (!beside_.empty() || GiveName());
  const int error = errno;
  const bool closed = std::fclose(stream_) == 0;
  stream_ = nullptr;
  if (!there)
    errno = error;
  if (!there || !closed || std::rename(beside_.c_str(), path_.c_str()) != 0)
    return false;
  removed_.reset();
  beside_.clear();
  return true;
}

}  // namespace vrank
