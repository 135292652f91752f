#include "tools/output_file.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "base/whole_file.h"

namespace vrank::tools {
namespace {

bool SameFile(const std::string& a, const std::string& b) {
  struct stat of_a = {}, of_b = {};
  return stat(a.c_str(), &of_a) == 0 && stat(b.c_str(), &of_b) == 0 &&
         of_a.st_dev == of_b.st_dev && of_a.st_ino == of_b.st_ino;
}

// A device, a pipe, or what stands for an open file: nothing to be replaced.
bool IsWrittenInPlace(const std::string& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  return path.starts_with("/dev/") || path.starts_with("/proc/") ||
         (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status));
}

// What is written when `path` is: where its links lead, though nothing be there yet.
std::string FollowLinks(const std::string& path) {
  constexpr int kMostLinks = 40;  // as the kernel has it
  namespace fs = std::filesystem;
  fs::path place = path;
  std::error_code error;
  for (int i = 0; i < kMostLinks && fs::is_symlink(place, error); ++i)
    place = place.parent_path() / fs::read_symlink(place, error);
  return place.string();
}

absl::Status CannotWrite(const OutputFile& output, const std::string& why) {
  return absl::FailedPreconditionError(
      fmt::format("{} {}: cannot be written: {}; does its folder exist, with room?",
                  output.flag, output.path, why));
}

absl::Status WriteTo(const OutputFile& output, const std::string& place,
                     const std::function<absl::Status(std::ostream&)>& write) {
  errno = 0;
  std::ofstream file(place, std::ios::binary | std::ios::trunc);
  if (!file)
    return CannotWrite(output, std::strerror(errno));
  const absl::Status written = write(file);
  file.close();
  const std::string why = errno == 0 ? "" : fmt::format(": {}", std::strerror(errno));
  if (!written.ok())
    return absl::Status(written.code(),
                        fmt::format("{} {}: {}{}", output.flag, output.path,
                                    std::string(written.message()), why));
  return file ? absl::OkStatus() : CannotWrite(output, std::strerror(errno));
}

}  // namespace

absl::Status CheckOutput(const OutputFile& output) {
  std::error_code error;
  if (std::filesystem::is_directory(output.path, error))
    return absl::FailedPreconditionError(
        fmt::format("{} {}: it is a folder; name a file", output.flag, output.path));
  if (IsWrittenInPlace(output.path))
    return absl::OkStatus();
  for (const std::string& input : output.inputs)
    if (SameFile(output.path, input) ||
        SameFile(output.path + WholeFile::kBeside, input))
      return absl::InvalidArgumentError(
          fmt::format("{} {}: that would overwrite the input '{}'; name another file",
                      output.flag, output.path, input));
  return absl::OkStatus();
}

absl::Status CheckReplacedOutput(const OutputFile& output) {
  RETURN_IF_ERROR(CheckOutput(output));
  if (IsWrittenInPlace(output.path))
    return absl::InvalidArgumentError(fmt::format(
        "{} {}: it is no regular file; name a file", output.flag, output.path));
  return absl::OkStatus();
}

absl::Status CheckNewOutput(const OutputFile& output) {
  RETURN_IF_ERROR(CheckOutput(output));
  std::error_code error;
  if (!IsWrittenInPlace(output.path) && std::filesystem::exists(output.path, error))
    return absl::AlreadyExistsError(
        fmt::format("{} {}: it is there already, and what is filled in there would be "
                    "lost; name another file, or remove it",
                    output.flag, output.path));
  return absl::OkStatus();
}

absl::Status WriteOutput(const OutputFile& output,
                         const std::function<absl::Status(std::ostream&)>& write) {
  RETURN_IF_ERROR(CheckOutput(output));
  if (IsWrittenInPlace(output.path))
    return WriteTo(output, output.path, write);
  WholeFile file(FollowLinks(output.path));
  if (file.stream() == nullptr)
    return CannotWrite(output, std::strerror(errno));
  RETURN_IF_ERROR(
      WriteTo(output, fmt::format("/proc/self/fd/{}", fileno(file.stream())), write));
  return file.Commit() ? absl::OkStatus() : CannotWrite(output, std::strerror(errno));
}

}  // namespace vrank::tools
