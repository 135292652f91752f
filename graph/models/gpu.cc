// Loading and checking GPU descriptions.

#include "graph/models/gpu.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/status_macros.h"
#include "base/text_proto.h"
#include "graph/models/description_file.h"

namespace vrank::graph {
namespace {

constexpr char kKind[] = "gpus";

using Zero = Problems::Zero;

void CheckRates(const PeakRates& rates, const std::string& unit, Problems* problems) {
  const std::pair<const char*, double> all[] = {
      {"fp64", rates.fp64()}, {"fp32", rates.fp32()}, {"tf32", rates.tf32()},
      {"bf16", rates.bf16()}, {"fp16", rates.fp16()}, {"fp8", rates.fp8()},
      {"int8", rates.int8()}};
  for (const auto& [type, rate] : all)
    problems->RequireRate(rate, fmt::format("{}.{}", unit, type), Zero::kAllowed);
}

// What a program is told in 32-bit integers, and may multiply.
void CheckSizes(const GpuDescription& gpu, Problems* problems) {
  constexpr uint64_t kMostInt = (uint64_t{1} << 31) - 1;
  problems->RequireCount(gpu.compute_major(), "compute_major", 1000);
  problems->RequireCount(gpu.compute_minor(), "compute_minor", 1000, Zero::kAllowed);
  problems->RequireBytes(gpu.memory_bytes(), "memory_bytes", Zero::kRefused);
  if (gpu.context_bytes() >= gpu.memory_bytes())
    problems->Add(fmt::format("context_bytes ({}) must be below memory_bytes ({})",
                              gpu.context_bytes(), gpu.memory_bytes()));
  problems->RequireCount(gpu.l2_bytes(), "l2_bytes", kMostInt);
  problems->RequireCount(gpu.memory_bus_bits(), "memory_bus_bits", kMostInt);
  problems->RequireCount(gpu.shared_per_block(), "shared_per_block", kMostInt);
  if (gpu.shared_per_block_optin() < gpu.shared_per_block() ||
      gpu.shared_per_multiprocessor() < gpu.shared_per_block_optin())
    problems->Add(
        "shared_per_block, shared_per_block_optin and shared_per_multiprocessor must "
        "not decrease");
  problems->RequireCount(gpu.shared_per_multiprocessor(), "shared_per_multiprocessor",
                         kMostInt);
  problems->RequireCount(gpu.constant_bytes(), "constant_bytes", kMostInt);
  problems->RequireCount(gpu.multiprocessors(), "multiprocessors", 1 << 20);
  problems->RequireCount(gpu.registers_per_multiprocessor(),
                         "registers_per_multiprocessor", kMostInt);
  problems->RequireCount(gpu.threads_per_multiprocessor(), "threads_per_multiprocessor",
                         1 << 20);
  problems->RequireCount(gpu.blocks_per_multiprocessor(), "blocks_per_multiprocessor",
                         1 << 20);
  problems->RequireCount(gpu.clock_khz(), "clock_khz", kMostInt);
  problems->RequireCount(gpu.memory_clock_khz(), "memory_clock_khz", kMostInt);
  problems->RequireCount(gpu.nvlinks(), "nvlinks", 1 << 20, Zero::kAllowed);
}

void CheckPower(const GpuDescription& gpu, Problems* problems) {
  if (!gpu.has_power())
    return;
  const Power& power = gpu.power();
  problems->RequireRate(power.limit_watts(), "power.limit_watts", Zero::kRefused);
  problems->RequireRate(power.idle_watts(), "power.idle_watts", Zero::kAllowed);
  problems->RequireRate(power.memory_watts(), "power.memory_watts", Zero::kRefused);
  problems->RequireFraction(power.sustained_gemm(), "power.sustained_gemm");
  if (power.idle_watts() > power.memory_watts() ||
      power.memory_watts() >= power.limit_watts())
    problems->Add(
        "power: idle_watts, memory_watts and limit_watts must not decrease, and "
        "limit_watts must be above memory_watts");
  if (power.sustained_gemm() > gpu.efficiency().gemm())
    problems->Add(
        fmt::format("power.sustained_gemm ({}) must not be above "
                    "efficiency.gemm ({})",
                    power.sustained_gemm(), gpu.efficiency().gemm()));
}

absl::Status Check(const std::string& subject, const GpuDescription& gpu) {
  Problems problems(fmt::format("gpu '{}'", subject));
  const size_t room = sizeof(protocol::GpuProperties::name) - 1;
  if (gpu.name().empty() || gpu.name().size() > room)
    problems.Add(fmt::format("name must have 1 to {} characters, has {}", room,
                             gpu.name().size()));
  CheckSizes(gpu, &problems);
  CheckRates(gpu.tensor(), "tensor", &problems);
  CheckRates(gpu.vector(), "vector", &problems);
  problems.RequireRate(gpu.vector().fp32(), "vector.fp32", Zero::kRefused);
  problems.RequireRate(gpu.memory_gbs(), "memory_gbs", Zero::kRefused);
  problems.RequireFraction(gpu.efficiency().gemm(), "efficiency.gemm");
  problems.RequireFraction(gpu.efficiency().gemm_8bit(), "efficiency.gemm_8bit");
  problems.RequireFraction(gpu.efficiency().memory(), "efficiency.memory");
  if (gpu.efficiency().memory_write() != 0)
    problems.RequireFraction(gpu.efficiency().memory_write(),
                             "efficiency.memory_write");
  CheckPower(gpu, &problems);
  // Positive, so that no work is free and every node of the graph takes time.
  problems.RequireNs(gpu.kernel_overhead_ns(), "kernel_overhead_ns", Zero::kRefused);
  problems.RequireNs(gpu.memory_ramp_ns(), "memory_ramp_ns", Zero::kAllowed);
  problems.RequireNs(gpu.kernel_gap_ns(), "kernel_gap_ns", Zero::kAllowed);
  if (gpu.kernel_gap_ns() >= std::min(gpu.kernel_overhead_ns(), gpu.gemm_overhead_ns()))
    problems.Add(
        "kernel_gap_ns must be below kernel_overhead_ns and gemm_overhead_ns, of "
        "which it is a part");
  problems.RequireNs(gpu.memory_latency_ns(), "memory_latency_ns", Zero::kAllowed);
  problems.RequireNs(gpu.l2_latency_ns(), "l2_latency_ns", Zero::kAllowed);
  problems.RequireRate(gpu.multiprocessor_gbs(), "multiprocessor_gbs", Zero::kAllowed);
  problems.RequireRate(gpu.l2_gbs(), "l2_gbs", Zero::kAllowed);
  problems.RequireNs(gpu.copy_overhead_ns(), "copy_overhead_ns", Zero::kAllowed);
  problems.RequireNs(gpu.copy_ramp_ns(), "copy_ramp_ns", Zero::kAllowed);
  problems.RequireNs(gpu.gemm_overhead_ns(), "gemm_overhead_ns", Zero::kRefused);
  problems.RequireRate(gpu.host_link().pinned_gbs(), "host_link.pinned_gbs",
                       Zero::kRefused);
  problems.RequireRate(gpu.host_link().pageable_gbs(), "host_link.pageable_gbs",
                       Zero::kRefused);
  problems.RequireNs(gpu.host_link().latency_ns(), "host_link.latency_ns",
                     Zero::kAllowed);
  problems.RequireRate(gpu.peer_gbs(), "peer_gbs", Zero::kRefused);
  problems.RequireRate(gpu.host_copy_gbs(), "host_copy_gbs", Zero::kRefused);
  return problems.ToStatus();
}

protocol::GpuProperties Properties(const GpuDescription& gpu) {
  protocol::GpuProperties properties = {};
  std::memcpy(properties.name, gpu.name().data(), gpu.name().size());
  properties.memory_bytes = gpu.memory_bytes();
  properties.context_bytes = gpu.context_bytes();
  properties.l2_bytes = gpu.l2_bytes();
  properties.memory_bus_bits = gpu.memory_bus_bits();
  properties.shared_per_block = gpu.shared_per_block();
  properties.shared_per_block_optin = gpu.shared_per_block_optin();
  properties.shared_per_multiprocessor = gpu.shared_per_multiprocessor();
  properties.constant_bytes = gpu.constant_bytes();
  properties.compute_major = gpu.compute_major();
  properties.compute_minor = gpu.compute_minor();
  properties.multiprocessors = gpu.multiprocessors();
  properties.registers_per_multiprocessor = gpu.registers_per_multiprocessor();
  properties.threads_per_multiprocessor = gpu.threads_per_multiprocessor();
  properties.blocks_per_multiprocessor = gpu.blocks_per_multiprocessor();
  properties.clock_khz = gpu.clock_khz();
  properties.memory_clock_khz = gpu.memory_clock_khz();
  properties.nvlinks = gpu.nvlinks();
  properties.multicast = gpu.multicast() ? 1 : 0;
  return properties;
}

absl::StatusOr<Gpu> LoadFile(const std::string& path) {
  GpuDescription description;
  RETURN_IF_ERROR(ReadTextProto(path, &description));
  return MakeGpu(std::filesystem::path(path).stem().string(), std::move(description));
}

struct KnownGpus {
  std::vector<std::string> names;              // of files in the data folder
  std::map<std::string, std::string> by_name;  // the same by name and alias
};

// An error where two files claim one name.
absl::StatusOr<KnownGpus> ReadKnownGpus(const std::string& data_dir) {
  KnownGpus known;
  for (const std::string& name : DescriptionNames(data_dir, kKind)) {
    GpuDescription description;
    RETURN_IF_ERROR(
        ReadTextProto(DescriptionPath(data_dir, kKind, name), &description));
    known.names.push_back(name);
    std::vector<std::string> claimed(description.alias().begin(),
                                     description.alias().end());
    claimed.push_back(name);
    for (const std::string& alias : claimed) {
      const auto [other, is_new] = known.by_name.emplace(alias, name);
      if (!is_new)
        return absl::InvalidArgumentError(fmt::format(
            "gpu '{}': named in {} and in {}; a name belongs to one file, once", alias,
            DescriptionPath(data_dir, kKind, other->second),
            DescriptionPath(data_dir, kKind, name)));
    }
  }
  return known;
}

// A file outside of the data folder. Graphs and tables of kernel times know a GPU by
// its file's name, so that must not be another GPU's.
absl::StatusOr<Gpu> LoadOwnFile(const std::string& path, const std::string& data_dir,
                                const KnownGpus& known) {
  ASSIGN_OR_RETURN(Gpu gpu, LoadFile(path));
  const auto same_name = known.by_name.find(gpu.short_name);
  if (same_name == known.by_name.end())
    return gpu;
  const std::string other = DescriptionPath(data_dir, kKind, same_name->second);
  ASSIGN_OR_RETURN(const Gpu described, LoadFile(other));
  if (same_name->second == gpu.short_name &&
      described.description.SerializeAsString() == gpu.description.SerializeAsString())
    return gpu;
  return absl::InvalidArgumentError(
      fmt::format("{}: '{}' is the name of the GPU that {} describes; rename "
                  "the file",
                  path, gpu.short_name, other));
}

}  // namespace

absl::StatusOr<Gpu> MakeGpu(std::string short_name, GpuDescription description) {
  RETURN_IF_ERROR(Check(short_name, description));
  Gpu gpu;
  gpu.short_name = std::move(short_name);
  gpu.properties = Properties(description);
  gpu.description = std::move(description);
  return gpu;
}

absl::StatusOr<Gpu> LoadGpu(const std::string& name_or_path,
                            const std::string& data_dir) {
  ASSIGN_OR_RETURN(const KnownGpus known, ReadKnownGpus(data_dir));
  if (MeansFile(name_or_path))
    return LoadOwnFile(name_or_path, data_dir, known);
  const auto name = known.by_name.find(name_or_path);
  if (name != known.by_name.end())
    return LoadFile(DescriptionPath(data_dir, kKind, name->second));
  return absl::NotFoundError(fmt::format(
      "gpu '{}': no such description in '{}/{}' (there are: {}); give one of these "
      "names or a .textproto file",
      name_or_path, data_dir, kKind, fmt::join(known.names, ", ")));
}

}  // namespace vrank::graph
