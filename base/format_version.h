// The check of a file's format version, with one message for all formats. docs/files.md
// says where each format keeps it.
//
// Thread rule: pure function.

#ifndef VRANK_BASE_FORMAT_VERSION_H_
#define VRANK_BASE_FORMAT_VERSION_H_

#include <cstdint>
#include <string>
#include <string_view>

#include <absl/status/status.h>
#include <fmt/format.h>

namespace vrank {

// OK for versions `oldest` to `newest`. Unimplemented: the version is newer or older;
// DataLoss: it is 0, which no vrank writes. `subject` names the file ("graph 'x'"),
// `again` says how another one is made.
inline absl::Status CheckFormatVersion(std::string_view subject, uint32_t version,
                                       uint32_t newest, std::string_view again,
                                       uint32_t oldest = 1) {
  if (version == 0)
    return absl::DataLossError(fmt::format(
        "{}: format version 0, which no vrank writes: the file is damaged; {}", subject,
        again));
  if (version > newest)
    return absl::UnimplementedError(
        fmt::format("{}: format version {}, this build reads {}-{}; use a newer vrank, "
                    "or {}",
                    subject, version, oldest, newest, again));
  if (version < oldest)
    return absl::UnimplementedError(fmt::format(
        "{}: format version {} of an older vrank, this build reads {}-{}; {}", subject,
        version, oldest, newest, again));
  return absl::OkStatus();
}

}  // namespace vrank

#endif  // VRANK_BASE_FORMAT_VERSION_H_
