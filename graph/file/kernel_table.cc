#include "graph/file/kernel_table.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <numeric>

#include <fmt/format.h>

#include "base/format_version.h"
#include "base/guest/crc32c.h"
#include "base/regular_file.h"
#include "base/status_macros.h"
#include "base/whole_file.h"
#include "graph/file/kernel_table.pb.h"

namespace vrank::graph {
namespace {

constexpr uint32_t kVersion = 1;
constexpr uint64_t kMostBytes = uint64_t{1} << 30;  // 100 times the largest seen

absl::Status Broken(const std::string& subject, const std::string& what) {
  return absl::DataLossError(fmt::format(
      "kernel table '{}': {}; collect it again with `vrank kernels`", subject, what));
}

}  // namespace

void KernelTable::Finish() {
  for (auto& [key, samples] : samples_) {
    std::sort(samples.begin(), samples.end());
    const double sum = std::accumulate(samples.begin(), samples.end(), 0.0);
    // Of an even number the lower middle one, which is a time that was seen.
    rows_[key] = {samples.size(), samples[(samples.size() - 1) / 2], samples.front(),
                  sum / static_cast<double>(samples.size())};
  }
  samples_.clear();
}

absl::Status KernelTable::CheckGpu(const std::string& gpu) const {
  if (gpu == gpu_)
    return absl::OkStatus();
  return absl::FailedPreconditionError(fmt::format(
      "the kernel table is of GPU '{}', not of '{}'; collect one there", gpu_, gpu));
}

absl::Status KernelTable::Merge(const KernelTable& other) {
  if (absl::Status status = other.CheckGpu(gpu_); !status.ok())
    return status;
  sources_.insert(other.sources_.begin(), other.sources_.end());
  for (const auto& [key, row] : other.rows_) {
    const auto [mine, is_new] = rows_.emplace(key, row);
    if (is_new)
      continue;
    Row merged = row.count > mine->second.count ? row : mine->second;
    const auto count_a = static_cast<double>(mine->second.count);
    const auto count_b = static_cast<double>(row.count);
    merged.mean_ns =
        (mine->second.mean_ns * count_a + row.mean_ns * count_b) / (count_a + count_b);
    merged.min_ns = std::min(mine->second.min_ns, row.min_ns);
    merged.count = mine->second.count + row.count;
    mine->second = merged;
  }
  return absl::OkStatus();
}

std::optional<int64_t> KernelTable::Find(const std::string& mangled,
                                         const uint32_t (&grid)[3],
                                         const uint32_t (&block)[3],
                                         uint32_t shared_bytes) const {
  Key key;
  key.name = mangled;
  std::copy_n(grid, 3, key.grid.begin());
  std::copy_n(block, 3, key.block.begin());
  key.shared_bytes = shared_bytes;
  const auto row = rows_.find(key);
  if (row == rows_.end())
    return std::nullopt;
  return row->second.median_ns;
}

std::string KernelTable::Serialize() const {
  KernelTableFile file;
  file.set_version(kVersion);
  file.set_gpu(gpu_);
  for (const std::string& source : sources_)
    file.add_sources(source);
  for (const auto& [key, row] : rows_) {
    auto* out = file.add_rows();
    out->set_name(key.name);
    out->mutable_grid()->Assign(key.grid.begin(), key.grid.end());
    out->mutable_block()->Assign(key.block.begin(), key.block.end());
    out->set_shared_bytes(key.shared_bytes);
    out->set_count(row.count);
    out->set_median_ns(row.median_ns);
    out->set_min_ns(row.min_ns);
    out->set_mean_ns(row.mean_ns);
  }
  const std::string body = file.SerializeAsString();
  file.set_crc(Crc32c(body.data(), body.size()));
  return file.SerializeAsString();
}

absl::StatusOr<KernelTable> KernelTable::Parse(const std::string& subject,
                                               const std::string& bytes) {
  if (bytes.empty())
    return Broken(subject, "the file is empty");
  KernelTableFile file;
  if (!file.ParseFromString(bytes))
    return Broken(subject, "this is no kernel table, or a part of one");
  RETURN_IF_ERROR(CheckFormatVersion(fmt::format("kernel table '{}'", subject),
                                     file.version(), kVersion,
                                     "collect it again with `vrank kernels`"));
  const uint32_t crc = file.crc();
  file.clear_crc();
  const std::string body = file.SerializeAsString();
  if (crc != Crc32c(body.data(), body.size()))
    return Broken(subject, "its checksum is wrong");
  KernelTable table(file.gpu());
  table.sources_.insert(file.sources().begin(), file.sources().end());
  for (const KernelTableFile::Row& row : file.rows()) {
    if (row.grid_size() != 3 || row.block_size() != 3 || row.count() == 0 ||
        row.min_ns() <= 0 || row.median_ns() < row.min_ns() ||
        !(row.mean_ns() >= static_cast<double>(row.min_ns())) ||
        !std::isfinite(row.mean_ns()))
      return Broken(
          subject,
          fmt::format(
              "the row of '{}' makes no sense (count {}, least {} ns, median {} "
              "ns, mean {} ns)",
              row.name(), row.count(), row.min_ns(), row.median_ns(), row.mean_ns()));
    Key key;
    key.name = row.name();
    std::copy(row.grid().begin(), row.grid().end(), key.grid.begin());
    std::copy(row.block().begin(), row.block().end(), key.block.begin());
    key.shared_bytes = row.shared_bytes();
    table.rows_[std::move(key)] = {row.count(), row.median_ns(), row.min_ns(),
                                   row.mean_ns()};
  }
  return table;
}

absl::StatusOr<KernelTable> KernelTable::Read(const std::string& path) {
  const absl::StatusOr<std::string> bytes = ReadRegularFile(path, kMostBytes);
  if (!bytes.ok())
    return absl::Status(bytes.status().code(),
                        fmt::format("kernel table '{}': {}", path,
                                    std::string(bytes.status().message())));
  return Parse(path, *bytes);
}

absl::Status KernelTable::Write(const std::string& path) const {
  const std::string bytes = Serialize();
  WholeFile file(path);
  if (file.stream() != nullptr &&
      std::fwrite(bytes.data(), 1, bytes.size(), file.stream()) == bytes.size() &&
      file.Commit())
    return absl::OkStatus();
  return absl::FailedPreconditionError(fmt::format(
      "kernel table '{}' cannot be written: {}", path, std::strerror(errno)));
}

}  // namespace vrank::graph
