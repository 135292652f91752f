// Interposed: ptrace, which tells a debugger from the program that it started.

#include <fcntl.h>
#include <sys/ptrace.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdlib>
#include <cstring>

#include "base/guest/export.h"
#include "virtual_host/process/process.h"
#include "virtual_host/system/real_calls.h"
#include "virtual_host/wait/watchers.h"

namespace vrank::host {
namespace {

constexpr char kBeside[] = "VRANK_BESIDE_THE_PROGRAM";

bool Traced() {
  char text[2048];
  const int file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  const ssize_t got = file < 0 ? -1 : read(file, text, sizeof text - 1);
  close(file);
  if (got <= 0)
    return false;
  text[got] = '\0';
  constexpr char kField[] = "TracerPid:";
  const char* const line = strstr(text, kField);
  return line != nullptr && atoi(line + sizeof kField - 1) != 0;
}

}  // namespace

bool StartedBesideAProgram() {
  if (getenv(kBeside) == nullptr)
    return false;
  if (!Traced())
    return true;
  unsetenv(kBeside);
  return false;
}

void BecomeWatcher() {
  GuestChannel* const channel = ProcessChannel();
  if (channel == nullptr || channel->detached())
    return;
  channel->StandAside();
  setenv(kBeside, "1", /*replace=*/1);
}

}  // namespace vrank::host

extern "C" VRANK_EXPORT long ptrace(enum __ptrace_request request, ...) noexcept {
  va_list list;
  va_start(list, request);
  // As libc's own: three more arguments, whatever the request.
  const pid_t pid = va_arg(list, pid_t);
  void* const address = va_arg(list, void*);
  void* const data = va_arg(list, void*);
  va_end(list);
  // PTRACE_TRACEME is the tracee's, before it becomes the program.
  if (request != PTRACE_TRACEME)
    vrank::host::BecomeWatcher();
  return vrank::host::Real().ptrace(request, pid, address, data);
}
