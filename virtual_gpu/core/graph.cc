// Nodes and edges, copies of them, and the order in which they can be issued.

#include "virtual_gpu/core/graph.h"

#include <algorithm>
#include <cstring>

#include "base/guest/node_layout.h"
#include "virtual_gpu/core/kernel_code.h"

namespace vrank::gpu {
namespace {

uint64_t next_node_id = 1;

GraphNodeContent CopyOf(const GraphNodeContent& content) {
  if (const auto* child = std::get_if<ChildContent>(&content))
    return ChildContent{child->graph->Clone()};
  if (const auto* gemm = std::get_if<GemmContent>(&content)) {
    GemmContent copy{gemm->launch, gemm->outputs};
    copy.launch.outputs = copy.outputs.data();
    return copy;
  }
  GraphNodeContent copy;
  std::visit(
      [&](const auto& from) {
        using Content = std::decay_t<decltype(from)>;
        if constexpr (!std::is_same_v<Content, ChildContent>)
          copy.emplace<Content>(from);
      },
      content);
  return copy;
}

std::vector<GraphLink>::iterator Find(std::vector<GraphLink>& links, GraphNode* node,
                                      const GraphEdgeData& data) {
  return std::find_if(links.begin(), links.end(), [&](const GraphLink& link) {
    return link.node == node && link.data == data;
  });
}

}  // namespace

KernelContent::KernelContent(const KernelLaunch& from) : launch(from) {
  const KernelSignature& signature = from.kernel->signature;
  uint32_t used = 0;
  for (uint32_t i = 0; i < signature.known; ++i) {
    const KernelParameter& parameter = signature.parameters[i];
    const unsigned char* at =
        from.arguments != nullptr ? static_cast<const unsigned char*>(from.arguments[i])
        : from.packed != nullptr &&
                parameter.offset + parameter.size <= from.packed_bytes
            ? static_cast<const unsigned char*>(from.packed) + parameter.offset
            : nullptr;
    if (at == nullptr)
      break;
    used = parameter.offset + parameter.size;
    arguments.resize(used);
    std::memcpy(arguments.data() + parameter.offset, at, parameter.size);
  }
  Rebind();
}

KernelContent::KernelContent(const KernelContent& other)
    : launch(other.launch), arguments(other.arguments), attributes(other.attributes) {
  Rebind();
}

KernelContent& KernelContent::operator=(const KernelContent& other) {
  launch = other.launch;
  arguments = other.arguments;
  attributes = other.attributes;
  Rebind();
  return *this;
}

void KernelContent::TakeAttributes(const KernelContent& other) {
  attributes = other.attributes;
  launch.cooperative = other.launch.cooperative;
  std::copy_n(other.launch.cluster, 3, launch.cluster);
}

void KernelContent::Rebind() {
  launch.arguments = nullptr;
  launch.packed = arguments.data();
  launch.packed_bytes = arguments.size();
  pointers.clear();
  const KernelSignature& signature = launch.kernel->signature;
  for (uint32_t i = 0; i < signature.known; ++i) {
    const KernelParameter& parameter = signature.parameters[i];
    if (parameter.offset + parameter.size <= arguments.size())
      pointers.push_back(arguments.data() + parameter.offset);
  }
}

GraphNodeType GraphNode::type() const {
  struct Types {
    GraphNodeType operator()(const EmptyParameters&) { return GraphNodeType::kEmpty; }
    GraphNodeType operator()(const KernelContent&) { return GraphNodeType::kKernel; }
    GraphNodeType operator()(const GemmContent&) { return GraphNodeType::kKernel; }
    GraphNodeType operator()(const LibraryParameters&) {
      return GraphNodeType::kKernel;
    }
    GraphNodeType operator()(const CopyRequest&) { return GraphNodeType::kCopy; }
    GraphNodeType operator()(const FillRequest&) { return GraphNodeType::kFill; }
    GraphNodeType operator()(const HostCallParameters&) { return GraphNodeType::kHost; }
    GraphNodeType operator()(const ChildContent&) { return GraphNodeType::kChild; }
    GraphNodeType operator()(const EventRecordParameters&) {
      return GraphNodeType::kEventRecord;
    }
    GraphNodeType operator()(const EventWaitParameters&) {
      return GraphNodeType::kEventWait;
    }
    GraphNodeType operator()(const AllocationParameters&) {
      return GraphNodeType::kAllocation;
    }
    GraphNodeType operator()(const FreeParameters&) { return GraphNodeType::kFree; }
  };
  return std::visit(Types{}, content);
}

GraphNode* Graph::Add(GraphNodeContent content) {
  auto node = std::make_unique<GraphNode>();
  node->graph = this;
  node->id = next_node_id++;
  node->content = std::move(content);
  if (auto* child = std::get_if<ChildContent>(&node->content))
    child->graph->owner = node.get();
  return nodes_.emplace_back(std::move(node)).get();
}

void Graph::Remove(GraphNode* node) {
  for (const GraphLink& link : std::vector(node->before))
    Disconnect(link.node, node, link.data);
  for (const GraphLink& link : std::vector(node->after))
    Disconnect(node, link.node, link.data);
  std::erase_if(nodes_, [&](const auto& owned) { return owned.get() == node; });
}

bool Graph::Connect(GraphNode* from, GraphNode* to, const GraphEdgeData& data) {
  if (Find(to->before, from, data) != to->before.end())
    return false;
  to->before.push_back({from, data});
  from->after.push_back({to, data});
  return true;
}

bool Graph::Disconnect(GraphNode* from, GraphNode* to, const GraphEdgeData& data) {
  const auto found = Find(to->before, from, data);
  if (found == to->before.end())
    return false;
  to->before.erase(found);
  from->after.erase(Find(from->after, to, data));
  return true;
}

std::unique_ptr<Graph> Graph::Clone() const {
  auto clone = std::make_unique<Graph>();
  std::unordered_map<const GraphNode*, GraphNode*> copies;
  for (const auto& node : nodes_) {
    GraphNode* copy = clone->Add(CopyOf(node->content));
    copy->original = node->id;
    copy->enabled = node->enabled;
    copies[node.get()] = copy;
  }
  for (const auto& node : nodes_)
    for (const GraphLink& link : node->before)
      Connect(copies[link.node], copies[node.get()], link.data);
  return clone;
}

bool Graph::Order(std::vector<GraphNode*>* ordered) const {
  ordered->clear();
  std::unordered_map<const GraphNode*, uint32_t> place;
  for (const auto& node : nodes_)
    place.emplace(node.get(), static_cast<uint32_t>(place.size()));
  NodeEdges before(nodes_.size());
  for (size_t i = 0; i < nodes_.size(); ++i)
    for (const GraphLink& link : nodes_[i]->before)
      before[i].push_back(place.at(link.node));
  for (const uint32_t index : OrderNodes(before))
    ordered->push_back(nodes_[index].get());
  return ordered->size() == nodes_.size();
}

bool HasMemoryNodes(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [](const auto& node) {
    const auto* child = std::get_if<ChildContent>(&node->content);
    return node->type() == GraphNodeType::kAllocation ||
           node->type() == GraphNodeType::kFree ||
           (child != nullptr && HasMemoryNodes(*child->graph));
  });
}

}  // namespace vrank::gpu
