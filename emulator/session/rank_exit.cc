#include "emulator/session/rank_exit.h"

#include <signal.h>
#include <string.h>

#include <fmt/format.h>

namespace vrank::emulator {
namespace {

// POSIX, "Exit Status for Commands" of the shell.
constexpr int kNotExecutable = 126;
constexpr int kNotFound = 127;
constexpr int kSignalled = 128;  // plus the signal's number, in every usual shell

std::string NameOf(int signal) {
  const char* name = sigabbrev_np(signal);
  return name == nullptr ? fmt::format("signal {}", signal)
                         : fmt::format("SIG{} ({})", name, sigdescr_np(signal));
}

// The signal that ended it, or a command that it had started.
int SignalOf(const ExitStatus& status) {
  if (status.signal != 0)
    return status.signal;
  const int signal = status.code - kSignalled;
  return signal > 0 && sigabbrev_np(signal) != nullptr ? signal : 0;
}

// Signals by which a program ends itself; the others come from somebody else.
bool IsCrash(int signal) {
  for (const int crash : {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS})
    if (signal == crash)
      return true;
  return false;
}

}  // namespace

std::string DescribeExit(const ExitStatus& status) {
  if (status.signal != 0)
    return "was killed by " + NameOf(status.signal);
  std::string text = fmt::format("exited with {}", status.code);
  if (status.code == kNotExecutable)
    text += " (a shell's word for a command that cannot be executed)";
  else if (status.code == kNotFound)
    text += " (a shell's word for a command that is not there)";
  else if (const int signal = SignalOf(status); signal != 0)
    text += fmt::format(" (a shell's word for {})", NameOf(signal));
  return text;
}

std::string WhoEnded(const LaunchOptions& launch, int32_t rank) {
  return launch.launcher.empty() ? fmt::format("rank {}", rank)
                                 : fmt::format("the launcher '{}'", launch.launcher);
}

std::string AfterExit(const LaunchOptions& launch, int32_t rank,
                      const ExitStatus& status) {
  std::string text =
      launch.log_folder.empty()
          ? "what it wrote last is above"
          : fmt::format("what it wrote is in {0}/rank{1}.out and {0}/rank{1}.err",
                        launch.log_folder, rank);
  const int signal = SignalOf(status);
  if (launch.real_gpu && launch.real_gpus > 0 && signal == 0 &&
      launch.ranks_of_node > launch.real_gpus)
    text += fmt::format(
        "; the emulated node has {} ranks, and this machine {} GPU{}: a program that "
        "looks for one for each rank of its node has to be told of {} "
        "(docs/limitations.md, \"Real GPU\")",
        launch.ranks_of_node, launch.real_gpus, launch.real_gpus == 1 ? "" : "s",
        launch.real_gpus);
  if (signal == SIGKILL)
    text +=
        "; the kernel does this where memory runs out, and says so in its log "
        "(dmesg)";
  if (IsCrash(signal) && launch.launcher.empty())
    text += fmt::format(
        "; to see where it was, let gdb start the program: "
        "`-- gdb -batch -ex run -ex backtrace --args {} ...`",
        launch.command[0]);
  return text;
}

}  // namespace vrank::emulator
