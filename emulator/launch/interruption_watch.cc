#include "emulator/launch/interruption_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

#include "base/interruption.h"

namespace vrank::emulator {
namespace {

// The loop is given up after that many periods without a beat.
constexpr time_t kPeriodSeconds = 1;
constexpr int kMostMissed = 3;
// How long the keeper may take: its own limit is 20 s.
constexpr int kKeeperPolls = 2500;
constexpr timespec kBetweenPolls{0, 10'000'000};

// What the handlers read.
struct Shared {
  std::atomic<int> pipe{-1};
  std::atomic<int> socket{-1};
  std::atomic<pid_t> keeper{0};
  std::atomic<timer_t> timer{};
  std::atomic<bool> has_timer{false};
  std::atomic<unsigned> beats{0};
  std::atomic<bool> resting{false};
  std::atomic<int> signal{0};  // the first one
  std::atomic<unsigned> seen_beats{0};
  std::atomic<int> missed{0};
};
Shared shared;

int TimerSignal() {
  return SIGRTMIN + 1;
}

void OnInterruption(int number) {
  const int saved_errno = errno;
  const auto byte = static_cast<unsigned char>(number);
  (void)!write(shared.pipe, &byte, 1);
  int none = 0;
  if (shared.signal.compare_exchange_strong(none, number) && shared.has_timer) {
    shared.seen_beats = shared.beats.load();
    shared.missed = 0;
    const itimerspec period{{kPeriodSeconds, 0}, {kPeriodSeconds, 0}};
    timer_settime(shared.timer, 0, &period, nullptr);
  }
  errno = saved_errno;
}

[[noreturn]] void EndAll() {
  shutdown(shared.socket, SHUT_RDWR);
  for (int i = 0; i < kKeeperPolls; ++i) {
    siginfo_t end{};
    if (waitid(P_PID, static_cast<id_t>(shared.keeper.load()), &end,
               WEXITED | WNOHANG | WNOWAIT) != 0 ||
        end.si_pid != 0)
      break;
    nanosleep(&kBetweenPolls, nullptr);
  }
  EndNow(shared.signal);
}

void OnTimer(int) {
  const int saved_errno = errno;
  const unsigned beats = shared.beats;
  if (shared.seen_beats.exchange(beats) != beats || shared.resting)
    shared.missed = 0;
  else if (++shared.missed >= kMostMissed)
    EndAll();
  errno = saved_errno;
}

struct sigaction Handling(void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigfillset(&action.sa_mask);
  return action;
}

}  // namespace

InterruptionWatch* InterruptionWatch::newest_ = nullptr;

InterruptionWatch::InterruptionWatch(pid_t keeper, int socket)
    : older_(newest_), keeper_(keeper), socket_(fcntl(socket, F_DUPFD_CLOEXEC, 0)) {
  if (pipe2(ends_.data(), O_CLOEXEC | O_NONBLOCK) != 0)
    ends_ = {-1, -1};
  sigevent event{};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = TimerSignal();
  has_timer_ = timer_create(CLOCK_MONOTONIC, &event, &timer_) == 0;
  newest_ = this;
  Publish();
  const struct sigaction on_timer = Handling(OnTimer);
  sigaction(TimerSignal(), &on_timer, &timer_before_);
  const struct sigaction on_interruption = Handling(OnInterruption);
  for (size_t i = 0; i < kSignals.size(); ++i) {
    sigaction(kSignals[i], nullptr, &before_[i]);
    if (before_[i].sa_handler != SIG_IGN)
      sigaction(kSignals[i], &on_interruption, nullptr);
  }
  // A process may be started with signals blocked.
  sigset_t handled;
  sigemptyset(&handled);
  for (const int number : kSignals)
    sigaddset(&handled, number);
  sigaddset(&handled, TimerSignal());
  sigprocmask(SIG_UNBLOCK, &handled, &mask_before_);
}

void InterruptionWatch::Publish() {
  shared.pipe = ends_[1];
  shared.socket = socket_;
  shared.keeper = keeper_;
  shared.timer = timer_;
  shared.has_timer = has_timer_;
  shared.resting = false;
  shared.signal = 0;
}

InterruptionWatch::~InterruptionWatch() {
  sigprocmask(SIG_SETMASK, &mask_before_, nullptr);
  for (size_t i = 0; i < kSignals.size(); ++i)
    sigaction(kSignals[i], &before_[i], nullptr);
  if (has_timer_)
    timer_delete(timer_);
  sigaction(TimerSignal(), &timer_before_, nullptr);
  newest_ = older_;
  if (older_ != nullptr)
    older_->Publish();
  for (const int fd : {ends_[0], ends_[1], socket_})
    if (fd >= 0)
      close(fd);
}

std::vector<int> InterruptionWatch::Take() {
  std::vector<int> signals;
  unsigned char byte;
  while (read(ends_[0], &byte, 1) == 1)
    signals.push_back(byte);
  return signals;
}

void InterruptionWatch::Beat() {
  ++shared.beats;
}

void InterruptionWatch::set_resting(bool resting) {
  shared.resting = resting;
}

}  // namespace vrank::emulator
