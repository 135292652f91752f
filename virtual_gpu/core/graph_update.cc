#include "virtual_gpu/core/graph_update.h"

#include <algorithm>
#include <memory>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

namespace vrank::gpu {
namespace {

// Equal where nodes of two graphs wait for the same ones.
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

UpdateResult Compare(const Graph& old_graph, const Graph& new_graph,
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

void TakeOver(Graph* to, const Graph& from) {
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

}  // namespace vrank::gpu
