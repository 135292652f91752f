#include "tools/machine/output_file.h"

#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "base/whole_file.h"
#include "tools/terminal/output_style.h"

namespace vrank::tools {
namespace {

std::string FolderOf(const std::filesystem::path& path) {
  const std::string folder = path.parent_path().string();
  return folder.empty() ? "." : folder;
}

// The kernel's names of open files, as /dev/stdout and /dev/fd/3 lead to.
bool IsInProc(const std::filesystem::path& path) {
  struct statfs system = {};
  return statfs(FolderOf(path).c_str(), &system) == 0 &&
         static_cast<unsigned long>(system.f_type) == PROC_SUPER_MAGIC;
}

// What is written when `path` is: where its links lead, though nothing be there yet.
// What stands for an open file is left as it is.
std::string FollowLinks(const std::string& path) {
  constexpr int kMostLinks = 40;  // as the kernel has it
  namespace fs = std::filesystem;
  fs::path place = path;
  std::error_code error;
  for (int i = 0; i < kMostLinks && !IsInProc(place) && fs::is_symlink(place, error);
       ++i)
    place = place.parent_path() / fs::read_symlink(place, error);
  return place.string();
}

// A device, a pipe, or what stands for an open file: nothing to be replaced.
bool IsWrittenInPlace(const std::string& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  return IsInProc(FollowLinks(path)) ||
         (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status));
}

// A file that exists, or a place for one.
struct Target {
  bool exists = false, is_device = false;
  dev_t device = 0;
  ino_t inode = 0;
  std::string place;  // canonical
};

Target TargetOf(const std::string& path) {
  Target target;
  struct stat facts = {};
  if (stat(path.c_str(), &facts) == 0) {
    target.exists = true;
    target.is_device = S_ISCHR(facts.st_mode) || S_ISBLK(facts.st_mode);
    target.device = facts.st_dev;
    target.inode = facts.st_ino;
  }
  std::error_code error;
  std::filesystem::path place = std::filesystem::absolute(FollowLinks(path), error);
  if (!error)
    place = std::filesystem::weakly_canonical(place, error);
  target.place = error ? path : place.string();
  return target;
}

bool Same(const Target& a, const Target& b) {
  if (a.exists && b.exists)
    return !a.is_device && a.device == b.device && a.inode == b.inode;
  return a.exists == b.exists && a.place == b.place;
}

// Whether writing `output` changes `other`.
bool Touches(const std::string& output, const std::string& other) {
  return Same(TargetOf(output), TargetOf(other));
}

// Why no file can be made in this folder, which is there; empty: one can.
std::string WhyNoFile(const std::string& folder) {
  if (access(folder.c_str(), W_OK | X_OK) != 0)
    return std::strerror(errno);
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(folder, error);
  if (!error && space.capacity != 0 && space.available == 0)
    return std::strerror(ENOSPC);
  return "";
}

// A folder to be filled need not be there; then it is made in the nearest that is.
absl::Status CheckNewFolder(const OutputFile& folder) {
  std::error_code ignored;
  std::filesystem::path above = std::filesystem::absolute(folder.path, ignored);
  while (above.has_relative_path() && !std::filesystem::exists(above, ignored))
    above = above.parent_path();
  const std::string why = std::filesystem::is_directory(above, ignored)
                              ? WhyNoFile(above.string())
                              : std::strerror(ENOTDIR);
  return why.empty() ? absl::OkStatus()
                     : absl::FailedPreconditionError(fmt::format(
                           "{} {}: it cannot be made in {}: {}; name another folder",
                           folder.flag, folder.path, above.string(), why));
}

absl::Status CheckFolder(const OutputFile& folder) {
  std::error_code ignored;
  if (!std::filesystem::exists(folder.path, ignored))
    return CheckNewFolder(folder);
  if (!std::filesystem::is_directory(folder.path, ignored))
    return absl::InvalidArgumentError(
        fmt::format("{} {}: it is no folder; name one", folder.flag, folder.path));
  if (const std::string why = WhyNoFile(folder.path); !why.empty())
    return absl::FailedPreconditionError(
        fmt::format("{} {}: {}; name another folder", folder.flag, folder.path, why));
  return absl::OkStatus();
}

// Where a file is to appear there must be a folder that takes it.
absl::Status CheckPlace(const OutputFile& output) {
  std::error_code ignored;
  if (IsWrittenInPlace(output.path) ||
      std::filesystem::is_directory(output.path, ignored))
    return absl::OkStatus();
  const std::filesystem::path folder = FolderOf(FollowLinks(output.path));
  if (!std::filesystem::is_directory(folder, ignored))
    return absl::FailedPreconditionError(fmt::format(
        "{} {}: cannot be written: there is no folder {}; make it, or name another",
        output.flag, output.path, folder.string()));
  const std::string why = WhyNoFile(folder.string());
  return why.empty() ? absl::OkStatus()
                     : absl::FailedPreconditionError(fmt::format(
                           "{} {}: cannot be written in {}: {}; name another place",
                           output.flag, output.path, folder.string(), why));
}

constexpr char kStandardOutput[] = "/proc/self/fd/1";

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

absl::Status CheckNamedFiles(const NamedFiles& files) {
  for (const OutputFile& folder : files.folders)
    RETURN_IF_ERROR(CheckFolder(folder));
  for (size_t i = 0; i < files.written.size(); ++i) {
    const OutputFile& output = files.written[i];
    const auto clash = [&](const std::string& what) {
      return absl::InvalidArgumentError(
          fmt::format("{} {}: {}; name another file", output.flag, output.path, what));
    };
    for (const OutputFile& input : files.read)
      if (Touches(output.path, input.path))
        return clash(fmt::format("that would overwrite the input '{}'", input.path));
    for (size_t j = 0; j < files.written.size(); ++j)
      if (j != i && Touches(output.path, files.written[j].path))
        return clash(fmt::format("{} {} would overwrite it, or be overwritten",
                                 files.written[j].flag, files.written[j].path));
    for (const OutputFile& folder : files.folders)
      if (Same(TargetOf(output.path), TargetOf(folder.path)))
        return clash(fmt::format("it is the folder of {}", folder.flag));
    if (Touches(output.path, kStandardOutput))
      return clash("standard output goes there, too");
    RETURN_IF_ERROR(CheckPlace(output));
  }
  return absl::OkStatus();
}

absl::Status CheckOutput(const OutputFile& output) {
  std::error_code error;
  if (std::filesystem::is_directory(output.path, error))
    return absl::InvalidArgumentError(
        fmt::format("{} {}: it is a folder; name a file", output.flag, output.path));
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

absl::Status CheckRoom(const OutputFile& output, uint64_t bytes) {
  if (IsWrittenInPlace(output.path))
    return absl::OkStatus();
  const std::filesystem::path folder = FolderOf(FollowLinks(output.path));
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(folder, error);
  if (error || space.available >= bytes)
    return absl::OkStatus();
  return absl::FailedPreconditionError(
      fmt::format("{} {}: it would have {}, and {} has room for {}; name another place",
                  output.flag, output.path, FormatBytes(static_cast<double>(bytes)),
                  folder.string(), FormatBytes(static_cast<double>(space.available))));
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
