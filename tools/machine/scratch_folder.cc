#include "tools/machine/scratch_folder.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fmt/format.h>

namespace vrank::tools {
namespace {

namespace fs = std::filesystem;

// Ranks that are being killed may still make files for a moment.
constexpr int kTries = 500;
constexpr useconds_t kBetweenTriesUs = 20'000;

absl::Status SystemError(const std::string& what) {
  return absl::FailedPreconditionError(
      fmt::format("{} ({}); set TMPDIR to a place with room", what, strerror(errno)));
}

void Remove(const std::string& folder) {
  for (int i = 0; i < kTries; ++i) {
    std::error_code error;
    fs::remove_all(folder, error);
    if (!error)
      return;
    usleep(kBetweenTriesUs);
  }
}

// Returns when the other side has closed its end.
void AwaitEnd(int socket) {
  char byte;
  while (read(socket, &byte, 1) < 0 && errno == EINTR) {
  }
}

// The cleaner's whole life. Nothing of its parent's stays open here but the socket, and
// what the terminal sends is for the parent.
[[noreturn]] void WaitAndRemove(int socket, const std::string& folder) {
  prctl(PR_SET_NAME, "vrank-cleaner");
  setpgid(0, 0);
  for (int signal : {SIGINT, SIGTERM, SIGHUP})
    ::signal(signal, SIG_IGN);
  if (dup2(socket, STDIN_FILENO) < 0)
    _exit(1);
  const int nothing = open("/dev/null", O_WRONLY | O_CLOEXEC);
  for (int fd : {STDOUT_FILENO, STDERR_FILENO})
    dup2(nothing, fd);
  close_range(STDERR_FILENO + 1, ~0u, 0);
  AwaitEnd(STDIN_FILENO);
  Remove(folder);
  _exit(0);
}

// Starts it as nobody's child: the end of a session kills all that is below this
// process.
bool StartCleaner(int socket, const std::string& folder) {
  int adopts = 0;
  prctl(PR_GET_CHILD_SUBREAPER, &adopts);
  prctl(PR_SET_CHILD_SUBREAPER, 0);
  const pid_t between = fork();
  if (between == 0) {
    const pid_t cleaner = fork();
    if (cleaner == 0)
      WaitAndRemove(socket, folder);
    _exit(cleaner < 0 ? 1 : 0);
  }
  int status = 1;
  const bool started = between > 0 && waitpid(between, &status, 0) == between &&
                       WIFEXITED(status) && WEXITSTATUS(status) == 0;
  prctl(PR_SET_CHILD_SUBREAPER, adopts);
  return started;
}

}  // namespace

absl::StatusOr<ScratchFolder> ScratchFolder::Make() {
  std::error_code error;
  const fs::path parent = fs::temp_directory_path(error);
  uint64_t random = 0;
  if (error) {
    const char* const stated = getenv("TMPDIR");
    return absl::FailedPreconditionError(
        fmt::format("the folder for temporary files, '{}' ({}); set TMPDIR to a place "
                    "with room",
                    stated != nullptr ? stated : "/tmp", error.message()));
  }
  if (getrandom(&random, sizeof random, 0) != sizeof random)
    return SystemError("random numbers for a name");
  std::string path = (parent / fmt::format("vrank-{:016x}", random)).string();
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return SystemError("socketpair");
  // First who removes it, then the folder: no moment in which it would stay.
  const bool started = StartCleaner(ends[0], path);
  close(ends[0]);
  if (!started) {
    close(ends[1]);
    return SystemError("fork");
  }
  ScratchFolder folder(std::move(path), ends[1]);
  if (mkdir(folder.path_.c_str(), 0700) != 0)
    return SystemError(folder.path_);
  return folder;
}

ScratchFolder::ScratchFolder(std::string path, int leash)
    : path_(std::move(path)), leash_(leash) {}

ScratchFolder::ScratchFolder(ScratchFolder&& other) noexcept
    : path_(std::exchange(other.path_, {})), leash_(other.leash_) {}

ScratchFolder::~ScratchFolder() {
  if (path_.empty())
    return;
  std::error_code ignored;  // the cleaner tries again
  fs::remove_all(path_, ignored);
  shutdown(leash_, SHUT_WR);
  AwaitEnd(leash_);
  close(leash_);
}

}  // namespace vrank::tools
