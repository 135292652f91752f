#include "virtual_host/process_tree.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "virtual_host/kernel_thread.h"
#include "virtual_host/raw_syscall.h"

namespace vrank::host {
namespace {

// What a file of /proc holds, as a string; empty where there is none.
struct ProcText {
  char text[1024] = {};

  explicit ProcText(const char* path) {
    const long fd = RawSyscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
      return;
    const long got = RawSyscall(SYS_read, fd, text, sizeof text - 1);
    text[got > 0 ? got : 0] = '\0';
    RawSyscall(SYS_close, fd);
  }
};

// What getdents64(2) writes for an entry: two numbers of 64 bits, the entry's length of
// 16 bits, a type of 8 bits, and the name.
constexpr long kEntryLength = 16, kEntryName = 19;

// Calls visit(path of the thread's folder) for each thread of the process. Without
// opendir, which takes memory.
template <typename Visit>
void ForEachThread(const char* process, Visit visit) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%s/task", process);
  const long fd =
      RawSyscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  if (fd < 0)
    return;
  alignas(8) char entries[1024];
  long got;
  while ((got = RawSyscall(SYS_getdents64, fd, entries, sizeof entries)) > 0) {
    for (long at = 0; at < got;) {
      uint16_t length;
      memcpy(&length, entries + at + kEntryLength, sizeof length);
      const char* const name = entries + at + kEntryName;
      at += length;
      if (name[0] == '.')
        continue;
      char folder[96];
      snprintf(folder, sizeof folder, "%s/%.16s", path, name);
      visit(folder);
    }
  }
  RawSyscall(SYS_close, fd);
}

// The processes that this thread has started: `children` of proc(5).
template <typename Visit>
void ForEachChild(const char* thread, Visit visit) {
  char path[128];
  snprintf(path, sizeof path, "%s/children", thread);
  const ProcText children(path);
  const char* at = children.text;
  for (;;) {
    char* end = nullptr;
    const long pid = strtol(at, &end, 10);
    // A number that the end of the buffer may have cut is left out.
    if (end == at || *end == '\0')
      return;
    visit(static_cast<pid_t>(pid));
    at = end;
  }
}

void LookAtThread(const char* folder, TreeLook* look) {
  char path[128];
  snprintf(path, sizeof path, "%s/stat", folder);
  const ProcText stat(path);
  const char* const name_end = strrchr(stat.text, ')');
  if (name_end == nullptr || name_end[1] == '\0')
    return;  // it has ended
  look->idle = look->idle && Waits(name_end[2]);
  snprintf(path, sizeof path, "%s/schedstat", folder);
  const ProcText schedule(path);
  unsigned long long ran_ns = 0, waited_ns = 0, times = 0;
  if (sscanf(schedule.text, "%llu %llu %llu", &ran_ns, &waited_ns, &times) != 3)
    return;
  look->cpu += Duration::Nanoseconds(static_cast<int64_t>(ran_ns));
  look->runs += times;
}

void LookAtProcess(pid_t pid, TreeLook* look) {
  char name[16];
  snprintf(name, sizeof name, "%d", pid);
  ForEachThread(name, [look](const char* folder) {
    LookAtThread(folder, look);
    ForEachChild(folder, [look](pid_t child) { LookAtProcess(child, look); });
  });
}

// The newest process of all: the last field of /proc/loadavg.
pid_t NewestProcess() {
  const ProcText load("/proc/loadavg");
  const char* const last = strrchr(load.text, ' ');
  return last == nullptr ? 0 : static_cast<pid_t>(strtol(last, nullptr, 10));
}

}  // namespace

bool ProcessTree::HasChildren() {
  siginfo_t info{};
  return RawSyscall(SYS_waitid, P_ALL, 0, &info, WNOHANG | WNOWAIT | WEXITED,
                    nullptr) == 0;
}

void ProcessTree::FindChildren() {
  const pid_t newest = NewestProcess();
  if (newest != 0 && newest == newest_)
    return;
  newest_ = newest;
  known_ = 0;
  ForEachThread("self", [this](const char* folder) {
    ForEachChild(folder, [this](pid_t child) {
      if (known_ < children_.size())
        children_[known_++] = child;
    });
  });
}

TreeLook ProcessTree::Look() {
  FindChildren();
  TreeLook look;
  for (size_t i = 0; i < known_; ++i)
    LookAtProcess(children_[i], &look);
  return look;
}

}  // namespace vrank::host
