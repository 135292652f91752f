#include "emulator/launch/busy_watch.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cstdint>

#include "base/interruption.h"

namespace vrank::emulator {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kBetweenLooks{50};

bool IsReadable(int fd) {
  pollfd look{fd, POLLIN, 0};
  return poll(&look, 1, 0) == 1 && (look.revents & POLLIN) != 0;
}

}  // namespace

BusyWatch::BusyWatch(int signals)
    : signals_(signals), stop_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (stop_ >= 0)
    thread_ = std::thread([this] { Watch(); });
}

BusyWatch::~BusyWatch() {
  if (stop_ < 0)
    return;
  const uint64_t one = 1;
  (void)!write(stop_, &one, sizeof one);
  thread_.join();
  close(stop_);
}

void BusyWatch::Watch() const {
  auto read_last = Clock::now();
  while (true) {
    // With a signal unread, the descriptor would end the poll at once.
    const bool unread = IsReadable(signals_);
    pollfd ready[] = {{stop_, POLLIN, 0}, {signals_, POLLIN, 0}};
    poll(ready, unread ? 1 : 2, unread ? static_cast<int>(kBetweenLooks.count()) : -1);
    if (IsReadable(stop_))
      return;
    if (!unread) {
      read_last = Clock::now();
      continue;
    }
    signalfd_siginfo information;
    if (Clock::now() - read_last >= kPatience &&
        read(signals_, &information, sizeof information) == sizeof information)
      InterruptNow(static_cast<int>(information.ssi_signo));
  }
}

}  // namespace vrank::emulator
