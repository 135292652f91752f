#include "emulator/launch/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <utility>

#include "base/guest/units.h"
#include "emulator/launch/descendants.h"

namespace vrank::emulator {
namespace {

// Killed processes are gone within milliseconds, unless the kernel holds them (a dead
// network file system).
constexpr Duration kKillLimit = Duration::Seconds(20);

constexpr int kStartDescriptors = 3;

void Report(int socket, const KeeperReport& report) {
  [[maybe_unused]] const ssize_t sent =
      send(socket, &report, sizeof report, MSG_NOSIGNAL);
}

// False at the end of the socket: vrank has gone.
bool Receive(int socket, KeeperCommand* command, int descriptors[kStartDescriptors]) {
  iovec part{command, sizeof *command};
  alignas(cmsghdr) char control[CMSG_SPACE(kStartDescriptors * sizeof(int))];
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t got;
  do {
    got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got != sizeof *command)
    return false;
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header != nullptr && header->cmsg_type == SCM_RIGHTS)
    memcpy(descriptors, CMSG_DATA(header), kStartDescriptors * sizeof(int));
  return true;
}

// Pointers to `count` strings that follow each other, and a null pointer.
std::vector<char*> Strings(char** at, uint32_t count) {
  std::vector<char*> strings;
  for (uint32_t i = 0; i < count; ++i) {
    strings.push_back(*at);
    *at += strlen(*at) + 1;
  }
  strings.push_back(nullptr);
  return strings;
}

// In the rank's process: becomes the program. Reports its start, and why it failed.
[[noreturn]] void Become(int socket, uint32_t index, pid_t keeper,
                         const int descriptors[kStartDescriptors]) {
  const KeeperReport failed{KeeperReport::kStartFailed, index, getpid(), 0};
  auto give_up = [&](int error) {
    KeeperReport report = failed;
    report.value = error;
    Report(socket, report);
    _exit(127);
  };
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != keeper)
    _exit(127);  // the keeper died before the line above
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE})
    ::signal(signal, SIG_DFL);

  struct stat status;
  if (fstat(descriptors[0], &status) != 0)
    give_up(errno);
  void* bytes = mmap(nullptr, static_cast<size_t>(status.st_size),
                     PROT_READ | PROT_WRITE, MAP_PRIVATE, descriptors[0], 0);
  if (bytes == MAP_FAILED)
    give_up(errno);
  const StartSpec& spec = *static_cast<StartSpec*>(bytes);
  char* at = static_cast<char*>(bytes) + sizeof spec;
  const char* path = at;
  at += strlen(at) + 1;
  const std::vector<char*> arguments = Strings(&at, spec.arguments);
  const std::vector<char*> variables = Strings(&at, spec.variables);

  const int current = personality(0xffffffff);
  const bool random =
      spec.fixed_addresses != 0 &&
      personality(static_cast<unsigned long>(current) | ADDR_NO_RANDOMIZE) < 0;
  const int nothing = open("/dev/null", O_RDONLY);
  if (dup2(nothing, STDIN_FILENO) < 0 || dup2(descriptors[1], STDOUT_FILENO) < 0 ||
      dup2(descriptors[2], STDERR_FILENO) < 0)
    give_up(errno);
  close(nothing);
  Report(socket, {KeeperReport::kStarted, index, getpid(), random ? 1 : 0});
  execve(path, arguments.data(), variables.data());
  give_up(errno);
  _exit(127);
}

class Keeper {
 public:
  Keeper(int socket, int children) : socket_(socket), children_(children) {}

  // Returns when vrank has gone or says so.
  void Run() {
    for (;;) {
      pollfd ready[2] = {{socket_, POLLIN, 0}, {children_, POLLIN, 0}};
      if (poll(ready, 2, -1) < 0)
        continue;
      // Children first: who has ended is not signalled.
      if (ready[1].revents != 0)
        ReportEnds();
      if (ready[0].revents != 0 && !Obey())
        return;
    }
  }

  void Ended(pid_t pid, int status) {
    const auto rank = ranks_.find(pid);
    if (rank == ranks_.end())
      return;  // somebody's orphan
    Report(socket_, {KeeperReport::kExited, rank->second, pid, status});
    ranks_.erase(rank);
  }

 private:
  // Nobody is reaped before the end (KillDescendants): on busy cores the kernel takes
  // seconds to let go of a process whose files in /proc others read, and the ends of
  // other ranks would not be told meanwhile. A pid is not used again either.
  void ReportEnds() {
    signalfd_siginfo information;
    [[maybe_unused]] const ssize_t got =
        read(children_, &information, sizeof information);
    std::vector<siginfo_t> ends;
    for (const auto& [pid, index] : ranks_) {
      siginfo_t end{};
      if (waitid(P_PID, static_cast<id_t>(pid), &end, WEXITED | WNOHANG | WNOWAIT) ==
              0 &&
          end.si_pid == pid)
        ends.push_back(end);
    }
    for (const siginfo_t& end : ends)
      Ended(end.si_pid, end.si_code == CLD_EXITED ? W_EXITCODE(end.si_status, 0)
                                                  : W_EXITCODE(0, end.si_status));
  }

  bool Obey() {
    KeeperCommand command;
    int descriptors[kStartDescriptors] = {-1, -1, -1};
    if (!Receive(socket_, &command, descriptors) || command.kind == KeeperCommand::kEnd)
      return false;
    if (command.kind == KeeperCommand::kStart) {
      Start(command.index, descriptors);
    } else {
      for (const auto& [pid, index] : ranks_)
        kill(-pid, command.signal);
    }
    for (int fd : descriptors) {
      if (fd >= 0)
        close(fd);
    }
    return true;
  }

  void Start(uint32_t index, const int descriptors[kStartDescriptors]) {
    const pid_t self = getpid();
    const pid_t pid = fork();
    if (pid == 0)
      Become(socket_, index, self, descriptors);
    if (pid < 0) {
      Report(socket_, {KeeperReport::kStartFailed, index, 0, errno});
      return;
    }
    setpgid(pid, pid);  // whoever of the two comes first
    ranks_[pid] = index;
  }

  const int socket_;
  const int children_;
  std::map<pid_t, uint32_t> ranks_;  // running; each leads a process group
};

// Nothing of vrank's may stay open here: its sockets must end when it ends.
int KeepOnly(int socket) {
  const int nothing = open("/dev/null", O_RDWR);
  for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    dup2(nothing, fd);
  constexpr int kSocket = STDERR_FILENO + 1;
  if (socket != kSocket)
    dup2(socket, kSocket);
  fcntl(kSocket, F_SETFD, FD_CLOEXEC);
  close_range(kSocket + 1, ~0u, 0);
  return kSocket;
}

}  // namespace

std::string StartSpec::Encode(const std::string& path,
                              const std::vector<std::string>& arguments,
                              const std::vector<std::string>& variables,
                              bool fixed_addresses) {
  const StartSpec spec{static_cast<uint32_t>(arguments.size()),
                       static_cast<uint32_t>(variables.size()),
                       fixed_addresses ? 1u : 0u};
  std::string bytes(reinterpret_cast<const char*>(&spec), sizeof spec);
  bytes.append(path.c_str(), path.size() + 1);
  for (const std::string& argument : arguments)
    bytes.append(argument.c_str(), argument.size() + 1);
  for (const std::string& variable : variables)
    bytes.append(variable.c_str(), variable.size() + 1);
  return bytes;
}

void RunKeeper(int socket) {
  prctl(PR_SET_NAME, "vrank-keeper");
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  // Its own process group: Ctrl-C at the terminal is for vrank, which ends the ranks in
  // good order.
  setpgid(0, 0);
  for (int signal : {SIGINT, SIGTERM, SIGHUP})
    ::signal(signal, SIG_IGN);
  ::signal(SIGCHLD, SIG_DFL);  // ignored, children would vanish without a status
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  sigprocmask(SIG_SETMASK, &child, nullptr);
  socket = KeepOnly(socket);
  const int children = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);

  Keeper keeper(socket, children);
  keeper.Run();
  KillDescendants(kKillLimit,
                  [&](pid_t pid, int status) { keeper.Ended(pid, status); });
  Report(socket, {KeeperReport::kGone, 0, 0, 0});
  _exit(0);
}

}  // namespace vrank::emulator
