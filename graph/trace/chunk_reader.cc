// Length, magic, version, checksum, sequence, encoding: in that order, each with its
// message.

#include "graph/trace/chunk_reader.h"

#include <sys/stat.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "base/crc32c.h"
#include "base/format_version.h"
#include "base/status_macros.h"

namespace vrank::graph {
namespace {

constexpr char kAgain[] = "copy the file again, or trace the rank again";

uint64_t SizeOf(FILE* file) {
  struct stat status {};
  return fstat(fileno(file), &status) == 0 && S_ISREG(status.st_mode)
             ? static_cast<uint64_t>(status.st_size)
             : 0;
}

}  // namespace

ChunkReader::ChunkReader(FILE* file, std::string name)
    : file_(file), name_(std::move(name)), file_bytes_(SizeOf(file)) {}

uint64_t ChunkReader::LikeItToCome() const {
  if (file_bytes_ <= next_offset_)
    return 0;
  return (file_bytes_ - next_offset_) / (sizeof header_ + header_.stored_bytes) + 1;
}

std::string ChunkReader::Place() const {
  return fmt::format("trace '{}', offset {}", name_, offset_);
}

absl::Status ChunkReader::Damaged(uint64_t offset_in_chunk,
                                  const std::string& what) const {
  return absl::DataLossError(fmt::format("{}: chunk {} is damaged at byte {}: {}; {}",
                                         Place(), header_.sequence, offset_in_chunk,
                                         what, kAgain));
}

absl::StatusOr<ChunkReader::Got> ChunkReader::Read(void* to, size_t bytes) {
  const size_t got = std::fread(to, 1, bytes, file_);
  next_offset_ += got;
  if (got < bytes && std::ferror(file_) != 0)
    return absl::UnavailableError(
        fmt::format("trace '{}', offset {}: cannot be read: {}; {}", name_,
                    next_offset_, std::strerror(errno), kAgain));
  if (got == bytes)
    return Got::kAll;
  return got == 0 ? Got::kNothing : Got::kPart;
}

absl::Status ChunkReader::CheckHeader() const {
  if (std::memcmp(header_.magic, trace::kMagic, sizeof header_.magic) != 0) {
    if (chunks_ == 0)
      return absl::InvalidArgumentError(
          fmt::format("{}: this is no .vtrace file (it does not begin with 'vtrC'); "
                      "name a file that `vrank trace` wrote",
                      Place()));
    return absl::DataLossError(fmt::format(
        "{}: no chunk begins here (after {} good ones); {}", Place(), chunks_, kAgain));
  }
  RETURN_IF_ERROR(
      CheckFormatVersion(Place(), header_.version, trace::kVersion, kAgain));
  if (header_.stored_bytes > trace::kMaxChunkBytes ||
      header_.plain_bytes > trace::kMaxChunkBytes || header_.stored_bytes % 8 != 0 ||
      header_.plain_bytes % 8 != 0 || header_.encoded_bytes > header_.stored_bytes)
    return absl::DataLossError(fmt::format(
        "{}: impossible chunk lengths ({} stored, {} plain, {} encoded); {}", Place(),
        header_.stored_bytes, header_.plain_bytes, header_.encoded_bytes, kAgain));
  return absl::OkStatus();
}

// The end of the file where a chunk should go on. A raw file ends so when its program
// is killed; without a whole chunk there is nothing in it.
absl::Status ChunkReader::CutOff(size_t got) const {
  if (!canonical_ && chunks_ > 0)
    return absl::OkStatus();
  return absl::DataLossError(
      fmt::format("{}: the file is cut short: it ends in the middle of chunk {} ({} "
                  "bytes of it are there); {}",
                  Place(), chunks_, got, kAgain));
}

absl::StatusOr<bool> ChunkReader::Next() {
  offset_ = next_offset_;
  ASSIGN_OR_RETURN(Got got, Read(&header_, sizeof header_));
  if (got == Got::kNothing) {
    if (chunks_ == 0)
      return absl::DataLossError(fmt::format(
          "trace '{}': the file is empty; the program was never traced (did it use "
          "CUDA?): trace it again",
          name_));
    return false;
  }
  const size_t have = next_offset_ - offset_;
  if (got == Got::kPart) {
    if (chunks_ == 0 &&
        std::memcmp(&header_, trace::kMagic, std::min(have, sizeof header_.magic)) != 0)
      return CheckHeader();
    RETURN_IF_ERROR(CutOff(have));
    return false;
  }
  RETURN_IF_ERROR(CheckHeader());
  stored_.resize(header_.stored_bytes / 8);
  ASSIGN_OR_RETURN(got, Read(stored_.data(), header_.stored_bytes));
  if (got != Got::kAll && header_.stored_bytes > 0) {
    canonical_ |= header_.source == trace::Source::kCanonical;
    RETURN_IF_ERROR(CutOff(next_offset_ - offset_));
    return false;
  }
  trace::ChunkHeader unsummed = header_;
  unsummed.crc = 0;
  const uint32_t crc = HostCrc32c(stored_.data(), header_.stored_bytes,
                                  HostCrc32c(&unsummed, sizeof unsummed));
  if (crc != header_.crc)
    return absl::DataLossError(
        fmt::format("{}: chunk {} is damaged: its checksum is {:08x}, not {:08x}; {}",
                    Place(), chunks_, crc, header_.crc, kAgain));
  if (header_.sequence != chunks_)
    return absl::DataLossError(
        fmt::format("{}: chunk {} stands where chunk {} should; "
                    "a part of the file is missing: {}",
                    Place(), header_.sequence, chunks_, kAgain));
  canonical_ |= header_.source == trace::Source::kCanonical;
  RETURN_IF_ERROR(Decode());
  ++chunks_;
  return true;
}

absl::Status ChunkReader::Decode() {
  const auto* stored = reinterpret_cast<const char*>(stored_.data());
  switch (header_.encoding) {
    case trace::Encoding::kPlain:
      if (header_.plain_bytes != header_.stored_bytes)
        return Damaged(0, "a plain chunk has two lengths");
      records_ = {stored, header_.plain_bytes};
      return absl::OkStatus();
    case trace::Encoding::kZstd: {
      plain_.resize(header_.plain_bytes / 8);
      const size_t bytes = ZSTD_decompress(plain_.data(), header_.plain_bytes, stored,
                                           header_.encoded_bytes);
      if (ZSTD_isError(bytes) != 0 || bytes != header_.plain_bytes)
        return Damaged(0,
                       fmt::format("it cannot be decompressed ({})",
                                   ZSTD_isError(bytes) != 0 ? ZSTD_getErrorName(bytes)
                                                            : "another length"));
      records_ = {reinterpret_cast<const char*>(plain_.data()), header_.plain_bytes};
      return absl::OkStatus();
    }
  }
  return absl::UnimplementedError(
      fmt::format("{}: encoding {} is not known to this build; use a newer vrank",
                  Place(), static_cast<int>(header_.encoding)));
}

}  // namespace vrank::graph
