// Interposed: what may wake up or start another process of the rank. Whoever moves the
// clock looks at them at its next safe point (other_processes.h). Writing is one:
// Python gives up its interpreter's lock for it, and who gets that next must not be
// chance.
//
// Not seen: a wake-up by a signal, by the end of a connection, by reading what somebody
// else could not write, or through memory that processes share, and processes that the
// C library starts for itself (system, popen) until they load this library.

#include <spawn.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/guest/export.h"
#include "virtual_host/process/process.h"
#include "virtual_host/system/real_calls.h"
#include "virtual_host/turns/thread_state.h"

namespace vrank::host {
namespace {

// What the calling thread has computed passes before others notice what it does next.
void Act(const char* function) {
  if (GuestChannel* const channel = ConnectedChannel())
    channel->Act(function);
}

// Touches no errno, and neither does AndStir.
void Stir() {
  if (GuestChannel* const channel = ConnectedChannel())
    channel->Stir();
}

template <typename Result>
Result AndStir(Result result) {
  if (GuestChannel* const channel = ConnectedChannel()) {
    channel->Stir();
    if (channel->scheduler().any() && thread_state.inside == 0) {
      const TimePoint clock = channel->Peek();
      InsideScope inside;
      channel->scheduler().SignalWritten(clock);
    }
    channel->LetHelpersRun();
    channel->SettleOthersAsHelper();
  }
  return result;
}

}  // namespace
}  // namespace vrank::host

using namespace vrank::host;

extern "C" {

VRANK_EXPORT ssize_t write(int descriptor, const void* bytes, size_t count) {
  Act("write");
  return AndStir(Real().write(descriptor, bytes, count));
}

VRANK_EXPORT ssize_t writev(int descriptor, const iovec* parts, int count) {
  Act("writev");
  return AndStir(Real().writev(descriptor, parts, count));
}

VRANK_EXPORT ssize_t send(int socket, const void* bytes, size_t count, int flags) {
  Act("send");
  return AndStir(Real().send(socket, bytes, count, flags));
}

VRANK_EXPORT ssize_t sendto(int socket, const void* bytes, size_t count, int flags,
                            const sockaddr* to, socklen_t to_bytes) {
  Act("sendto");
  return AndStir(Real().sendto(socket, bytes, count, flags, to, to_bytes));
}

VRANK_EXPORT ssize_t sendmsg(int socket, const msghdr* message, int flags) {
  Act("sendmsg");
  return AndStir(Real().sendmsg(socket, message, flags));
}

VRANK_EXPORT int connect(int socket, const sockaddr* to, socklen_t to_bytes) {
  Act("connect");
  return AndStir(Real().connect(socket, to, to_bytes));
}

VRANK_EXPORT int posix_spawn(pid_t* pid, const char* path,
                             const posix_spawn_file_actions_t* actions,
                             const posix_spawnattr_t* attributes, char* const argv[],
                             char* const environment[]) {
  Act("posix_spawn");
  Stir();
  return AndStir(Real().posix_spawn(pid, path, actions, attributes, argv, environment));
}

VRANK_EXPORT int posix_spawnp(pid_t* pid, const char* file,
                              const posix_spawn_file_actions_t* actions,
                              const posix_spawnattr_t* attributes, char* const argv[],
                              char* const environment[]) {
  Act("posix_spawn");
  Stir();
  return AndStir(
      Real().posix_spawnp(pid, file, actions, attributes, argv, environment));
}

// In the child of fork or vfork, before it becomes another program.
VRANK_EXPORT int execve(const char* path, char* const argv[],
                        char* const environment[]) noexcept {
  Stir();
  return Real().execve(path, argv, environment);
}

VRANK_EXPORT int execv(const char* path, char* const argv[]) noexcept {
  Stir();
  return Real().execv(path, argv);
}

VRANK_EXPORT int execvp(const char* file, char* const argv[]) noexcept {
  Stir();
  return Real().execvp(file, argv);
}

}  // extern "C"
