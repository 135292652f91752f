// Opens and reads input files that users name.
//
// Only regular files on a disk are opened. Opening a pipe without a writer, or reading
// a device or some of the kernel's files (/proc/kmsg), would block or never end.
//
// Thread rule: free functions without state. Errors do not name the file: the caller
// does. NotFound: there is no such file. InvalidArgument: it is something else.
// FailedPrecondition: it cannot be opened or read.

#ifndef VRANK_BASE_REGULAR_FILE_H_
#define VRANK_BASE_REGULAR_FILE_H_

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include <absl/status/statusor.h>

namespace vrank {

struct CloseFile {
  void operator()(FILE* file) const { std::fclose(file); }
};
using OpenFile = std::unique_ptr<FILE, CloseFile>;

absl::StatusOr<OpenFile> OpenRegularFile(const std::string& path);

// All of it; InvalidArgument where that is more than `most_bytes`.
absl::StatusOr<std::string> ReadRegularFile(const std::string& path,
                                            uint64_t most_bytes);

}  // namespace vrank

#endif  // VRANK_BASE_REGULAR_FILE_H_
