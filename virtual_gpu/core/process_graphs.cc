#include "virtual_gpu/core/process_graphs.h"

#include <cstring>
#include <memory>
#include <utility>
#include <variant>

#include "virtual_gpu/core/api_lock.h"
#include "virtual_gpu/core/graph_dot.h"
#include "virtual_gpu/core/launch_rules.h"
#include "virtual_gpu/core/thread_state.h"

namespace vrank::gpu {

ProcessGraphs::ProcessGraphs(const Parts& gpu)
    : channel_(gpu.channel),
      mutex_(gpu.lock),
      devices_(gpu.devices),
      contexts_(gpu.contexts),
      streams_(gpu.streams),
      captures_(gpu.captures),
      allocations_(gpu.channel, gpu.devices, gpu.contents, gpu.accounting),
      table_(gpu.captures, gpu.events, allocations_, user_objects_, gpu.recorder),
      notes_(gpu.recorder, table_),
      node_contents_(gpu.channel, gpu.copies, gpu.events, table_, allocations_),
      capture_(gpu.channel, gpu.captures, table_, allocations_, notes_),
      launcher_(gpu.channel, gpu.devices, gpu.lanes, gpu.events, gpu.obligations,
                gpu.launches, gpu.kernels, gpu.effects, gpu.copies, gpu.libraries,
                allocations_, gpu.notes),
      execs_(gpu.channel, gpu.effects, table_, node_contents_, user_objects_,
             allocations_, launcher_, notes_) {}

// --- Captures
// ------------------------------------------------------------------------

Error ProcessGraphs::BeginCapture(void* handle, CaptureMode mode, void* graph,
                                  Dependencies after) {
  if (mode < CaptureMode::kGlobal || mode > CaptureMode::kRelaxed)
    return Error::kInvalidValue;
  ApiLock lock(mutex_);
  Stream* stream = nullptr;
  VRANK_RETURN_IF_FAILED(streams_.Find(handle, &stream));
  return capture_.Begin(stream, mode, graph, after);
}

Error ProcessGraphs::EndCapture(void* handle, void** graph) {
  if (graph == nullptr)
    return Error::kInvalidValue;
  ApiLock lock(mutex_);
  Stream* stream = nullptr;
  VRANK_RETURN_IF_FAILED(streams_.Find(handle, &stream));
  return capture_.End(stream, graph);
}

Error ProcessGraphs::GetCaptureInfo(void* handle, CaptureInfo* info) {
  ApiLock lock(mutex_);
  Stream* stream = nullptr;
  VRANK_RETURN_IF_FAILED(streams_.Find(handle, &stream));
  return capture_.GetInfo(stream, info);
}

Error ProcessGraphs::UpdateCapture(void* handle, Dependencies after, bool replace) {
  ApiLock lock(mutex_);
  Stream* stream = nullptr;
  VRANK_RETURN_IF_FAILED(streams_.Find(handle, &stream));
  return capture_.Update(stream, after, replace);
}

CaptureMode ProcessGraphs::ExchangeCaptureMode(CaptureMode mode) {
  return static_cast<CaptureMode>(
      std::exchange(ThisThread().capture_mode, static_cast<int>(mode)));
}

// --- Graphs and nodes
// ----------------------------------------------------------------

Error ProcessGraphs::Create(void** graph) {
  if (graph == nullptr)
    return Error::kInvalidValue;
  VRANK_RETURN_IF_FAILED(devices_.Ready());
  ApiLock lock(mutex_);
  channel_->Spend(HostCost::kCreate);
  *graph = table_.Add(std::make_unique<Graph>())->handle;
  return Error::kSuccess;
}

Error ProcessGraphs::Destroy(void* handle) {
  VRANK_RETURN_IF_FAILED(devices_.Ready());
  ApiLock lock(mutex_);
  const Graph* const graph = table_.FindGraph(handle);
  // A child graph belongs to its node; a graph that is captured into, to the capture.
  if (graph == nullptr || graph->owner != nullptr || captures_.IsCaptured(graph))
    return Error::kInvalidValue;
  channel_->Spend(HostCost::kCreate);
  table_.Drop(handle);
  return Error::kSuccess;
}

Error ProcessGraphs::Clone(void* handle, void** clone) {
  VRANK_RETURN_IF_FAILED(devices_.Ready());
  ApiLock lock(mutex_);
  const Graph* const graph = table_.FindGraph(handle);
  if (graph == nullptr || clone == nullptr)
    return Error::kInvalidValue;
  // An address cannot belong to two graphs.
  if (HasMemoryNodes(*graph))
    return Error::kNotSupported;
  channel_->Spend(HostCost::kGraphNode, static_cast<int64_t>(graph->nodes().size()));
  Graph* const made = table_.Add(graph->Clone());
  made->user_objects = graph->user_objects;
  user_objects_.Retain(made->user_objects);
  notes_.Cloned(*graph, *made);
  *clone = made->handle;
  return Error::kSuccess;
}

Error ProcessGraphs::AddNode(void* graph_handle, Dependencies after,
                             GraphNodeParameters* parameters, void** node) {
  if (node == nullptr)
    return Error::kInvalidValue;
  ApiLock lock(mutex_);
  int device = 0;
  VRANK_RETURN_IF_FAILED(contexts_.Begin(&device));
  Graph* const graph = table_.FindGraph(graph_handle);
  if (graph == nullptr)
    return Error::kInvalidValue;
  VRANK_RETURN_IF_FAILED(table_.CheckDependencies(graph, after));
  GraphNodeContent content;
  if (auto* allocation = std::get_if<AllocationParameters>(parameters))
    VRANK_RETURN_IF_FAILED(allocations_.TakeAddress(allocation));
  VRANK_RETURN_IF_FAILED(node_contents_.From(*parameters, &content));
  channel_->Spend(HostCost::kGraphNode);
  GraphNode* const made = graph->Add(std::move(content));
  for (const GraphDependency& dependency : after)
    Graph::Connect(table_.FindNode(dependency.node), made, dependency.data);
  *node = table_.HandleOf(made);
  notes_.Made(made);
  return Error::kSuccess;
}

Error ProcessGraphs::DestroyNode(void* handle) {
  VRANK_RETURN_IF_FAILED(devices_.Ready());
  ApiLock lock(mutex_);
  GraphNode* const node = table_.FindNode(handle);
  if (node == nullptr)
    return Error::kInvalidValue;
  // "Graph nodes which are mem alloc or mem free nodes cannot be destroyed."
  if (node->type() == GraphNodeType::kAllocation ||
      node->type() == GraphNodeType::kFree)
    return Error::kNotSupported;
  channel_->Spend(HostCost::kGraphNode);
  table_.Disown(node);
  node->graph->Remove(node);
  return Error::kSuccess;
}

Error ProcessGraphs::GetNodeType(void* handle, GraphNodeType* type) {
  ApiLock lock(mutex_);
  const GraphNode* const node = table_.FindNode(handle);
  if (node == nullptr || type == nullptr)
    return Error::kInvalidValue;
  *type = node->type();
  return Error::kSuccess;
}

Error ProcessGraphs::Connect(void* handle, std::span<const GraphEdge> edges) {
  ApiLock lock(mutex_);
  Graph* const graph = table_.FindGraph(handle);
  if (graph == nullptr)
    return Error::kInvalidValue;
  for (const GraphEdge& edge : edges) {
    GraphNode* const from = table_.FindNode(edge.from);
    GraphNode* const to = table_.FindNode(edge.to);
    if (from == nullptr || to == nullptr || from == to || from->graph != graph ||
        to->graph != graph)
      return Error::kInvalidValue;
    if (!GraphTable::IsWholeEdge(edge.data))
      return Error::kNotSupported;
    if (!Graph::Connect(from, to, edge.data))
      return Error::kInvalidValue;
    notes_.Edge(ActivityGraph::What::kEdgeCreated, from, to);
  }
  return Error::kSuccess;
}

Error ProcessGraphs::Disconnect(void* handle, std::span<const GraphEdge> edges) {
  ApiLock lock(mutex_);
  Graph* const graph = table_.FindGraph(handle);
  if (graph == nullptr || HasMemoryNodes(*graph))
    return graph == nullptr ? Error::kInvalidValue : Error::kNotSupported;
  for (const GraphEdge& edge : edges) {
    GraphNode* const from = table_.FindNode(edge.from);
    GraphNode* const to = table_.FindNode(edge.to);
    if (from == nullptr || to == nullptr || from->graph != graph ||
        to->graph != graph || !Graph::Disconnect(from, to, edge.data))
      return Error::kInvalidValue;
    notes_.Edge(ActivityGraph::What::kEdgeDestroyed, from, to);
  }
  return Error::kSuccess;
}

// --- Looking at graphs
// ---------------------------------------------------------------

Error ProcessGraphs::GetNodes(void* handle, std::vector<void*>* nodes) {
  ApiLock lock(mutex_);
  const Graph* const graph = table_.FindGraph(handle);
  if (graph == nullptr)
    return Error::kInvalidValue;
  for (const auto& node : graph->nodes())
    nodes->push_back(table_.HandleOf(node.get()));
  return Error::kSuccess;
}

Error ProcessGraphs::GetRoots(void* handle, std::vector<void*>* nodes) {
  ApiLock lock(mutex_);
  const Graph* const graph = table_.FindGraph(handle);
  if (graph == nullptr)
    return Error::kInvalidValue;
  for (const auto& node : graph->nodes())
    if (node->before.empty())
      nodes->push_back(table_.HandleOf(node.get()));
  return Error::kSuccess;
}

Error ProcessGraphs::GetEdges(void* handle, std::vector<GraphEdge>* edges) {
  ApiLock lock(mutex_);
  const Graph* const graph = table_.FindGraph(handle);
  if (graph == nullptr)
    return Error::kInvalidValue;
  for (const auto& node : graph->nodes())
    for (const GraphLink& link : node->after)
      edges->push_back(
          {table_.HandleOf(node.get()), table_.HandleOf(link.node), link.data});
  return Error::kSuccess;
}

Error ProcessGraphs::GetNeighbours(void* handle, bool dependents,
                                   std::vector<GraphDependency>* neighbours) {
  ApiLock lock(mutex_);
  const GraphNode* const node = table_.FindNode(handle);
  if (node == nullptr)
    return Error::kInvalidValue;
  for (const GraphLink& link : dependents ? node->after : node->before)
    neighbours->push_back({table_.HandleOf(link.node), link.data});
  return Error::kSuccess;
}

Error ProcessGraphs::FindInClone(void* original, void* clone, void** node) {
  ApiLock lock(mutex_);
  const GraphNode* const wanted = table_.FindNode(original);
  const Graph* const graph = table_.FindGraph(clone);
  if (wanted == nullptr || graph == nullptr || node == nullptr)
    return Error::kInvalidValue;
  for (const auto& copy : graph->nodes())
    if (copy->original == wanted->id) {
      *node = table_.HandleOf(copy.get());
      return Error::kSuccess;
    }
  return Error::kInvalidValue;
}

Error ProcessGraphs::PrintDot(void* handle, const char* path) {
  ApiLock lock(mutex_);
  const Graph* const graph = table_.FindGraph(handle);
  if (graph == nullptr || path == nullptr)
    return Error::kInvalidValue;
  return gpu::PrintDot(*graph, path);
}

// --- Parameters and attributes of nodes
// ----------------------------------------------

Error ProcessGraphs::GetNodeParameters(void* handle, GraphNodeParameters* parameters) {
  ApiLock lock(mutex_);
  GraphNode* const node = table_.FindNode(handle);
  if (node == nullptr)
    return Error::kInvalidValue;
  *parameters = node_contents_.ParametersOf(node);
  return Error::kSuccess;
}

// A node keeps its type; what libraries put in stays as it is.
Error ProcessGraphs::SetNodeParameters(void* handle,
                                       const GraphNodeParameters& parameters) {
  ApiLock lock(mutex_);
  GraphNode* const node = table_.FindNode(handle);
  if (node == nullptr)
    return Error::kInvalidValue;
  GraphNodeContent content;
  VRANK_RETURN_IF_FAILED(node_contents_.From(parameters, &content));
  if (content.index() != node->content.index() ||
      std::holds_alternative<ChildContent>(content) ||
      std::holds_alternative<AllocationParameters>(content) ||
      std::holds_alternative<FreeParameters>(content))
    return Error::kInvalidValue;
  channel_->Spend(HostCost::kGraphNode);
  if (auto* kernel = std::get_if<KernelContent>(&content))
    kernel->TakeAttributes(std::get<KernelContent>(node->content));
  node->content = std::move(content);
  return Error::kSuccess;
}

Error ProcessGraphs::GetKernelAttribute(void* handle, int id, void* value) {
  ApiLock lock(mutex_);
  const GraphNode* const node = table_.FindNode(handle);
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
  ApiLock lock(mutex_);
  GraphNode* const node = table_.FindNode(handle);
  auto* kernel = node == nullptr ? nullptr : std::get_if<KernelContent>(&node->content);
  if (kernel == nullptr || value == nullptr)
    return Error::kInvalidValue;
  VRANK_RETURN_IF_FAILED(ReadLaunchAttribute(id, value, &kernel->launch));
  std::memcpy(kernel->attributes[id].data(), value, kAttributeBytes);
  return Error::kSuccess;
}

Error ProcessGraphs::CopyKernelAttributes(void* to, void* from) {
  ApiLock lock(mutex_);
  GraphNode* const target = table_.FindNode(to);
  const GraphNode* const source = table_.FindNode(from);
  auto* into =
      target == nullptr ? nullptr : std::get_if<KernelContent>(&target->content);
  const auto* of =
      source == nullptr ? nullptr : std::get_if<KernelContent>(&source->content);
  if (into == nullptr || of == nullptr)
    return Error::kInvalidValue;
  into->TakeAttributes(*of);
  return Error::kSuccess;
}

// --- Executable graphs
// ---------------------------------------------------------------

Error ProcessGraphs::Instantiate(void* graph, Instantiation* how, void** exec) {
  ApiLock lock(mutex_);
  int device = 0;
  VRANK_RETURN_IF_FAILED(contexts_.Begin(&device));
  return execs_.Instantiate(table_.FindGraph(graph), how, exec);
}

Error ProcessGraphs::DestroyExec(void* exec) {
  VRANK_RETURN_IF_FAILED(devices_.Ready());
  ApiLock lock(mutex_);
  return execs_.Destroy(exec);
}

Error ProcessGraphs::GetExecFlags(void* handle, uint64_t* flags) {
  ApiLock lock(mutex_);
  const GraphExec* const exec = execs_.Find(handle);
  if (exec == nullptr || flags == nullptr)
    return Error::kInvalidValue;
  *flags = exec->flags;
  return Error::kSuccess;
}

Error ProcessGraphs::Launch(void* handle, void* stream) {
  ApiLock lock(mutex_);
  Stream* on = nullptr;
  VRANK_RETURN_IF_FAILED(streams_.BeginOn(stream, &on));
  GraphExec* const exec = execs_.Find(handle);
  if (exec == nullptr)
    return Error::kInvalidValue;
  if (on->capture != nullptr)
    return HasMemoryNodes(*exec->graph)
               ? Error::kNotSupported
               : capture_.Capture(on, ChildContent{exec->graph->Clone()});
  return launcher_.Launch(exec, on);
}

Error ProcessGraphs::Upload(void* exec, void* stream) {
  ApiLock lock(mutex_);
  Stream* on = nullptr;
  VRANK_RETURN_IF_FAILED(streams_.BeginOn(stream, &on));
  if (execs_.Find(exec) == nullptr)
    return Error::kInvalidValue;
  if (on->capture != nullptr)
    return Captures::Refuse(on->capture, Error::kStreamCaptureUnsupported);
  channel_->Spend(HostCost::kGraphInstantiate);
  return Error::kSuccess;
}

Error ProcessGraphs::Update(void* exec, void* graph, GraphUpdate* update) {
  ApiLock lock(mutex_);
  return execs_.Update(exec, table_.FindGraph(graph), update);
}

Error ProcessGraphs::SetExecParameters(void* exec, void* node,
                                       const GraphNodeParameters& parameters) {
  ApiLock lock(mutex_);
  return execs_.SetParameters(exec, table_.FindNode(node), parameters);
}

Error ProcessGraphs::SetNodeEnabled(void* exec, void* node, bool enabled) {
  ApiLock lock(mutex_);
  return execs_.SetEnabled(exec, table_.FindNode(node), enabled);
}

Error ProcessGraphs::GetNodeEnabled(void* exec, void* node, bool* enabled) {
  ApiLock lock(mutex_);
  return execs_.GetEnabled(exec, table_.FindNode(node), enabled);
}

// --- User objects
// --------------------------------------------------------------------

Error ProcessGraphs::CreateUserObject(void* data, void (*destroy)(void*),
                                      unsigned references, void** object) {
  if (object == nullptr || destroy == nullptr || references == 0)
    return Error::kInvalidValue;
  ApiLock lock(mutex_);
  *object = user_objects_.Create(data, destroy, references);
  return Error::kSuccess;
}

Error ProcessGraphs::RetainUserObject(void* object, unsigned count) {
  ApiLock lock(mutex_);
  return user_objects_.Retain(object, count);
}

Error ProcessGraphs::ReleaseUserObject(void* object, unsigned count) {
  ApiLock lock(mutex_);
  return user_objects_.Release(object, count);
}

Error ProcessGraphs::RetainForGraph(void* handle, void* object, unsigned count,
                                    bool move) {
  ApiLock lock(mutex_);
  Graph* const graph = table_.FindGraph(handle);
  return graph == nullptr
             ? Error::kInvalidValue
             : user_objects_.Retain(&graph->user_objects, object, count, move);
}

Error ProcessGraphs::ReleaseFromGraph(void* handle, void* object, unsigned count) {
  ApiLock lock(mutex_);
  Graph* const graph = table_.FindGraph(handle);
  return graph == nullptr ? Error::kInvalidValue
                          : user_objects_.Release(&graph->user_objects, object, count);
}

// --- Memory of allocation nodes
// ------------------------------------------------------

Error ProcessGraphs::TrimMemory(int device) {
  VRANK_RETURN_IF_FAILED(contexts_.Ensure(device));
  ApiLock lock(mutex_);
  allocations_.Trim(device);
  return Error::kSuccess;
}

Error ProcessGraphs::GetMemoryAttribute(int device, GraphMemoryAttribute attribute,
                                        uint64_t* value) {
  VRANK_RETURN_IF_FAILED(contexts_.Ensure(device));
  ApiLock lock(mutex_);
  return allocations_.GetAttribute(device, attribute, value);
}

Error ProcessGraphs::ResetMemoryAttribute(int device, GraphMemoryAttribute attribute) {
  VRANK_RETURN_IF_FAILED(contexts_.Ensure(device));
  ApiLock lock(mutex_);
  return allocations_.ResetAttribute(device, attribute);
}

}  // namespace vrank::gpu
