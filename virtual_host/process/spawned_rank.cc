#include "virtual_host/process/spawned_rank.h"

#include <sys/types.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string_view>

#include "virtual_host/system/proc_text.h"
#include "virtual_host/turns/process_tree.h"

namespace vrank::host {
namespace {

// The last argument of such a process (multiprocessing/spawn.py, get_command_line).
constexpr std::string_view kSpawned = "--multiprocessing-fork";

bool IsSpawned(pid_t process) {
  char folder[32];
  snprintf(folder, sizeof folder, "/proc/%d", process);
  const ProcText<4096> command(folder, "cmdline");
  // Arguments end with a 0 byte each.
  for (size_t at = 0; at < command.bytes;) {
    const std::string_view argument(command.text + at);
    if (argument == kSpawned)
      return true;
    at += argument.size() + 1;
  }
  return false;
}

}  // namespace

int PlaceAmongSpawned() {
  const pid_t self = getpid();
  if (!IsSpawned(self))
    return -1;
  int place = 0;
  ForEachChildOf(getppid(), [&](pid_t sibling) {
    if (sibling < self && IsSpawned(sibling))
      ++place;
  });
  return place;
}

}  // namespace vrank::host
