#include "tools/report/kernel_uses.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/guest/kernel_signature.h"
#include "graph/models/kernel_costs.h"
#include "tools/terminal/output_style.h"

namespace vrank::tools {
namespace {

const char* Word(graph::WorkClass work) {
  switch (work) {
    case graph::WorkClass::kKernel:
      return "kernel";
    case graph::WorkClass::kGemm:
      return "gemm";
    case graph::WorkClass::kCopy:
      return "copy";
    case graph::WorkClass::kMemset:
      return "memset";
    default:
      return "other";
  }
}

int64_t TotalTime(const std::vector<graph::KernelUse>& uses) {
  int64_t total = 0;
  for (const graph::KernelUse& use : uses)
    total += use.total_ns;
  return total;
}

// "arg1, arg3": what an expression may use.
std::string Scalars(const std::string& mangled) {
  KernelSignature signature;
  ParseKernelSignature(mangled, &signature);
  std::vector<std::string> scalars;
  for (uint32_t i = 0; i < signature.known; ++i) {
    const ParameterKind kind = signature.parameters[i].kind;
    if (kind == ParameterKind::kInteger || kind == ParameterKind::kFloating)
      scalars.push_back(fmt::format("arg{}", i));
  }
  if (scalars.empty())
    return "its name tells no scalars: use the launch alone";
  return fmt::format("scalars: {}", fmt::join(scalars, ", "));
}

}  // namespace

std::string KernelUsesJson(const graph::ExecutionGraph& graph,
                           const std::vector<graph::KernelUse>& uses,
                           const std::string& file) {
  using Json = nlohmann::ordered_json;
  Json rows = Json::array();
  for (const graph::KernelUse& use : uses)
    rows.push_back(Json{{"name", graph::Demangle(use.name)},
                        {"mangled", use.name},
                        {"work", Word(use.work)},
                        {"source", Name(use.source)},
                        {"launches", use.launches},
                        {"total_ns", use.total_ns},
                        {"weight_ns", use.weight_ns()},
                        {"min_ns", use.min_ns},
                        {"max_ns", use.max_ns}});
  return Json{{"schema", "vrank.kernel_uses/1"},
              {"file", file},
              {"gpu", graph.gpu},
              {"world_size", graph.world_size},
              {"total_ns", TotalTime(uses)},
              {"kernels", rows}}
      .dump(2, ' ', false, Json::error_handler_t::replace);
}

std::string KernelUsesText(const graph::ExecutionGraph& graph,
                           const std::vector<graph::KernelUse>& uses,
                           const std::string& file) {
  const int64_t total = TotalTime(uses);
  std::string text =
      fmt::format("{}: {} of work on {} GPUs ({}), NCCL's apart\n", file,
                  FormatTime(total), FormatCount(graph.ranks.size()), graph.gpu);
  Table columns;
  const bool any_unseen =
      std::any_of(uses.begin(), uses.end(),
                  [](const graph::KernelUse& use) { return use.unseen_ns > 0; });
  std::vector<std::string> head = {"kernel", "time is", "launches", "least",
                                   "most",   "total",   "share"};
  if (any_unseen)
    head.push_back(kUnseenHead);
  if (!uses.empty())
    columns.Add(head);
  for (const graph::KernelUse& use : uses) {
    std::vector<std::string> row = {
        Shortened(graph::Demangle(use.name)),
        Name(use.source),
        FormatCount(use.launches),
        FormatTime(use.min_ns),
        FormatTime(use.max_ns),
        FormatTime(use.total_ns),
        FormatPercent(total > 0 ? static_cast<double>(use.total_ns) /
                                      static_cast<double>(total)
                                : 0)};
    if (any_unseen)
      row.push_back(use.unseen_ns > 0 ? FormatTime(use.weight_ns()) : "");
    columns.Add(row);
  }
  return text + columns.ToString(0);
}

std::string CostFileSkeleton(const std::vector<graph::KernelUse>& uses) {
  // One entry for all instances of a template, in the order of their first.
  std::vector<std::pair<std::string, std::vector<const graph::KernelUse*>>> entries;
  for (const graph::KernelUse& use : uses) {
    if (use.source != graph::Source::kAssumed || use.work != graph::WorkClass::kKernel)
      continue;
    const std::string name = graph::QualifiedName(graph::Demangle(use.name));
    auto entry = std::find_if(entries.begin(), entries.end(),
                              [&](const auto& known) { return known.first == name; });
    if (entry == entries.end())
      entry = entries.insert(entry, {name, {}});
    entry->second.push_back(&use);
  }
  std::string text =
      "# Kernels whose time is assumed from their launch alone, the heaviest first. "
      "For\n"
      "# `vrank ... --kernels`: give bytes (device memory read plus written) and flops "
      "as\n"
      "# expressions over grid_x ... block_z, blocks, threads, shared and the scalars\n"
      "# arg0, arg1, ... (docs/models.md). Write 0 where there are none.\n";
  for (const auto& [name, instances] : entries) {
    text += "\nkernel {\n";
    for (const graph::KernelUse* use : instances)
      text += fmt::format(
          "  # {}\n  #   {} launches, {} ns in all{}; {}\n", graph::Demangle(use->name),
          use->launches, use->total_ns,
          use->unseen_ns > 0
              ? fmt::format(" (up to {} ns {})", use->weight_ns(), kIfItReadsAll)
              : "",
          Scalars(use->name));
    text += fmt::format("  name: \"{}\"\n  bytes: \"\"\n  flops: \"\"\n}}\n", name);
  }
  return text;
}

}  // namespace vrank::tools
