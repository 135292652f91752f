#include "emulator/launch/line_relay.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

namespace vrank::emulator {
namespace {

// Per call of Read: a pipe holds 64 KiB, so this drains a busy one a few times over.
constexpr int kReadsPerCall = 8;

absl::Status WriteAll(int fd, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR)
      continue;
    if (written <= 0) {
      return absl::ResourceExhaustedError(fmt::format(
          "log '{}': {}; free space or choose another folder", path, strerror(errno)));
    }
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<int> OpenLog(const std::string& folder, uint32_t rank, const char* what,
                            std::string* path) {
  if (folder.empty())
    return -1;
  *path = fmt::format("{}/rank{}.{}", folder, rank, what);
  const int fd = open(path->c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) {
    return absl::FailedPreconditionError(
        fmt::format("log '{}': {}; make the folder, or choose another one", *path,
                    strerror(errno)));
  }
  return fd;
}

LineRelay::LineRelay(int fd, int log_fd, std::string log_path, Sink sink)
    : fd_(fd),
      log_fd_(log_fd),
      log_path_(std::move(log_path)),
      sink_(std::move(sink)) {}

LineRelay::~LineRelay() {
  End();
}

absl::StatusOr<bool> LineRelay::Read() {
  std::array<char, 64 << 10> buffer;
  for (int i = 0; i < kReadsPerCall && open(); ++i) {
    const ssize_t got = read(fd_, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0 && errno == EAGAIN)
      return true;
    if (got <= 0) {
      End();
      return false;
    }
    const std::string_view bytes(buffer.data(), static_cast<size_t>(got));
    // The program's line is shown even where the log cannot take it.
    Deliver(bytes);
    if (log_fd_ >= 0) {
      absl::Status status = WriteAll(log_fd_, bytes, log_path_);
      if (!status.ok()) {
        close(std::exchange(log_fd_, -1));
        return status;
      }
    }
  }
  return open();
}

void LineRelay::Deliver(std::string_view bytes) {
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    const size_t room = kLongestLine - pending_.size();
    const size_t take =
        std::min(end == std::string_view::npos ? bytes.size() : end, room);
    pending_.append(bytes.substr(0, take));
    bytes.remove_prefix(take);
    const bool line_ends = !bytes.empty() && bytes.front() == '\n';
    if (!line_ends && pending_.size() < kLongestLine)
      return;
    if (line_ends)
      bytes.remove_prefix(1);
    if (line_ends && !pending_.empty() && pending_.back() == '\r')
      pending_.pop_back();
    sink_(pending_);
    pending_.clear();
  }
}

void LineRelay::End() {
  if (!pending_.empty())
    sink_(std::exchange(pending_, {}));
  if (fd_ >= 0)
    close(std::exchange(fd_, -1));
  if (log_fd_ >= 0)
    close(std::exchange(log_fd_, -1));
}

}  // namespace vrank::emulator
