// Pricing of kernels with a cache per kernel.

#include "graph/models/kernel_model.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/status_macros.h"

namespace vrank::graph {
namespace {

// Prices kept per kernel: an argument that changes with every launch must not fill
// memory.
constexpr size_t kMaxPrices = 1 << 16;

// The value of an argument from its raw bits (zero-extended to 64).
double ArgumentValue(const KernelParameter& parameter, uint64_t bits) {
  if (parameter.kind == ParameterKind::kFloating) {
    return parameter.size == sizeof(double)
               ? std::bit_cast<double>(bits)
               : static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  }
  if (!parameter.is_signed) {
    return static_cast<double>(bits);
  }
  const unsigned shift = 64 - 8 * parameter.size;
  return static_cast<double>(static_cast<int64_t>(bits << shift) >> shift);
}

// True where the bytes of a parameter can be read as a number.
bool IsReadable(const KernelParameter& parameter) {
  switch (parameter.kind) {
    case ParameterKind::kInteger:
      return parameter.size > 0 && parameter.size <= 8;
    case ParameterKind::kFloating:
      return parameter.size == sizeof(float) || parameter.size == sizeof(double);
    default:
      return false;
  }
}

}  // namespace

KernelModel::KernelModel(Gpu gpu, KernelCosts costs, KernelModelOptions options)
    : gpu_(std::move(gpu)), costs_(std::move(costs)), options_(options) {}

absl::StatusOr<KernelModel::KernelId> KernelModel::Define(const std::string& mangled) {
  const auto known = ids_.find(mangled);
  if (known != ids_.end()) {
    return known->second;
  }
  KnownKernel kernel;
  kernel.mangled = mangled;
  kernel.entry = costs_.Find(mangled, &kernel.captures);
  if (kernel.entry != nullptr) {
    const absl::Status found = FindArguments(&kernel);
    if (!found.ok() && !kernel.entry->may_not_fit)
      return found;
    if (!found.ok()) {
      kernel.entry = nullptr;
      kernel.used.clear();
    }
  }
  const KernelId id = static_cast<KernelId>(kernels_.size());
  kernels_.push_back(std::move(kernel));
  ids_.emplace(mangled, id);
  return id;
}

absl::Status KernelModel::FindArguments(KnownKernel* kernel) const {
  const KernelCosts::Entry& entry = *kernel->entry;
  if (UnitRate(gpu_.description, entry.unit) <= 0) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: unit {} does not exist on {}; choose another unit", costs_.Describe(entry),
        ComputeUnit_Name(entry.unit), gpu_.short_name));
  }
  if (entry.arguments.size() + entry.fields.size() > kMaxUsedArguments) {
    return absl::InvalidArgumentError(
        fmt::format("{}: its expressions use {} arguments, at most {} are possible",
                    costs_.Describe(entry),
                    entry.arguments.size() + entry.fields.size(), kMaxUsedArguments));
  }
  KernelSignature signature;
  ParseKernelSignature(kernel->mangled, &signature);
  for (uint32_t argument : entry.arguments) {
    if (argument >= signature.known || !IsReadable(signature.parameters[argument])) {
      return absl::InvalidArgumentError(fmt::format(
          "{}: arg{} of '{}' is no number whose place its name tells ({} of its "
          "parameters are known); use the launch geometry instead",
          costs_.Describe(entry), argument, Demangle(kernel->mangled),
          signature.known));
    }
    kernel->used.push_back(signature.parameters[argument]);
  }
  return absl::OkStatus();
}

absl::StatusOr<KernelModel::Key> KernelModel::MakeKey(
    const KnownKernel& kernel, const protocol::Kernel& launch,
    std::span<const std::byte> arguments) {
  auto pair = [](uint32_t low, uint32_t high) { return uint64_t{high} << 32 | low; };
  Key key;
  key.words[0] = pair(launch.grid[0], launch.grid[1]);
  key.words[1] = pair(launch.grid[2], launch.block[0]);
  key.words[2] = pair(launch.block[1], launch.block[2]);
  key.words[3] = launch.shared_bytes;
  key.words[4] = pair(launch.thread.instructions, launch.thread.bytes);
  for (size_t i = 0; i < kernel.used.size(); ++i) {
    const KernelParameter& parameter = kernel.used[i];
    if (uint64_t{parameter.offset} + parameter.size > arguments.size()) {
      return absl::DataLossError(fmt::format(
          "kernel '{}': its launch carries {} argument bytes, {} are needed",
          Demangle(kernel.mangled), arguments.size(),
          parameter.offset + parameter.size));
    }
    std::memcpy(&key.words[kLaunchWords + i], arguments.data() + parameter.offset,
                parameter.size);
  }
  if (kernel.entry == nullptr) {
    return key;
  }
  for (size_t i = 0; i < kernel.entry->fields.size(); ++i) {
    const ArgumentField& field = kernel.entry->fields[i];
    const std::optional<double> value = ReadField(field, arguments, launch.grid);
    if (!value) {
      return absl::DataLossError(
          fmt::format("kernel '{}': '{}' lies outside of the {} argument bytes that "
                      "its launch carries; correct its cost file",
                      Demangle(kernel.mangled), field.name, arguments.size()));
    }
    key.words[kLaunchWords + kernel.used.size() + i] = std::bit_cast<uint64_t>(*value);
  }
  return key;
}

// The model still says what the kernel moves and computes, where it knows.
absl::StatusOr<WorkCost> KernelModel::Price(const KnownKernel& kernel,
                                            const protocol::Kernel& launch,
                                            const Key& key) {
  ASSIGN_OR_RETURN(WorkCost cost, ModelPrice(kernel, launch, key));
  if (recorded_ == nullptr)
    return cost;
  const auto ns =
      recorded_->Find(kernel.mangled, launch.grid, launch.block, launch.shared_bytes);
  if (ns) {
    cost.ns = *ns;
    cost.source = Source::kRecorded;
    cost.compute_ns = 0;  // at the clock of the recording
  }
  return cost;
}

absl::StatusOr<WorkCost> KernelModel::ModelPrice(const KnownKernel& kernel,
                                                 const protocol::Kernel& launch,
                                                 const Key& key) {
  double blocks = 1, threads = 1;
  for (int i = 0; i < 3; ++i) {
    blocks *= launch.grid[i];
    threads *= static_cast<double>(launch.grid[i]) * launch.block[i];
  }
  if (kernel.entry == nullptr) {
    if (launch.thread.known()) {
      return ThreadCost(gpu_.description, blocks, threads, launch.thread);
    }
    WorkCost cost = KernelRoofline(
        gpu_.description,
        {.bytes = threads * static_cast<double>(options_.assumed_bytes_per_thread)});
    cost.source = Source::kAssumed;
    cost.unknown_size = true;
    return cost;
  }
  std::array<double, kMaxUsedArguments> values = {};
  for (size_t i = 0; i < kernel.used.size(); ++i) {
    values[i] = ArgumentValue(kernel.used[i], key.words[kLaunchWords + i]);
  }
  const size_t inputs = kernel.used.size() + kernel.entry->fields.size();
  for (size_t i = kernel.used.size(); i < inputs; ++i) {
    values[i] = std::bit_cast<double>(key.words[kLaunchWords + i]);
  }
  Launch geometry = {};
  std::copy(std::begin(launch.grid), std::end(launch.grid), geometry.grid);
  std::copy(std::begin(launch.block), std::end(launch.block), geometry.block);
  geometry.shared_bytes = launch.shared_bytes;
  geometry.multiprocessors = gpu_.description.multiprocessors();
  geometry.compute_major = gpu_.description.compute_major();
  ASSIGN_OR_RETURN(const KernelCosts::Work work,
                   costs_.Evaluate(*kernel.entry, geometry,
                                   std::span(values.data(), inputs), kernel.captures));
  WorkCost cost =
      KernelRoofline(gpu_.description, {.bytes = work.bytes,
                                        .flops = work.flops,
                                        .unit = kernel.entry->unit,
                                        .reached = work.reached,
                                        .issued = work.issued,
                                        .instructions = work.instructions,
                                        .unhidden = kernel.entry->unhidden,
                                        .blocks = work.blocks,
                                        .threads = threads,
                                        .flight = work.flight,
                                        .exchanges = work.exchanges,
                                        .from_memory = kernel.entry->lists});
  if (work.assumed)
    cost.source = Source::kAssumed;
  return cost;
}

absl::Status KernelModel::PriceOnce(KnownKernel* kernel, const protocol::Kernel& launch,
                                    std::span<const std::byte> arguments) {
  ASSIGN_OR_RETURN(const Key key, MakeKey(*kernel, launch, arguments));
  if (kernel->has_last && key == kernel->last_key)
    return absl::OkStatus();
  const auto found = kernel->prices.find(key);
  if (found != kernel->prices.end()) {
    kernel->last_cost = found->second;
  } else {
    ASSIGN_OR_RETURN(kernel->last_cost, Price(*kernel, launch, key));
    if (kernel->prices.size() >= kMaxPrices) {
      kernel->prices.clear();
    }
    kernel->prices.emplace(key, kernel->last_cost);
  }
  kernel->last_key = key;
  kernel->has_last = true;
  return absl::OkStatus();
}

absl::StatusOr<WorkCost> KernelModel::Kernel(KernelId id,
                                             const protocol::Kernel& launch,
                                             std::span<const std::byte> arguments) {
  KnownKernel& kernel = kernels_[id];
  const absl::Status priced = PriceOnce(&kernel, launch, arguments);
  if (!priced.ok()) {
    if (kernel.entry == nullptr || !kernel.entry->may_not_fit)
      return priced;
    // Of this launch alone: what others cost does not depend on the order of ranks.
    KnownKernel undescribed;
    undescribed.mangled = kernel.mangled;
    ASSIGN_OR_RETURN(kernel.last_cost, Price(undescribed, launch, {}));
    kernel.has_last = false;
  }
  WorkCost cost = kernel.last_cost;
  if (cost.source == Source::kAssumed) {
    // Of this launch: equal ones may reach other memory.
    if (cost.unknown_size)
      cost.unseen_ns = UnseenNs(gpu_.description, launch.reachable_bytes, cost.ns);
    ++kernel.assumed_launches;
    kernel.assumed_ns += cost.ns;
    kernel.unseen_ns += cost.unseen_ns;
  }
  return cost;
}

std::vector<AssumedKernel> KernelModel::assumed() const {
  std::vector<AssumedKernel> kernels;
  for (const KnownKernel& kernel : kernels_) {
    if (kernel.assumed_launches > 0) {
      kernels.push_back({Demangle(kernel.mangled), kernel.assumed_launches,
                         kernel.assumed_ns, kernel.unseen_ns});
    }
  }
  std::sort(kernels.begin(), kernels.end(),
            [](const AssumedKernel& a, const AssumedKernel& b) {
              const int64_t of_a = a.total_ns + a.unseen_ns;
              const int64_t of_b = b.total_ns + b.unseen_ns;
              return of_a != of_b ? of_a > of_b : a.name < b.name;
            });
  return kernels;
}

}  // namespace vrank::graph
