#include "virtual_gpu/core/graph_execs.h"

#include <utility>
#include <variant>

#include "virtual_gpu/core/graph_update.h"
#include "virtual_gpu/core/launch_rules.h"

namespace vrank::gpu {
namespace {

constexpr uint64_t kKnownFlags =
    kAutoFreeOnLaunch | kUploadAfterInstantiation | kDeviceLaunch | kUseNodePriority;

// Again: attributes of nodes and of their functions may have changed since they were
// made. On failure, `wrong` is the node whose launch a GPU refuses.
Error CheckKernels(const GpuProperties& gpu, const Graph& graph, GraphNode** wrong) {
  for (const auto& node : graph.nodes()) {
    *wrong = node.get();
    if (const auto* child = std::get_if<ChildContent>(&node->content))
      VRANK_RETURN_IF_FAILED(CheckKernels(gpu, *child->graph, wrong));
    if (const auto* kernel = std::get_if<KernelContent>(&node->content))
      VRANK_RETURN_IF_FAILED(CheckLaunch(gpu, kernel->launch));
  }
  return Error::kSuccess;
}

GraphNode* FindInExec(const GraphExec* exec, const GraphNode* original) {
  if (exec == nullptr || original == nullptr)
    return nullptr;
  for (const auto& node : exec->graph->nodes())
    if (node->original == original->id)
      return node.get();
  return nullptr;
}

}  // namespace

Error GraphExecs::Instantiate(const Graph* graph, Instantiation* how, void** exec) {
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
  if (const Error error = CheckKernels(channel_->settings().gpu, *graph, &wrong);
      error != Error::kSuccess) {
    how->error_node = table_.HandleOf(wrong);
    return error;
  }
  auto made = std::make_unique<GraphExec>();
  made->flags = how->flags;
  made->graph = graph->Clone();
  if (!MakePlan(*made->graph, &made->plan)) {
    how->result = InstantiateResult::kInvalidStructure;
    return Error::kInvalidValue;
  }
  channel_->Spend(HostCost::kGraphInstantiate, made->plan.nodes);
  made->graph->user_objects = graph->user_objects;
  user_objects_.Retain(made->graph->user_objects);
  allocations_.Count(*made->graph, 1);
  Prepare(made.get());
  GraphExec* const raw = made.get();
  raw->id = ++execs_made_;
  *exec = raw->handle = execs_.Add(std::move(made));
  notes_.Instantiated(*graph, raw);
  how->result = InstantiateResult::kSuccess;
  return Error::kSuccess;
}

void GraphExecs::PrepareNode(GraphExec* exec, GraphNode* node) {
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
    node->writes = effects_.WritesOf(kernel->launch);
}

void GraphExecs::Prepare(GraphExec* exec) {
  launcher_.Forget(exec);
  exec->repeatable = true;
  exec->has_obligations = false;
  for (const GraphStep& step : exec->plan.steps)
    if (step.node != nullptr)
      PrepareNode(exec, step.node);
}

Error GraphExecs::Destroy(void* handle) {
  const std::unique_ptr<GraphExec> gone = execs_.Remove(handle);
  if (gone == nullptr)
    return Error::kInvalidValue;
  channel_->Spend(HostCost::kCreate);
  notes_.Exec(ActivityGraph::What::kExecDestroyed, *gone);
  table_.RemoveHandles(*gone->graph);
  launcher_.DropLanes(gone.get());
  allocations_.Count(*gone->graph, -1);
  user_objects_.Release(gone->graph->user_objects);
  return Error::kSuccess;
}

Error GraphExecs::Update(void* handle, const Graph* graph, GraphUpdate* update) {
  GraphExec* const exec = Find(handle);
  *update = {};
  if (exec == nullptr || graph == nullptr)
    return Error::kInvalidValue;
  channel_->Spend(HostCost::kGraphInstantiate, exec->plan.nodes);
  GraphNode* error_node = nullptr;
  update->result = Compare(*exec->graph, *graph, &error_node);
  if (update->result != UpdateResult::kSuccess) {
    update->error_node = error_node == nullptr ? nullptr : table_.HandleOf(error_node);
    return Error::kGraphExecUpdateFailure;
  }
  TakeOver(exec->graph.get(), *graph);
  for (size_t i = 0; i < graph->nodes().size(); ++i)
    notes_.Node(ActivityGraph::What::kNodeUpdated, exec->graph->nodes()[i].get(), exec,
                graph->nodes()[i].get());
  Prepare(exec);
  return Error::kSuccess;
}

Error GraphExecs::SetParameters(void* handle, const GraphNode* original,
                                const GraphNodeParameters& parameters) {
  GraphExec* const exec = Find(handle);
  GraphNode* const node = FindInExec(exec, original);
  if (node == nullptr)
    return Error::kInvalidValue;
  GraphNodeContent content;
  VRANK_RETURN_IF_FAILED(node_contents_.From(parameters, &content));
  if (content.index() != node->content.index() ||
      std::holds_alternative<AllocationParameters>(content) ||
      std::holds_alternative<FreeParameters>(content))
    return Error::kInvalidValue;
  channel_->Spend(HostCost::kGraphNode);
  if (auto* child = std::get_if<ChildContent>(&node->content)) {
    const Graph& replacement = *std::get<ChildContent>(content).graph;
    GraphNode* error_node = nullptr;
    if (Compare(*child->graph, replacement, &error_node) != UpdateResult::kSuccess)
      return Error::kInvalidValue;
    TakeOver(child->graph.get(), replacement);
  } else {
    node->content = std::move(content);
  }
  notes_.Node(ActivityGraph::What::kNodeSet, node, exec, original);
  Prepare(exec);
  return Error::kSuccess;
}

Error GraphExecs::SetEnabled(void* handle, const GraphNode* original, bool enabled) {
  GraphExec* const exec = Find(handle);
  GraphNode* const node = FindInExec(exec, original);
  // "Currently only kernel, memset and memcpy nodes are supported."
  if (node == nullptr || node->type() > GraphNodeType::kFill)
    return Error::kInvalidValue;
  channel_->Spend(HostCost::kGraphNode);
  node->enabled = enabled;
  Prepare(exec);
  return Error::kSuccess;
}

Error GraphExecs::GetEnabled(void* handle, const GraphNode* original, bool* enabled) {
  const GraphNode* const node = FindInExec(Find(handle), original);
  if (node == nullptr || enabled == nullptr || node->type() > GraphNodeType::kFill)
    return Error::kInvalidValue;
  *enabled = node->enabled;
  return Error::kSuccess;
}

void GraphExecs::ForgetDevice(int device) {
  execs_.ForEach([&](void*, GraphExec& exec) {
    if (exec.device == device)
      launcher_.DropLanes(&exec);
  });
}

}  // namespace vrank::gpu
