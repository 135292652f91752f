// Files that commands write.
//
// A graph is mapped while it is played, so a file that is written over its own input
// takes it away under the reader; who names an input by mistake has lost it; and of two
// results in one file one is lost. So the names on a command line are first held
// against each other (ParseFlags does it for every command), then an output is written
// beside its place and renamed: a failure leaves what was there before.
//
// Thread rule: writes files, keeps no state.

#ifndef VRANK_TOOLS_MACHINE_OUTPUT_FILE_H_
#define VRANK_TOOLS_MACHINE_OUTPUT_FILE_H_

#include <cstdint>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include <absl/status/status.h>

namespace vrank::tools {

struct OutputFile {
  std::string flag;  // that names the path, as in "--perfetto"
  std::string path;
};

// Files of a command line. A path may lead to nothing yet, and an input be no file (the
// name of a cluster).
struct NamedFiles {
  std::vector<OutputFile> read, written;
  std::vector<OutputFile> folders;  // that files of fixed names are written into
};
// InvalidArgument where a file that is written is also one that is read or written, by
// whatever path, or where standard output goes, or where a folder is none. Devices may
// be named twice. FailedPrecondition where an output, or a folder, can be seen to find
// no place: no folder, no permission, no room.
absl::Status CheckNamedFiles(const NamedFiles& files);

// An error where the output is a folder. Ask before the work begins.
absl::Status CheckOutput(const OutputFile& output);

// CheckOutput for what is only ever renamed into its place (a graph, a table): a device
// or a pipe there is an error, too, because it would be replaced.
absl::Status CheckReplacedOutput(const OutputFile& output);

// CheckOutput for what somebody goes on to edit: any file there is an error.
absl::Status CheckNewOutput(const OutputFile& output);

// FailedPrecondition where the folder of the output has not that much room. Devices and
// pipes need none.
absl::Status CheckRoom(const OutputFile& output, uint64_t bytes);

// Checks again and writes. Devices and pipes are written as they are, all else as a
// whole or not at all.
absl::Status WriteOutput(const OutputFile& output,
                         const std::function<absl::Status(std::ostream&)>& write);

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_MACHINE_OUTPUT_FILE_H_
