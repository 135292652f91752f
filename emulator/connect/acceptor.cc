#include "emulator/connect/acceptor.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/status_macros.h"

namespace vrank::emulator {
namespace {

// Per call of AcceptAll: others in the same loop get their turn.
constexpr int kMostAtOnce = 256;
constexpr size_t kFewestSilent = 16;
constexpr size_t kShareOfSilent = 4;

Acceptor::Limits WithDefault(Acceptor::Limits limits) {
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  if (limits.most_silent == 0)
    limits.most_silent =
        std::max<size_t>(files.rlim_cur / kShareOfSilent, kFewestSilent);
  return limits;
}

int OpenReserve() {
  return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

int AcceptOne(int listener) {
  int fd;
  do {
    fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  } while (fd < 0 && (errno == EINTR || errno == ECONNABORTED));
  return fd;
}

bool OutOfDescriptors() {
  return errno == EMFILE || errno == ENFILE;
}

bool Watch(int epoll, int operation, int fd, uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  return epoll_ctl(epoll, operation, fd, &event) == 0;
}

}  // namespace

Acceptor::Acceptor(int listener, int epoll, PeerOf peer_of, Owner* owner,
                   Strangers* strangers, Limits limits)
    : listener_(listener),
      epoll_(epoll),
      peer_of_(std::move(peer_of)),
      owner_(owner),
      strangers_(strangers),
      limits_(WithDefault(limits)),
      reserve_(OpenReserve()),
      timer_(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)) {
  watched_ = timer_ >= 0 && Watch(epoll_, EPOLL_CTL_ADD, listener_, EPOLLIN) &&
             Watch(epoll_, EPOLL_CTL_ADD, timer_, EPOLLIN);
}

Acceptor::~Acceptor() {
  for (const int fd : {reserve_, timer_})
    if (fd >= 0)
      close(fd);
}

absl::Status Acceptor::Check() const {
  if (reserve_ >= 0 && watched_)
    return absl::OkStatus();
  return absl::ResourceExhaustedError(
      "opening descriptors: is the limit of open files (ulimit -n) reached?");
}

absl::Status Acceptor::AcceptAll() {
  Resume();
  for (int taken = 0; taken < kMostAtOnce; ++taken) {
    if (silent_.size() >= limits_.most_silent && !ExpireOldest()) {
      Pause();
      return absl::OkStatus();
    }
    const int fd = AcceptOne(listener_);
    bool more = fd >= 0;
    if (more && IsOurs(fd))
      Admit(fd);
    else if (fd < 0 && OutOfDescriptors())
      RETURN_IF_ERROR(AcceptByReserve(&more));
    if (!more)
      return absl::OkStatus();
  }
  return absl::OkStatus();
}

absl::Status Acceptor::AcceptByReserve(bool* more) {
  const auto used_up = [] {
    return absl::ResourceExhaustedError(
        fmt::format("no more connections of real ranks can be open ({}); raise the "
                    "limit (ulimit -n) above the ranks of the largest Gloo group",
                    strerror(EMFILE)));
  };
  if (reserve_ < 0)
    return used_up();
  close(std::exchange(reserve_, -1));
  const int fd = AcceptOne(listener_);
  *more = fd >= 0;
  const bool ours = fd >= 0 && IsOurs(fd);
  const bool room = ours && ExpireOldest();
  if (ours && !room)
    close(fd);
  reserve_ = OpenReserve();
  if (ours && !room)
    return used_up();
  if (ours)
    Admit(fd);
  return absl::OkStatus();
}

bool Acceptor::IsOurs(int fd) {
  const Peer peer = peer_of_(fd);
  // Where the machine reports no owner, refusing all would end every PyTorch job.
  const bool ours =
      peer.kind == Peer::Kind::kUnknown ||
      (peer.kind == Peer::Kind::kUser && (peer.uid == geteuid() || peer.uid == 0));
  if (ours)
    return true;
  if (peer.kind == Peer::Kind::kUser)
    strangers_->Count(Strangers::kOtherUser,
                      fmt::format("it was of a process of user {}, and vrank runs as "
                                  "user {}",
                                  peer.uid, geteuid()));
  owner_->Refused(fd);
  close(fd);
  return false;
}

void Acceptor::Admit(int fd) {
  places_[fd] = silent_.insert(silent_.end(), {fd, Clock::now()});
  owner_->Accepted(fd);
}

bool Acceptor::ExpireOldest() {
  if (silent_.empty() || Clock::now() - silent_.front().since < limits_.patience)
    return false;
  const size_t count = silent_.size();
  owner_->Expired(silent_.front().fd);
  return silent_.size() < count;
}

void Acceptor::Forget(int fd) {
  const auto place = places_.find(fd);
  if (place == places_.end())
    return;
  silent_.erase(place->second);
  places_.erase(place);
  if (silent_.size() < limits_.most_silent)
    Resume();
}

void Acceptor::Pause() {
  paused_ = true;
  Watch(epoll_, EPOLL_CTL_MOD, listener_, 0);
  const auto left = std::max<std::chrono::nanoseconds>(
      silent_.front().since + limits_.patience - Clock::now(),
      std::chrono::milliseconds(1));
  itimerspec when{};
  when.it_value.tv_sec = std::chrono::floor<std::chrono::seconds>(left).count();
  when.it_value.tv_nsec = (left % std::chrono::seconds(1)).count();
  timerfd_settime(timer_, 0, &when, nullptr);
}

void Acceptor::Resume() {
  if (!std::exchange(paused_, false))
    return;
  Watch(epoll_, EPOLL_CTL_MOD, listener_, EPOLLIN);
  const itimerspec never{};
  timerfd_settime(timer_, 0, &never, nullptr);
}

}  // namespace vrank::emulator
