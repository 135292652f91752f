#include "emulator/launch/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "emulator/launch/command_check.h"
#include "emulator/launch/descendants.h"
#include "emulator/launch/keeper.h"

namespace vrank::emulator {
namespace {

// After the grace is over: SIGKILL works at once, so this only bounds a kernel that
// holds on to a process.
constexpr Duration kKillLimit = Duration::Seconds(25);
// See InterruptionWatch::Beat.
constexpr std::chrono::milliseconds kBetweenBeats{500};

absl::Status SystemError(const char* what) {
  return absl::InternalError(fmt::format(
      "starting the ranks: {}: {}; are the limits on processes or open files "
      "reached?",
      what, strerror(errno)));
}

bool Watch(int epoll, int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

}  // namespace

std::string ExitStatus::Describe() const {
  if (signal != 0)
    return fmt::format("killed by signal {} ({})", signal, strsignal(signal));
  return fmt::format("exit code {}", code);
}

absl::StatusOr<std::unique_ptr<Supervisor>> Supervisor::Create(
    SupervisorCallbacks callbacks) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
    return SystemError("socketpair");
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  const pid_t keeper = fork();
  if (keeper == 0)
    RunKeeper(pair[1]);
  close(pair[1]);
  const int epoll = epoll_create1(EPOLL_CLOEXEC);
  auto interruptions = std::make_unique<InterruptionWatch>(keeper, pair[0]);
  if (keeper < 0 || epoll < 0 || !Watch(epoll, pair[0]) ||
      !Watch(epoll, interruptions->fd())) {
    absl::Status status = SystemError("making the keeper");
    for (int fd : {pair[0], epoll}) {
      if (fd >= 0)
        close(fd);  // the keeper ends with its socket
    }
    return status;
  }
  return std::unique_ptr<Supervisor>(new Supervisor(
      std::move(callbacks), keeper, pair[0], epoll, std::move(interruptions)));
}

Supervisor::Supervisor(SupervisorCallbacks callbacks, pid_t keeper, int socket,
                       int epoll, std::unique_ptr<InterruptionWatch> interruptions)
    : callbacks_(std::move(callbacks)),
      keeper_(keeper),
      socket_(socket),
      epoll_(epoll),
      interruptions_(std::move(interruptions)) {}

Supervisor::~Supervisor() {
  Shutdown(Duration());
  close(epoll_);
}

absl::Status Supervisor::StartRanks(const LaunchOptions& options,
                                    const std::vector<RankPlace>& ranks) {
  if (options.command.empty())
    return ResolveCommand("").status();
  ASSIGN_OR_RETURN(const std::string path, ResolveCommand(options.command[0]));
  RETURN_IF_ERROR(CheckGuestFolder(options));
  for (const RankPlace& place : ranks)
    RETURN_IF_ERROR(StartRank(options, path, place));
  started_ = true;
  return absl::OkStatus();
}

absl::Status Supervisor::StartRank(const LaunchOptions& options,
                                   const std::string& path, const RankPlace& place) {
  int out[2] = {-1, -1};
  int err[2] = {-1, -1};
  if (pipe2(out, O_CLOEXEC) != 0)
    return SystemError("pipe");
  if (pipe2(err, O_CLOEXEC) != 0) {
    absl::Status status = SystemError("pipe");
    close(out[0]);
    close(out[1]);
    return status;
  }
  // Only our ends: the program's standard output blocks, as it expects.
  for (int fd : {out[0], err[0]})
    fcntl(fd, F_SETFL, O_NONBLOCK);

  auto relay = [&](int fd,
                   const char* what) -> absl::StatusOr<std::unique_ptr<LineRelay>> {
    std::string log_path;
    absl::StatusOr<int> log = OpenLog(options.log_folder, place.rank, what, &log_path);
    const bool is_stderr = fd == err[0];
    auto result = std::make_unique<LineRelay>(
        fd, log.ok() ? *log : -1, log_path,
        [this, rank = place.rank, is_stderr](std::string_view line) {
          callbacks_.on_line(rank, is_stderr, line);
        });
    log_error_.Update(log.status());
    if (!log.ok())
      return log.status();
    if (*log >= 0)
      logs_.push_back(log_path);
    if (!Watch(epoll_, fd))
      return SystemError("epoll_ctl");
    return result;
  };
  absl::StatusOr<std::unique_ptr<LineRelay>> out_relay = relay(out[0], "out");
  absl::StatusOr<std::unique_ptr<LineRelay>> err_relay = relay(err[0], "err");
  absl::Status status = out_relay.ok() ? err_relay.status() : out_relay.status();
  if (status.ok()) {
    Rank rank;
    rank.place = place;
    rank.out = std::move(*out_relay);
    rank.err = std::move(*err_relay);
    ranks_.push_back(std::move(rank));
    status = SendStart(
        static_cast<uint32_t>(ranks_.size() - 1),
        StartSpec::Encode(path, options.command, RankEnvironment(options, place),
                          options.fixed_addresses),
        out[1], err[1]);
  }
  close(out[1]);
  close(err[1]);
  return status;
}

absl::Status Supervisor::SendStart(uint32_t index, const std::string& spec, int out,
                                   int err) {
  // A file in memory: arguments and variables may be larger than a message.
  const int memfd = memfd_create("vrank-start", MFD_CLOEXEC);
  if (memfd < 0)
    return SystemError("memfd_create");
  const bool written =
      write(memfd, spec.data(), spec.size()) == static_cast<ssize_t>(spec.size());
  KeeperCommand command{KeeperCommand::kStart, index, 0};
  iovec part{&command, sizeof command};
  const int descriptors[3] = {memfd, out, err};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof descriptors)> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof descriptors);
  memcpy(CMSG_DATA(header), descriptors, sizeof descriptors);
  const bool sent = written && sendmsg(socket_, &message, MSG_NOSIGNAL) >= 0;
  absl::Status status = sent ? absl::OkStatus() : SystemError("telling the keeper");
  close(memfd);
  return status;
}

absl::Status Supervisor::HandleEvents() {
  Beat();
  std::array<epoll_event, 64> ready;
  const int count = epoll_wait(epoll_, ready.data(), ready.size(), 0);
  // Output before exits: a program's last words precede its end.
  bool report = false;
  for (int i = 0; i < count; ++i) {
    const int fd = ready[i].data.fd;
    if (fd == socket_)
      report = true;
    else if (fd == interruptions_->fd())
      OnSignal();
    else
      ReadOutput(fd);
  }
  absl::Status status = log_error_;
  if (report && keeper_ != 0)
    status.Update(OnKeeperReport());
  status.Update(log_error_);
  return status;
}

bool Supervisor::Read(LineRelay* relay) {
  const absl::StatusOr<bool> more = relay->Read();
  log_error_.Update(more.status());
  return more.ok() && *more;
}

void Supervisor::ReadOutput(int fd) {
  for (Rank& rank : ranks_) {
    for (LineRelay* relay : {rank.out.get(), rank.err.get()}) {
      if (relay->fd() != fd)
        continue;
      // Closing it at its end takes it out of the epoll set.
      Read(relay);
      return;
    }
  }
}

absl::Status Supervisor::OnKeeperReport() {
  for (;;) {
    KeeperReport report;
    const ssize_t got = recv(socket_, &report, sizeof report, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
      return absl::OkStatus();
    if (got != sizeof report)
      return OnKeeperLost();
    if (report.kind == KeeperReport::kGone)
      continue;  // the end of the socket follows
    Rank& rank = ranks_[report.index];
    switch (report.kind) {
      case KeeperReport::kStarted:
        rank.pid = report.pid;
        addresses_randomized_ = addresses_randomized_ || report.value != 0;
        break;
      case KeeperReport::kExited:
        MarkEnded(&rank, report.value);
        break;
      case KeeperReport::kStartFailed:
        return absl::FailedPreconditionError(fmt::format(
            "rank {}: its program cannot be executed: {}; does it run without "
            "vrank?",
            rank.place.rank, strerror(report.value)));
      case KeeperReport::kGone:
        break;
    }
  }
}

void Supervisor::MarkEnded(Rank* rank, int wait_status) {
  if (std::exchange(rank->ended, true))
    return;
  // What it wrote lies in the pipes already; children of its own may write on.
  for (LineRelay* relay : {rank->out.get(), rank->err.get()})
    Read(relay);
  ExitStatus status;
  if (WIFSIGNALED(wait_status))
    status.signal = WTERMSIG(wait_status);
  else
    status.code = WEXITSTATUS(wait_status);
  callbacks_.on_exit(rank->place.rank, status);
}

absl::Status Supervisor::OnKeeperLost() {
  // First the keeper itself: once it has been waited for, all that was below it is
  // ours.
  waitpid(keeper_, nullptr, 0);
  keeper_ = 0;
  close(std::exchange(socket_, -1));
  const bool nothing_lost = shut_down_ || AllEnded();
  interruptions_->set_resting(true);
  KillDescendants(kKillLimit, [this](pid_t pid, int status) {
    for (Rank& rank : ranks_) {
      if (rank.pid == pid)
        MarkEnded(&rank, status);
    }
  });
  interruptions_->set_resting(false);
  // One that had not said its pid yet.
  for (Rank& rank : ranks_)
    MarkEnded(&rank, SIGKILL);
  if (nothing_lost)
    return absl::OkStatus();
  return absl::AbortedError(
      "keeper of the ranks: it was killed, and all ranks with it; run vrank again");
}

void Supervisor::OnSignal() {
  for (const int signal : interruptions_->Take()) {
    ++interruption_count_;
    callbacks_.on_interrupt(signal);
  }
}

bool Supervisor::AllEnded() const {
  for (const Rank& rank : ranks_) {
    if (!rank.ended)
      return false;
  }
  return true;
}

bool Supervisor::AllExited() const {
  for (const Rank& rank : ranks_) {
    if (!rank.ended || rank.out->open() || rank.err->open())
      return false;
  }
  return started_;
}

std::vector<std::pair<uint32_t, pid_t>> Supervisor::Running() const {
  std::vector<std::pair<uint32_t, pid_t>> running;
  for (const Rank& rank : ranks_) {
    if (!rank.ended)
      running.emplace_back(rank.place.rank, rank.pid);
  }
  return running;
}

// Serves events until all ranks have ended (or the keeper has), `limit` has passed, or
// the user interrupts again.
void Supervisor::WaitForEnd(Duration limit, bool until_keeper_gone) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::nanoseconds(limit.nanoseconds());
  const int interruptions = interruption_count_;
  while (keeper_ != 0 && (until_keeper_gone || !AllEnded())) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
    if (left.count() <= 0 ||
        (!until_keeper_gone && interruption_count_ != interruptions))
      return;
    pollfd ready{epoll_, POLLIN, 0};
    poll(&ready, 1, static_cast<int>(std::min(left, kBetweenBeats).count()));
    (void)HandleEvents();  // the run has ended; what goes wrong now changes nothing
  }
}

void Supervisor::Shutdown(Duration grace) {
  if (std::exchange(shut_down_, true))
    return;
  auto command = [this](KeeperCommand what) {
    if (keeper_ != 0)
      (void)!send(socket_, &what, sizeof what, MSG_NOSIGNAL);
  };
  if (grace > Duration() && !AllEnded()) {
    command({KeeperCommand::kSignal, 0, SIGTERM});
    WaitForEnd(grace, /*until_keeper_gone=*/false);
  }
  command({KeeperCommand::kEnd, 0, 0});
  WaitForEnd(kKillLimit, /*until_keeper_gone=*/true);
  if (keeper_ != 0) {
    // It does not end by itself: what is below it becomes ours.
    kill(keeper_, SIGKILL);
    (void)OnKeeperLost();
  }
  // Nobody holds the other ends any more.
  for (Rank& rank : ranks_) {
    for (LineRelay* relay : {rank.out.get(), rank.err.get()}) {
      while (relay->open())
        if (Read(relay))
          break;  // open elsewhere, yet empty
    }
  }
  if (!log_error_.ok())
    for (const std::string& log : logs_)
      unlink(log.c_str());
}

}  // namespace vrank::emulator
