// Graphs as programs build and look at them.

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

#include "virtual_gpu/core/process_gpu.h"
#include "virtual_gpu/core/process_graphs.h"

namespace vrank::gpu {

ProcessGraphs::~ProcessGraphs() = default;

// --- Handles
// ---------------------------------------------------------------------------

Graph* ProcessGraphs::FindGraph(void* handle) const {
  const OwnedGraph* const found = graphs_.Find(handle);
  return found == nullptr ? nullptr : found->graph;
}

GraphNode* ProcessGraphs::FindNode(const void* handle) const {
  const NodeRef* const found = nodes_.Find(handle);
  return found == nullptr ? nullptr : found->node;
}

void* ProcessGraphs::HandleOf(GraphNode* node) {
  if (node->handle == nullptr)
    node->handle = nodes_.Add(std::make_unique<NodeRef>(NodeRef{node}));
  return node->handle;
}

void* ProcessGraphs::HandleOf(Graph* graph) {
  if (graph->handle == nullptr)
    graph->handle = graphs_.Add(std::make_unique<OwnedGraph>(OwnedGraph{{}, graph}));
  return graph->handle;
}

void ProcessGraphs::Disown(GraphNode* node) {
  if (node->handle != nullptr)
    TellNode(ActivityGraph::What::kNodeDestroyed, node);
  captures_.Forget(node);
  gpu_.events_.ForEach(
      [&](void*, Event& event) { std::erase(event.captured_after, node); });
  nodes_.Remove(node->handle);
  if (auto* child = std::get_if<ChildContent>(&node->content))
    Disown(child->graph.get());
}

void ProcessGraphs::Disown(Graph* graph) {
  for (const auto& node : graph->nodes())
    Disown(node.get());
  CountMemory(*graph, -1);
  Release(graph->user_objects);
  if (graph->owner != nullptr)
    graphs_.Remove(graph->handle);
}

void ProcessGraphs::DropGraph(void* handle) {
  const std::unique_ptr<OwnedGraph> gone = graphs_.Remove(handle);
  Disown(gone->graph);
}

Error ProcessGraphs::Create(void** graph) {
  if (graph == nullptr)
    return Error::kInvalidValue;
  VRANK_RETURN_IF_FAILED(gpu_.Ready());
  ProcessGpu::Lock lock(gpu_.mutex_);
  gpu_.channel_->Spend(HostCost::kCreate);
  auto made = std::make_unique<Graph>();
  Graph* const raw = made.get();
  raw->handle =
      graphs_.Add(std::make_unique<OwnedGraph>(OwnedGraph{std::move(made), raw}));
  *graph = raw->handle;
  return Error::kSuccess;
}

Error ProcessGraphs::Destroy(void* handle) {
  VRANK_RETURN_IF_FAILED(gpu_.Ready());
  ProcessGpu::Lock lock(gpu_.mutex_);
  const Graph* const graph = FindGraph(handle);
  // A child graph belongs to its node; a graph that is captured into, to the capture.
  if (graph == nullptr || graph->owner != nullptr || captures_.IsCaptured(graph))
    return Error::kInvalidValue;
  gpu_.channel_->Spend(HostCost::kCreate);
  DropGraph(handle);
  return Error::kSuccess;
}

Error ProcessGraphs::Clone(void* handle, void** clone) {
  VRANK_RETURN_IF_FAILED(gpu_.Ready());
  ProcessGpu::Lock lock(gpu_.mutex_);
  const Graph* const graph = FindGraph(handle);
  if (graph == nullptr || clone == nullptr)
    return Error::kInvalidValue;
  // An address cannot belong to two graphs.
  if (HasMemoryNodes(*graph))
    return Error::kNotSupported;
  gpu_.channel_->Spend(HostCost::kGraphNode,
                       static_cast<int64_t>(graph->nodes().size()));
  std::unique_ptr<Graph> made = graph->Clone();
  Graph* const raw = made.get();
  raw->user_objects = graph->user_objects;
  Retain(raw->user_objects);
  raw->handle =
      graphs_.Add(std::make_unique<OwnedGraph>(OwnedGraph{std::move(made), raw}));
  TellCloned(*graph, *raw);
  *clone = raw->handle;
  return Error::kSuccess;
}

// --- Nodes
// -----------------------------------------------------------------------------

Error ProcessGraphs::CheckDependencies(Graph* graph, Dependencies after) const {
  for (const GraphDependency& dependency : after) {
    const GraphNode* const node = FindNode(dependency.node);
    if (node == nullptr || node->graph != graph)
      return Error::kInvalidValue;
    if (!IsWholeEdge(dependency.data))
      return Error::kNotSupported;
  }
  return Error::kSuccess;
}

Error ProcessGraphs::AddNode(void* graph_handle, Dependencies after,
                             GraphNodeParameters* parameters, void** node) {
  if (node == nullptr)
    return Error::kInvalidValue;
  ProcessGpu::Lock lock(gpu_.mutex_);
  int device = 0;
  VRANK_RETURN_IF_FAILED(gpu_.Begin(&device));
  Graph* const graph = FindGraph(graph_handle);
  if (graph == nullptr)
    return Error::kInvalidValue;
  VRANK_RETURN_IF_FAILED(CheckDependencies(graph, after));
  GraphNodeContent content;
  if (auto* allocation = std::get_if<AllocationParameters>(parameters))
    VRANK_RETURN_IF_FAILED(TakeAddress(allocation));
  VRANK_RETURN_IF_FAILED(ContentFrom(*parameters, &content));
  gpu_.channel_->Spend(HostCost::kGraphNode);
  GraphNode* const made = graph->Add(std::move(content));
  for (const GraphDependency& dependency : after)
    Graph::Connect(FindNode(dependency.node), made, dependency.data);
  *node = HandleOf(made);
  TellMade(made);
  return Error::kSuccess;
}

Error ProcessGraphs::DestroyNode(void* handle) {
  VRANK_RETURN_IF_FAILED(gpu_.Ready());
  ProcessGpu::Lock lock(gpu_.mutex_);
  GraphNode* const node = FindNode(handle);
  if (node == nullptr)
    return Error::kInvalidValue;
  // "Graph nodes which are mem alloc or mem free nodes cannot be destroyed."
  if (node->type() == GraphNodeType::kAllocation ||
      node->type() == GraphNodeType::kFree)
    return Error::kNotSupported;
  gpu_.channel_->Spend(HostCost::kGraphNode);
  Disown(node);
  node->graph->Remove(node);
  return Error::kSuccess;
}

Error ProcessGraphs::GetNodeType(void* handle, GraphNodeType* type) {
  ProcessGpu::Lock lock(gpu_.mutex_);
  const GraphNode* const node = FindNode(handle);
  if (node == nullptr || type == nullptr)
    return Error::kInvalidValue;
  *type = node->type();
  return Error::kSuccess;
}

Error ProcessGraphs::Connect(void* handle, std::span<const GraphEdge> edges) {
  ProcessGpu::Lock lock(gpu_.mutex_);
  Graph* const graph = FindGraph(handle);
  if (graph == nullptr)
    return Error::kInvalidValue;
  for (const GraphEdge& edge : edges) {
    GraphNode* const from = FindNode(edge.from);
    GraphNode* const to = FindNode(edge.to);
    if (from == nullptr || to == nullptr || from == to || from->graph != graph ||
        to->graph != graph)
      return Error::kInvalidValue;
    if (!IsWholeEdge(edge.data))
      return Error::kNotSupported;
    if (!Graph::Connect(from, to, edge.data))
      return Error::kInvalidValue;
    TellEdge(ActivityGraph::What::kEdgeCreated, from, to);
  }
  return Error::kSuccess;
}

Error ProcessGraphs::Disconnect(void* handle, std::span<const GraphEdge> edges) {
  ProcessGpu::Lock lock(gpu_.mutex_);
  Graph* const graph = FindGraph(handle);
  if (graph == nullptr || HasMemoryNodes(*graph))
    return graph == nullptr ? Error::kInvalidValue : Error::kNotSupported;
  for (const GraphEdge& edge : edges) {
    GraphNode* const from = FindNode(edge.from);
    GraphNode* const to = FindNode(edge.to);
    if (from == nullptr || to == nullptr || from->graph != graph ||
        to->graph != graph || !Graph::Disconnect(from, to, edge.data))
      return Error::kInvalidValue;
    TellEdge(ActivityGraph::What::kEdgeDestroyed, from, to);
  }
  return Error::kSuccess;
}

// --- Looking at graphs
// -----------------------------------------------------------------

Error ProcessGraphs::GetNodes(void* handle, std::vector<void*>* nodes) {
  ProcessGpu::Lock lock(gpu_.mutex_);
  const Graph* const graph = FindGraph(handle);
  if (graph == nullptr)
    return Error::kInvalidValue;
  for (const auto& node : graph->nodes())
    nodes->push_back(HandleOf(node.get()));
  return Error::kSuccess;
}

Error ProcessGraphs::GetRoots(void* handle, std::vector<void*>* nodes) {
  ProcessGpu::Lock lock(gpu_.mutex_);
  const Graph* const graph = FindGraph(handle);
  if (graph == nullptr)
    return Error::kInvalidValue;
  for (const auto& node : graph->nodes())
    if (node->before.empty())
      nodes->push_back(HandleOf(node.get()));
  return Error::kSuccess;
}

Error ProcessGraphs::GetEdges(void* handle, std::vector<GraphEdge>* edges) {
  ProcessGpu::Lock lock(gpu_.mutex_);
  const Graph* const graph = FindGraph(handle);
  if (graph == nullptr)
    return Error::kInvalidValue;
  for (const auto& node : graph->nodes())
    for (const GraphLink& link : node->after)
      edges->push_back({HandleOf(node.get()), HandleOf(link.node), link.data});
  return Error::kSuccess;
}

Error ProcessGraphs::GetNeighbours(void* handle, bool dependents,
                                   std::vector<GraphDependency>* neighbours) {
  ProcessGpu::Lock lock(gpu_.mutex_);
  const GraphNode* const node = FindNode(handle);
  if (node == nullptr)
    return Error::kInvalidValue;
  for (const GraphLink& link : dependents ? node->after : node->before)
    neighbours->push_back({HandleOf(link.node), link.data});
  return Error::kSuccess;
}

Error ProcessGraphs::FindInClone(void* original, void* clone, void** node) {
  ProcessGpu::Lock lock(gpu_.mutex_);
  const GraphNode* const wanted = FindNode(original);
  const Graph* const graph = FindGraph(clone);
  if (wanted == nullptr || graph == nullptr || node == nullptr)
    return Error::kInvalidValue;
  for (const auto& copy : graph->nodes())
    if (copy->original == wanted->id) {
      *node = HandleOf(copy.get());
      return Error::kSuccess;
    }
  return Error::kInvalidValue;
}

namespace {

const char* NameOf(GraphNodeType type) {
  switch (type) {
    case GraphNodeType::kKernel:
      return "KERNEL";
    case GraphNodeType::kCopy:
      return "MEMCPY";
    case GraphNodeType::kFill:
      return "MEMSET";
    case GraphNodeType::kHost:
      return "HOST";
    case GraphNodeType::kChild:
      return "GRAPH";
    case GraphNodeType::kEmpty:
      return "EMPTY";
    case GraphNodeType::kEventWait:
      return "EVENT_WAIT";
    case GraphNodeType::kEventRecord:
      return "EVENT_RECORD";
    case GraphNodeType::kAllocation:
      return "MEM_ALLOC";
    case GraphNodeType::kFree:
      return "MEM_FREE";
  }
  return "";
}

}  // namespace

Error ProcessGraphs::PrintDot(void* handle, const char* path) {
  ProcessGpu::Lock lock(gpu_.mutex_);
  const Graph* const graph = FindGraph(handle);
  if (graph == nullptr || path == nullptr)
    return Error::kInvalidValue;
  FILE* const out = fopen(path, "w");
  if (out == nullptr)
    return Error::kOperatingSystem;
  fputs("digraph dot {\n", out);
  for (const auto& node : graph->nodes()) {
    const auto* kernel = std::get_if<KernelContent>(&node->content);
    fprintf(out, "  n%llu [label=\"%s%s%s\"];\n",
            static_cast<unsigned long long>(node->id), NameOf(node->type()),
            kernel == nullptr ? "" : "\\n",
            kernel == nullptr ? "" : kernel->launch.kernel->name.c_str());
    for (const GraphLink& link : node->after)
      fprintf(out, "  n%llu -> n%llu;\n", static_cast<unsigned long long>(node->id),
              static_cast<unsigned long long>(link.node->id));
  }
  fputs("}\n", out);
  return fclose(out) == 0 ? Error::kSuccess : Error::kOperatingSystem;
}

}  // namespace vrank::gpu
