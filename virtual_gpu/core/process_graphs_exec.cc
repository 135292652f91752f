// Executable graphs: making them, and changing them afterwards.

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "virtual_gpu/core/process_gpu.h"
#include "virtual_gpu/core/process_graphs.h"

namespace vrank::gpu {
namespace {

constexpr uint64_t kKnownFlags =
    kAutoFreeOnLaunch | kUploadAfterInstantiation | kDeviceLaunch | kUseNodePriority;

// By which nodes of two graphs are told to wait for the same ones.
std::vector<size_t> Places(const std::vector<GraphLink>& before,
                           const std::unordered_map<const GraphNode*, size_t>& places) {
  std::vector<size_t> result;
  for (const GraphLink& link : before)
    result.push_back(places.at(link.node));
  std::sort(result.begin(), result.end());
  return result;
}

std::unordered_map<const GraphNode*, size_t> PlacesOf(const Graph& graph) {
  std::unordered_map<const GraphNode*, size_t> places;
  for (const auto& node : graph.nodes())
    places.emplace(node.get(), places.size());
  return places;
}

}  // namespace

// Again: attributes of nodes and of their functions may have changed since they were
// made.
Error ProcessGraphs::CheckKernels(const Graph& graph, GraphNode** wrong) {
  for (const auto& node : graph.nodes()) {
    *wrong = node.get();
    if (const auto* child = std::get_if<ChildContent>(&node->content))
      VRANK_RETURN_IF_FAILED(CheckKernels(*child->graph, wrong));
    if (const auto* kernel = std::get_if<KernelContent>(&node->content))
      VRANK_RETURN_IF_FAILED(gpu_.CheckKernel(kernel->launch));
  }
  return Error::kSuccess;
}

Error ProcessGraphs::Instantiate(void* handle, Instantiation* how, void** exec) {
  ProcessGpu::Lock lock(gpu_.mutex_);
  int device = 0;
  VRANK_RETURN_IF_FAILED(gpu_.Begin(&device));
  const Graph* const graph = FindGraph(handle);
  how->result = InstantiateResult::kError;
  how->error_node = nullptr;
  if (graph == nullptr || exec == nullptr || (how->flags & ~kKnownFlags) != 0)
    return Error::kInvalidValue;
  // Kernels that launch graphs do not run here.
  if ((how->flags & kDeviceLaunch) != 0) {
    how->result = InstantiateResult::kNodeOperationNotSupported;
    return Error::kNotSupported;
  }
  GraphNode* wrong = nullptr;
  if (const Error error = CheckKernels(*graph, &wrong); error != Error::kSuccess) {
    how->error_node = HandleOf(wrong);
    return error;
  }
  auto made = std::make_unique<GraphExec>();
  made->flags = how->flags;
  made->graph = graph->Clone();
  if (!MakePlan(*made->graph, &made->plan)) {
    how->result = InstantiateResult::kInvalidStructure;
    return Error::kInvalidValue;
  }
  gpu_.channel_->Spend(HostCost::kGraphInstantiate, made->plan.nodes);
  made->graph->user_objects = graph->user_objects;
  Retain(made->graph->user_objects);
  CountMemory(*made->graph, 1);
  Prepare(made.get());
  GraphExec* const raw = made.get();
  raw->id = ++execs_made_;
  *exec = raw->handle = execs_.Add(std::move(made));
  TellInstantiated(*graph, raw);
  how->result = InstantiateResult::kSuccess;
  return Error::kSuccess;
}

Error ProcessGraphs::DestroyExec(void* handle) {
  VRANK_RETURN_IF_FAILED(gpu_.Ready());
  ProcessGpu::Lock lock(gpu_.mutex_);
  const std::unique_ptr<GraphExec> gone = execs_.Remove(handle);
  if (gone == nullptr)
    return Error::kInvalidValue;
  gpu_.channel_->Spend(HostCost::kCreate);
  TellExec(ActivityGraph::What::kExecDestroyed, *gone);
  for (const auto& node : gone->graph->nodes())
    nodes_.Remove(node->handle);
  Forget(gone.get());
  DropLanes(gone.get());
  CountMemory(*gone->graph, -1);
  Release(gone->graph->user_objects);
  return Error::kSuccess;
}

Error ProcessGraphs::GetExecFlags(void* handle, uint64_t* flags) {
  ProcessGpu::Lock lock(gpu_.mutex_);
  const GraphExec* const exec = FindExec(handle);
  if (exec == nullptr || flags == nullptr)
    return Error::kInvalidValue;
  *flags = exec->flags;
  return Error::kSuccess;
}

void ProcessGraphs::PrepareNode(GraphExec* exec, GraphNode* node) {
  if (!node->enabled)
    return;
  switch (node->type()) {
    case GraphNodeType::kHost:
      exec->has_obligations = true;
      exec->repeatable = false;
      break;
    case GraphNodeType::kEventRecord:
    case GraphNodeType::kEventWait:
      exec->repeatable = false;
      break;
    case GraphNodeType::kCopy:
      exec->has_obligations = true;
      break;
    default:
      break;
  }
  if (const auto* kernel = std::get_if<KernelContent>(&node->content))
    node->writes = gpu_.WritesOf(kernel->launch);
}

void ProcessGraphs::Prepare(GraphExec* exec) {
  Forget(exec);
  exec->repeatable = true;
  exec->has_obligations = false;
  for (const GraphStep& step : exec->plan.steps)
    if (step.node != nullptr)
      PrepareNode(exec, step.node);
}

void ProcessGraphs::Forget(GraphExec* exec) {
  if (exec->number == 0)
    return;
  protocol::Graph record{};
  record.record.kind = protocol::RecordKind::kGraphForget;
  record.graph = std::exchange(exec->number, 0);
  gpu_.channel_->Emit(record);
}

// --- Changes
// ---------------------------------------------------------------------------

GraphNode* ProcessGraphs::FindInExec(const GraphExec& exec, const GraphNode& original) {
  for (const auto& node : exec.graph->nodes())
    if (node->original == original.id)
      return node.get();
  return nullptr;
}

// Nodes correspond in the order in which they were made, as CUDA pairs those of graphs
// that were captured alike.
UpdateResult ProcessGraphs::Compare(const Graph& old_graph, const Graph& new_graph,
                                    GraphNode** error_node) {
  const auto& old_nodes = old_graph.nodes();
  const auto& new_nodes = new_graph.nodes();
  *error_node = nullptr;
  if (old_nodes.size() != new_nodes.size())
    return UpdateResult::kTopologyChanged;
  const auto old_places = PlacesOf(old_graph);
  const auto new_places = PlacesOf(new_graph);
  for (size_t i = 0; i < old_nodes.size(); ++i) {
    *error_node = new_nodes[i].get();
    if (Places(old_nodes[i]->before, old_places) !=
        Places(new_nodes[i]->before, new_places))
      return UpdateResult::kTopologyChanged;
    if (old_nodes[i]->type() != new_nodes[i]->type())
      return UpdateResult::kNodeTypeChanged;
    const GraphNodeContent& old_content = old_nodes[i]->content;
    const GraphNodeContent& new_content = new_nodes[i]->content;
    if (const auto* child = std::get_if<ChildContent>(&old_content)) {
      GraphNode* inner = nullptr;
      const UpdateResult result =
          Compare(*child->graph, *std::get<ChildContent>(new_content).graph, &inner);
      if (result != UpdateResult::kSuccess) {
        *error_node = inner == nullptr ? new_nodes[i].get() : inner;
        return result;
      }
    }
    const auto* old_memory = std::get_if<AllocationParameters>(&old_content);
    if (old_memory != nullptr &&
        old_memory->address != std::get<AllocationParameters>(new_content).address)
      return UpdateResult::kParametersChanged;
  }
  *error_node = nullptr;
  return UpdateResult::kSuccess;
}

// REQUIRES: Compare found no difference.
void ProcessGraphs::TakeOver(Graph* to, const Graph& from) {
  const std::unique_ptr<Graph> copy = from.Clone();
  for (size_t i = 0; i < to->nodes().size(); ++i) {
    GraphNode* const node = to->nodes()[i].get();
    GraphNodeContent& content = copy->nodes()[i]->content;
    if (auto* child = std::get_if<ChildContent>(&node->content))
      TakeOver(child->graph.get(), *std::get<ChildContent>(content).graph);
    else
      node->content = std::move(content);
  }
}

Error ProcessGraphs::Update(void* handle, void* graph_handle, GraphUpdate* update) {
  ProcessGpu::Lock lock(gpu_.mutex_);
  GraphExec* const exec = FindExec(handle);
  const Graph* const graph = FindGraph(graph_handle);
  *update = {};
  if (exec == nullptr || graph == nullptr)
    return Error::kInvalidValue;
  gpu_.channel_->Spend(HostCost::kGraphInstantiate, exec->plan.nodes);
  GraphNode* error_node = nullptr;
  update->result = Compare(*exec->graph, *graph, &error_node);
  if (update->result != UpdateResult::kSuccess) {
    update->error_node = error_node == nullptr ? nullptr : HandleOf(error_node);
    return Error::kGraphExecUpdateFailure;
  }
  TakeOver(exec->graph.get(), *graph);
  for (size_t i = 0; i < graph->nodes().size(); ++i)
    TellNode(ActivityGraph::What::kNodeUpdated, exec->graph->nodes()[i].get(), exec,
             graph->nodes()[i].get());
  Prepare(exec);
  return Error::kSuccess;
}

Error ProcessGraphs::SetExecParameters(void* handle, void* node_handle,
                                       const GraphNodeParameters& parameters) {
  ProcessGpu::Lock lock(gpu_.mutex_);
  GraphExec* const exec = FindExec(handle);
  const GraphNode* const original = FindNode(node_handle);
  GraphNode* const node =
      exec == nullptr || original == nullptr ? nullptr : FindInExec(*exec, *original);
  if (node == nullptr)
    return Error::kInvalidValue;
  GraphNodeContent content;
  VRANK_RETURN_IF_FAILED(ContentFrom(parameters, &content));
  if (content.index() != node->content.index() ||
      std::holds_alternative<AllocationParameters>(content) ||
      std::holds_alternative<FreeParameters>(content))
    return Error::kInvalidValue;
  gpu_.channel_->Spend(HostCost::kGraphNode);
  if (auto* child = std::get_if<ChildContent>(&node->content)) {
    const Graph& replacement = *std::get<ChildContent>(content).graph;
    GraphNode* error_node = nullptr;
    if (Compare(*child->graph, replacement, &error_node) != UpdateResult::kSuccess)
      return Error::kInvalidValue;
    TakeOver(child->graph.get(), replacement);
  } else {
    node->content = std::move(content);
  }
  TellNode(ActivityGraph::What::kNodeSet, node, exec, original);
  Prepare(exec);
  return Error::kSuccess;
}

Error ProcessGraphs::SetNodeEnabled(void* handle, void* node_handle, bool enabled) {
  ProcessGpu::Lock lock(gpu_.mutex_);
  GraphExec* const exec = FindExec(handle);
  const GraphNode* const original = FindNode(node_handle);
  GraphNode* const node =
      exec == nullptr || original == nullptr ? nullptr : FindInExec(*exec, *original);
  // "Currently only kernel, memset and memcpy nodes are supported."
  if (node == nullptr || node->type() > GraphNodeType::kFill)
    return Error::kInvalidValue;
  gpu_.channel_->Spend(HostCost::kGraphNode);
  node->enabled = enabled;
  Prepare(exec);
  return Error::kSuccess;
}

Error ProcessGraphs::GetNodeEnabled(void* handle, void* node_handle, bool* enabled) {
  ProcessGpu::Lock lock(gpu_.mutex_);
  const GraphExec* const exec = FindExec(handle);
  const GraphNode* const original = FindNode(node_handle);
  const GraphNode* const node =
      exec == nullptr || original == nullptr ? nullptr : FindInExec(*exec, *original);
  if (node == nullptr || enabled == nullptr || node->type() > GraphNodeType::kFill)
    return Error::kInvalidValue;
  *enabled = node->enabled;
  return Error::kSuccess;
}

}  // namespace vrank::gpu
