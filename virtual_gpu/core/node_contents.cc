#include "virtual_gpu/core/node_contents.h"

#include <type_traits>
#include <variant>

#include "virtual_gpu/core/launch_rules.h"

namespace vrank::gpu {

Error NodeContents::From(const GraphNodeParameters& parameters,
                         GraphNodeContent* content) {
  if (const auto* kernel = std::get_if<KernelLaunch>(&parameters)) {
    VRANK_RETURN_IF_FAILED(CheckLaunch(channel_->settings().gpu, *kernel));
    *content = KernelContent(*kernel);
  } else if (const auto* copy = std::get_if<CopyRequest>(&parameters)) {
    CopySides sides{};
    if (copy->to == nullptr || copy->from == nullptr)
      return Error::kInvalidValue;
    VRANK_RETURN_IF_FAILED(copies_.FindSides(*copy, &sides));
    *content = *copy;
  } else if (const auto* fill = std::get_if<FillRequest>(&parameters)) {
    VRANK_RETURN_IF_FAILED(copies_.CheckFill(*fill));
    *content = *fill;
  } else if (const auto* host = std::get_if<HostCallParameters>(&parameters)) {
    if (host->function == nullptr)
      return Error::kInvalidValue;
    *content = *host;
  } else if (const auto* child = std::get_if<ChildGraphParameters>(&parameters)) {
    const Graph* const graph = table_.FindGraph(child->graph);
    if (graph == nullptr)
      return Error::kInvalidValue;
    if (HasMemoryNodes(*graph))
      return Error::kNotSupported;
    *content = ChildContent{graph->Clone()};
  } else if (const auto* record = std::get_if<EventRecordParameters>(&parameters)) {
    if (events_.Find(record->event) == nullptr)
      return Error::kInvalidValue;
    *content = *record;
  } else if (const auto* wait = std::get_if<EventWaitParameters>(&parameters)) {
    if (events_.Find(wait->event) == nullptr)
      return Error::kInvalidValue;
    *content = *wait;
  } else if (const auto* allocation = std::get_if<AllocationParameters>(&parameters)) {
    *content = *allocation;
  } else if (const auto* gone = std::get_if<FreeParameters>(&parameters)) {
    VRANK_RETURN_IF_FAILED(allocations_.CheckFreed(gone->address));
    *content = *gone;
  } else {
    *content = EmptyParameters{};
  }
  return Error::kSuccess;
}

GraphNodeParameters NodeContents::ParametersOf(GraphNode* node) {
  if (auto* kernel = std::get_if<KernelContent>(&node->content)) {
    KernelLaunch launch = kernel->launch;
    launch.arguments = kernel->pointers.data();
    return launch;
  }
  if (auto* gemm = std::get_if<GemmContent>(&node->content))
    return gemm->launch;
  if (auto* child = std::get_if<ChildContent>(&node->content))
    return ChildGraphParameters{table_.HandleOf(child->graph.get())};
  GraphNodeParameters parameters;
  std::visit(
      [&](const auto& content) {
        using Content = std::decay_t<decltype(content)>;
        if constexpr (!std::is_same_v<Content, KernelContent> &&
                      !std::is_same_v<Content, GemmContent> &&
                      !std::is_same_v<Content, ChildContent>)
          parameters = content;
      },
      node->content);
  return parameters;
}

}  // namespace vrank::gpu
