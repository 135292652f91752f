#include "base/interruption.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <utility>

namespace vrank {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};
constexpr char kNothingElse[] = "no output is half written";
constexpr int kMostPaths = 64;
constexpr size_t kLongestLine = 4096;

// Read by the handler, which may be reading a text at any time: none is ever freed.
pid_t owner = 0;
std::atomic<const char*> command_text{"vrank"};
std::atomic<const char*> stays_text{kNothingElse};
std::atomic<const char*> paths[kMostPaths];
std::atomic<int> noted{0};
bool broken_pipes_end = false;

// Equal texts are kept once.
const char* Keep(const std::string& text) {
  static std::mutex mutex;
  static auto* const texts = new std::set<std::string>;
  const std::lock_guard lock(mutex);
  return texts->insert(text).first->c_str();
}

[[noreturn]] void EndBy(int number) {
  signal(number, SIG_DFL);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, number);
  sigprocmask(SIG_UNBLOCK, &set, nullptr);
  raise(number);
  _exit(128 + number);
}

// Where a pipe is full that is never read, the line is lost, and the process ends all
// the same.
bool TakesALine(int fd) {
  pollfd ready{fd, POLLOUT, 0};
  return poll(&ready, 1, 0) == 1 && (ready.revents & POLLOUT) != 0;
}

// Calls only what a handler may call (signal-safety(7)).
[[noreturn]] void OnSignal(int number) {
  if (getpid() != owner)  // a child between fork and exec
    EndBy(number);
  for (int i = kMostPaths - 1; i >= 0; --i)
    if (const char* path = paths[i].load(); path != nullptr && unlink(path) != 0)
      rmdir(path);
  char line[kLongestLine];
  size_t length = 0;
  const auto add = [&](const char* text) {
    const size_t bytes = std::min(strlen(text), sizeof line - 1 - length);
    memcpy(line + length, text, bytes);
    length += bytes;
  };
  if (isatty(STDERR_FILENO))
    add("\r\033[K");  // a line of progress
  for (const char* text : {command_text.load(), ": interrupted by SIG",
                           sigabbrev_np(number), "; ", stays_text.load()})
    add(text);
  line[length++] = '\n';
  if (TakesALine(STDERR_FILENO))
    (void)!write(STDERR_FILENO, line, length);
  EndBy(number);
}

}  // namespace

void EndOnInterruption(const std::string& command) {
  owner = getpid();
  command_text = Keep(command);
  for (const int number : kSignals) {
    struct sigaction before {};
    sigaction(number, nullptr, &before);
    if (before.sa_handler == SIG_IGN)
      continue;
    struct sigaction action {};
    action.sa_handler = OnSignal;
    for (const int other : kSignals)
      sigaddset(&action.sa_mask, other);
    sigaction(number, &action, nullptr);
  }
}

void SetWhatStays(const std::string& text) {
  stays_text = text.empty() ? kNothingElse : Keep(text);
}

std::string WhatStays() {
  return stays_text.load();
}

RemovedOnInterruption::RemovedOnInterruption(const std::string& path) : slot_(-1) {
  const char* const kept = Keep(path);
  for (int slot = 0; slot < kMostPaths; ++slot) {
    const char* free = nullptr;
    if (paths[slot].compare_exchange_strong(free, kept)) {
      slot_ = slot;
      return;
    }
  }
}

RemovedOnInterruption::RemovedOnInterruption(RemovedOnInterruption&& other) noexcept
    : slot_(std::exchange(other.slot_, -1)) {}

RemovedOnInterruption::~RemovedOnInterruption() {
  if (slot_ >= 0)
    paths[slot_] = nullptr;
}

InterruptionsHeld::InterruptionsHeld() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : kSignals)
    sigaddset(&set, number);
  sigprocmask(SIG_BLOCK, &set, &before_);
}

InterruptionsHeld::~InterruptionsHeld() {
  sigprocmask(SIG_SETMASK, &before_, nullptr);
}

void NoteInterruption(int signal) {
  noted = signal;
}

int Interruption() {
  return noted;
}

void EndByInterruption() {
  EndBy(noted);
}

void OutliveBrokenPipes() {
  struct sigaction before {};
  sigaction(SIGPIPE, nullptr, &before);
  broken_pipes_end = before.sa_handler != SIG_IGN;
  signal(SIGPIPE, SIG_IGN);
}

void OutliveFileSizeLimit() {
  struct sigaction before {};
  sigaction(SIGXFSZ, nullptr, &before);
  if (before.sa_handler == SIG_IGN)
    return;
  // What is ignored is inherited by programs that are started, a handler is not.
  struct sigaction nothing {};
  nothing.sa_handler = [](int) {};
  sigaction(SIGXFSZ, &nothing, nullptr);
}

void EndByBrokenPipe() {
  if (broken_pipes_end)
    EndBy(SIGPIPE);
}

void EndNow(int signal) {
  OnSignal(signal);
}

}  // namespace vrank
