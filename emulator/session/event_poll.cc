#include "emulator/session/event_poll.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <array>

#include <fmt/format.h>

namespace vrank::emulator {

EventPoll::EventPoll() : epoll_(epoll_create1(EPOLL_CLOEXEC)) {}

EventPoll::~EventPoll() {
  if (epoll_ >= 0)
    close(epoll_);
}

absl::Status EventPoll::Add(int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  if (epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) != 0)
    return absl::InternalError(fmt::format("epoll: {}", strerror(errno)));
  return absl::OkStatus();
}

std::vector<int> EventPoll::Wait(std::chrono::milliseconds limit) {
  std::array<epoll_event, 8> events{};
  const int count = epoll_wait(epoll_, events.data(), static_cast<int>(events.size()),
                               static_cast<int>(limit.count()));
  std::vector<int> readable;
  for (int i = 0; i < count; ++i)
    readable.push_back(events[static_cast<size_t>(i)].data.fd);
  return readable;
}

bool EventPoll::AnyReadable() const {
  pollfd events{epoll_, POLLIN, 0};
  return poll(&events, 1, 0) > 0;
}

}  // namespace vrank::emulator
