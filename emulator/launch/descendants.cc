#include "emulator/launch/descendants.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <chrono>

namespace vrank::emulator {
namespace {

constexpr std::chrono::seconds kToCleanUp{2};

// The fourth field of /proc/PID/stat; the second, the name, may hold anything but ends
// with the last ')'.
pid_t ParentOf(const char* pid) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
  FILE* file = fopen(path, "re");
  if (file == nullptr)
    return 0;
  char line[512];
  const size_t length = fread(line, 1, sizeof line - 1, file);
  fclose(file);
  line[length] = '\0';
  const char* name_end = strrchr(line, ')');
  int parent = 0;
  if (name_end == nullptr || sscanf(name_end + 1, " %*c %d", &parent) != 1)
    return 0;
  return parent;
}

// It will end when the others have: see the header.
bool CleansUp(const char* pid) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%.20s/status", pid);
  FILE* file = fopen(path, "re");
  if (file == nullptr)
    return false;
  unsigned long long blocked = 0, ignored = 0;  // it blocks them while it starts
  char line[512];
  while (fgets(line, sizeof line, file) != nullptr) {
    sscanf(line, "SigBlk: %llx", &blocked);
    sscanf(line, "SigIgn: %llx", &ignored);
  }
  fclose(file);
  constexpr auto bit = [](int signal) { return 1ull << (signal - 1); };
  constexpr unsigned long long both = bit(SIGINT) | bit(SIGTERM);
  return ((blocked | ignored) & both) == both;
}

// Whether there were any that were not spared.
bool KillChildren(bool spare_cleaners) {
  DIR* processes = opendir("/proc");
  if (processes == nullptr)
    return false;
  bool any = false;
  const pid_t self = getpid();
  while (const dirent* entry = readdir(processes)) {
    if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' &&
        ParentOf(entry->d_name) == self &&
        !(spare_cleaners && CleansUp(entry->d_name))) {
      kill(atoi(entry->d_name), SIGKILL);
      any = true;
    }
  }
  closedir(processes);
  return any;
}

}  // namespace

bool KillDescendants(Duration limit, const std::function<void(pid_t, int)>& on_end) {
  auto last_killed = std::chrono::steady_clock::now();
  const auto end = last_killed + std::chrono::nanoseconds(limit.nanoseconds());
  bool spare_cleaners = true;
  for (;;) {
    const bool killed = KillChildren(spare_cleaners);
    const auto now = std::chrono::steady_clock::now();
    if (killed)
      last_killed = now;
    spare_cleaners = spare_cleaners && now - last_killed < kToCleanUp;
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
      on_end(pid, status);
    if (pid < 0 && errno == ECHILD)
      return true;
    if (std::chrono::steady_clock::now() >= end)
      return false;
    const timespec pause{0, 1'000'000};
    nanosleep(&pause, nullptr);
  }
}

}  // namespace vrank::emulator
