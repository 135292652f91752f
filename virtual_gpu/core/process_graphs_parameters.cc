// What nodes do: from the caller's parameters to a node's own copies, and back.

#include <cstring>
#include <utility>

#include "virtual_gpu/core/launch_rules.h"
#include "virtual_gpu/core/process_gpu.h"
#include "virtual_gpu/core/process_graphs.h"

namespace vrank::gpu {

Error ProcessGraphs::ContentFrom(const GraphNodeParameters& parameters,
                                 GraphNodeContent* content) {
  if (const auto* kernel = std::get_if<KernelLaunch>(&parameters)) {
    VRANK_RETURN_IF_FAILED(gpu_.CheckKernel(*kernel));
    *content = KernelContent(*kernel);
  } else if (const auto* copy = std::get_if<CopyRequest>(&parameters)) {
    ProcessGpu::Sides sides{};
    if (copy->to == nullptr || copy->from == nullptr)
      return Error::kInvalidValue;
    VRANK_RETURN_IF_FAILED(gpu_.FindSides(*copy, &sides));
    *content = *copy;
  } else if (const auto* fill = std::get_if<FillRequest>(&parameters)) {
    VRANK_RETURN_IF_FAILED(gpu_.CheckFill(*fill));
    *content = *fill;
  } else if (const auto* host = std::get_if<HostCallParameters>(&parameters)) {
    if (host->function == nullptr)
      return Error::kInvalidValue;
    *content = *host;
  } else if (const auto* child = std::get_if<ChildGraphParameters>(&parameters)) {
    const Graph* const graph = FindGraph(child->graph);
    if (graph == nullptr)
      return Error::kInvalidValue;
    if (HasMemoryNodes(*graph))
      return Error::kNotSupported;
    *content = ChildContent{graph->Clone()};
  } else if (const auto* record = std::get_if<EventRecordParameters>(&parameters)) {
    if (gpu_.events_.Find(record->event) == nullptr)
      return Error::kInvalidValue;
    *content = *record;
  } else if (const auto* wait = std::get_if<EventWaitParameters>(&parameters)) {
    if (gpu_.events_.Find(wait->event) == nullptr)
      return Error::kInvalidValue;
    *content = *wait;
  } else if (const auto* allocation = std::get_if<AllocationParameters>(&parameters)) {
    *content = *allocation;
  } else if (const auto* gone = std::get_if<FreeParameters>(&parameters)) {
    VRANK_RETURN_IF_FAILED(CheckFreed(gone->address));
    *content = *gone;
  } else {
    *content = EmptyParameters{};
  }
  return Error::kSuccess;
}

GraphNodeParameters ProcessGraphs::ParametersOf(GraphNode* node) {
  if (auto* kernel = std::get_if<KernelContent>(&node->content)) {
    KernelLaunch launch = kernel->launch;
    launch.arguments = kernel->pointers.data();
    return launch;
  }
  if (auto* gemm = std::get_if<GemmContent>(&node->content))
    return gemm->launch;
  if (auto* child = std::get_if<ChildContent>(&node->content))
    return ChildGraphParameters{HandleOf(child->graph.get())};
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

Error ProcessGraphs::GetNodeParameters(void* handle, GraphNodeParameters* parameters) {
  ProcessGpu::Lock lock(gpu_.mutex_);
  GraphNode* const node = FindNode(handle);
  if (node == nullptr)
    return Error::kInvalidValue;
  *parameters = ParametersOf(node);
  return Error::kSuccess;
}

// A node keeps its type; what libraries put in stays as it is.
Error ProcessGraphs::SetNodeParameters(void* handle,
                                       const GraphNodeParameters& parameters) {
  ProcessGpu::Lock lock(gpu_.mutex_);
  GraphNode* const node = FindNode(handle);
  if (node == nullptr)
    return Error::kInvalidValue;
  GraphNodeContent content;
  VRANK_RETURN_IF_FAILED(ContentFrom(parameters, &content));
  if (content.index() != node->content.index() ||
      std::holds_alternative<ChildContent>(content) ||
      std::holds_alternative<AllocationParameters>(content) ||
      std::holds_alternative<FreeParameters>(content))
    return Error::kInvalidValue;
  gpu_.channel_->Spend(HostCost::kGraphNode);
  if (auto* kernel = std::get_if<KernelContent>(&content))
    kernel->TakeAttributes(std::get<KernelContent>(node->content));
  node->content = std::move(content);
  return Error::kSuccess;
}

Error ProcessGraphs::GetKernelAttribute(void* handle, int id, void* value) {
  ProcessGpu::Lock lock(gpu_.mutex_);
  const GraphNode* const node = FindNode(handle);
  const auto* kernel =
      node == nullptr ? nullptr : std::get_if<KernelContent>(&node->content);
  if (kernel == nullptr || value == nullptr)
    return Error::kInvalidValue;
  const auto found = kernel->attributes.find(id);
  std::memset(value, 0, kAttributeBytes);
  if (!WriteLaunchAttribute(kernel->launch, id, value) &&
      found != kernel->attributes.end())
    std::memcpy(value, found->second.data(), kAttributeBytes);
  return Error::kSuccess;
}

Error ProcessGraphs::SetKernelAttribute(void* handle, int id, const void* value) {
  ProcessGpu::Lock lock(gpu_.mutex_);
  GraphNode* const node = FindNode(handle);
  auto* kernel = node == nullptr ? nullptr : std::get_if<KernelContent>(&node->content);
  if (kernel == nullptr || value == nullptr)
    return Error::kInvalidValue;
  VRANK_RETURN_IF_FAILED(ReadLaunchAttribute(id, value, &kernel->launch));
  std::memcpy(kernel->attributes[id].data(), value, kAttributeBytes);
  return Error::kSuccess;
}

Error ProcessGraphs::CopyKernelAttributes(void* to, void* from) {
  ProcessGpu::Lock lock(gpu_.mutex_);
  GraphNode* const target = FindNode(to);
  const GraphNode* const source = FindNode(from);
  auto* into =
      target == nullptr ? nullptr : std::get_if<KernelContent>(&target->content);
  const auto* of =
      source == nullptr ? nullptr : std::get_if<KernelContent>(&source->content);
  if (into == nullptr || of == nullptr)
    return Error::kInvalidValue;
  into->TakeAttributes(*of);
  return Error::kSuccess;
}

}  // namespace vrank::gpu
