// Files that are read as a whole must be files: opening a pipe nobody writes to waits
// for ever.
//
// Thread rule: asks the file system, keeps no state.

#ifndef VRANK_BASE_REGULAR_FILE_H_
#define VRANK_BASE_REGULAR_FILE_H_

#include <string>

#include <absl/status/status.h>

namespace vrank {

// An error, which leaves the subject to the caller, where `path` leads to a pipe, a
// device or a socket. What is not there, and a folder, is left to whoever opens it.
absl::Status CheckNoPipe(const std::string& path);

}  // namespace vrank

#endif  // VRANK_BASE_REGULAR_FILE_H_
