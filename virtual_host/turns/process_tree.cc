#include "virtual_host/turns/process_tree.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "virtual_host/system/proc_text.h"
#include "virtual_host/system/raw_syscall.h"
#include "virtual_host/turns/kernel_thread.h"

namespace vrank::host {
namespace {

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
  const ProcText<1024> children(thread, "children");
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
  const char state = KernelState(folder);
  if (state == 0)
    return;  // it has ended
  look->idle = look->idle && Waits(state);
  const ProcText<128> schedule(folder, "schedstat");
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
  const ProcText<128> load("/proc", "loadavg");
  const char* const last = strrchr(load.text, ' ');
  return last == nullptr ? 0 : static_cast<pid_t>(strtol(last, nullptr, 10));
}

}  // namespace

void ForEachChildOf(pid_t process, const std::function<void(pid_t)>& visit) {
  char name[16];
  snprintf(name, sizeof name, "%d", process);
  ForEachThread(name, [&](const char* folder) { ForEachChild(folder, visit); });
}

bool ProcessTree::HasChildren() {
  siginfo_t info{};
  return RawSyscall(SYS_waitid, P_ALL, 0, &info, WNOHANG | WNOWAIT | WEXITED,
                    nullptr) == 0;
}

// A process has its number before its parent has it among its children: they are found
// once more before a number that has not changed means that there are no others.
void ProcessTree::FindChildren() {
  const pid_t newest = NewestProcess();
  const bool is_new = newest == 0 || std::exchange(newest_, newest) != newest;
  if (!is_new && sure_)
    return;
  sure_ = !is_new;
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
