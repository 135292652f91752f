// Whether a command can run under vrank, found out before anything starts.
//
// Thread rule: pure functions; they read files.

#ifndef VRANK_EMULATOR_LAUNCH_COMMAND_CHECK_H_
#define VRANK_EMULATOR_LAUNCH_COMMAND_CHECK_H_

#include <string>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

namespace vrank::emulator {

// The file that executing `name` means (found on PATH where it has no slash). An error
// where it does not exist, may not be executed, or is a program into which no library
// can be preloaded or which carries its own copy of the CUDA runtime. Scripts are
// judged by their interpreter.
absl::StatusOr<std::string> ResolveCommand(const std::string& name);

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_LAUNCH_COMMAND_CHECK_H_
