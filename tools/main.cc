// The program vrank: runs the subcommand that its first argument names.

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "base/decision_log.h"
#include "base/interruption.h"
#include "tools/commands/command_line.h"
#include "tools/commands/commands.h"
#include "tools/machine/version.h"
#include "tools/terminal/say.h"

namespace {

using vrank::tools::Command;

// Whoever starts vrank may have closed these. The next file to be opened would take the
// number, and what is printed would go into it. Standard output is opened for reading:
// writing a result there fails, as it would have. Messages may vanish.
void HoldStandardDescriptors() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
      (void)!open("/dev/null", fd == STDOUT_FILENO ? O_RDONLY : O_RDWR);
}

void PrintHelp(FILE* out) {
  fmt::print(
      out,
      "vrank runs a few ranks of a large training job for real and plays all the "
      "others.\n\n"
      "usage: vrank COMMAND [flags] [-- PROGRAM ...]\n\nSubcommands:\n");
  for (const Command& command : vrank::tools::Commands())
    fmt::print(out, "  {:<10} {}\n", command.name, command.summary);
  fmt::print(out,
             "\n`vrank COMMAND --help` explains one; `vrank --version` says which "
             "vrank this is.\n\n"
             "Example: vrank demo\n");
}

constexpr char kOutOfMemory[] =
    "vrank: out of memory; is there a limit (ulimit -v)? What `vrank replay` plays "
    "rank by rank takes most, ranks with one timeline played once take least\n";

// The main thread unwinds, so that no file stays half written. From another one an
// exception would reach nobody.
void OutOfMemory() {
  if (gettid() == getpid())
    throw std::bad_alloc();
  (void)!write(STDERR_FILENO, kOutOfMemory, sizeof kOutOfMemory - 1);
  _exit(vrank::tools::kExitFailed);
}

int Dispatch(const std::vector<std::string>& arguments) {
  if (arguments.empty()) {
    PrintHelp(stderr);
    return vrank::tools::kExitUsage;
  }
  const std::string& name = arguments[0];
  if (name == "--help" || name == "-h" || name == "help") {
    PrintHelp(stdout);
    return vrank::tools::kExitFine;
  }
  if (name == "--version") {
    fmt::print("vrank {}\n", vrank::tools::Version());
    return vrank::tools::kExitFine;
  }
  for (const Command& command : vrank::tools::Commands())
    if (name == command.name) {
      if (const absl::Status log = vrank::StartDecisionLog(); !log.ok()) {
        vrank::tools::Say("vrank: {}\n", std::string(log.message()));
        return vrank::tools::kExitUsage;
      }
      vrank::EndOnInterruption("vrank " + name);
      return command.run(
          vrank::tools::SplitAtDashes({arguments.begin() + 1, arguments.end()}));
    }
  vrank::tools::Say("vrank: there is no command '{}'; `vrank --help` lists them\n",
                    name);
  return vrank::tools::kExitUsage;
}

}  // namespace

int main(int argc, char** argv) {
  HoldStandardDescriptors();
  vrank::OutliveFileSizeLimit();
  vrank::OutliveBrokenPipes();
  std::set_new_handler(OutOfMemory);
  // A result that did not reach stdout (a full disk, a closed pipe) is no result.
  try {
    const int code = Dispatch({argv + 1, argv + argc});
    if (vrank::Interruption() != 0)
      vrank::EndByInterruption();
    if (fflush(stdout) == 0)
      return code;
    const int error = errno;
    if (error == EPIPE)
      vrank::EndByBrokenPipe();
    fprintf(stderr, "vrank: stdout: %s; the result is lost\n", strerror(error));
  } catch (const std::system_error& error) {  // from fmt, where a write fails
    if (error.code().value() == EPIPE)
      vrank::EndByBrokenPipe();
    // Not by fmt, which would throw again where stderr is what cannot be written.
    fprintf(stderr, "vrank: stdout: %s; the result is lost\n",
            error.code().message().c_str());
  } catch (const std::bad_alloc&) {  // under a limit that nobody asked beforehand
    fputs(kOutOfMemory, stderr);
  }
  return vrank::tools::kExitFailed;
}
