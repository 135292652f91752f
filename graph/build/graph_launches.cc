// See graph_launches.h.

#include "graph/build/graph_launches.h"

#include <algorithm>

namespace vrank::graph {
namespace {

// As the emulator calls the op that stands for a launch.
constexpr char kLaunchName[] = "graph launch";

}  // namespace

const TracedGraphLaunch* GraphLaunches::Known(uint32_t call, bool captured) const {
  const std::span<const RowsByCall::Row> launches = index_.graph_launches.Of(call);
  if (launches.empty() || trace_.calls[call].result != 0)
    return nullptr;
  // Into a captured stream: the graph becomes a node of another one.
  if (captured && index_.work.Of(call).empty())
    return nullptr;
  const TracedGraphLaunch& launch = trace_.graph_launches[launches.front().row];
  return index_.NodesOf(launch.graph).empty() ? nullptr : &launch;
}

// In the order and on the lanes of the virtual GPU.
void GraphLaunches::LayOut(std::span<const TracedGraphNode> nodes, Launched* graph) {
  NodeEdges before;
  for (const TracedGraphNode& node : nodes)
    before.push_back(node.before);
  graph->nodes = OrderNodes(before);
  std::vector<uint32_t> place_of(nodes.size());
  for (uint32_t place = 0; place < graph->nodes.size(); ++place)
    place_of[graph->nodes[place]] = place;
  NodeEdges ordered;
  for (const uint32_t node : graph->nodes) {
    std::vector<uint32_t>& places = ordered.emplace_back();
    for (const uint32_t other : nodes[node].before)
      places.push_back(place_of[other]);
  }
  graph->layout = NodePlanner(ordered).LayOut();
}

GraphLaunches::Launched& GraphLaunches::TakeLanes(const TracedGraphLaunch& launch) {
  Launched& graph = graphs_[launch.graph];
  if (graph.nodes.empty())
    LayOut(index_.NodesOf(launch.graph), &graph);
  if (!graph.tokens.empty())
    return graph;
  graph.lanes.push_back(nullptr);  // the launching stream's
  for (uint32_t lane = 1; lane < graph.layout.lanes; ++lane)
    graph.lanes.push_back(lanes_.CreateInternal(launch.context));
  for (uint32_t token = 0; token < graph.layout.tokens; ++token)
    graph.tokens.push_back(lanes_.TakeToken());
  return graph;
}

void GraphLaunches::Launch(uint32_t call, const TracedGraphLaunch& launch) {
  Launched& graph = TakeLanes(launch);
  StreamLanes::Stream* const on = streams_.Find(launch.context, launch.stream);
  lanes_.Before(on);
  // One launch of an executable graph follows the other, in whichever stream.
  if (graph.last_stream != 0 && graph.last_stream != on->id)
    lanes_.Wait(on, graph.tokens[graph.layout.done]);
  graph.last_stream = on->id;
  lanes_.Note(Op{.kind = OpKind::kWork,
                 .launch = 1,
                 .lane = on->lane,
                 .a = program_.AddName(kLaunchName)});
  work_.SetQueueWait(call);
  FindWork(call);
  const std::span<const TracedGraphNode> nodes = index_.NodesOf(launch.graph);
  for (const LayoutStep& step : graph.layout.steps) {
    StreamLanes::Stream* const lane = step.lane == 0 ? on : graph.lanes[step.lane];
    switch (step.kind) {
      case LayoutStep::Kind::kNode:
        Node(nodes[graph.nodes[step.node]], lane);
        break;
      case LayoutStep::Kind::kRecord:
        lanes_.Record(lane, graph.tokens[step.token]);
        break;
      case LayoutStep::Kind::kWait:
        lanes_.Wait(lane, graph.tokens[step.token]);
        break;
    }
  }
  lanes_.After(on);
  // Which node records which event CUPTI does not say: all have come when the graph
  // has.
  for (const RowsByCall::Row& row : index_.event_records.Of(call))
    events_.Record(on, trace_.event_records[row.row]);
}

// Which of the launch's work is which node's.
void GraphLaunches::FindWork(uint32_t call) {
  node_work_.clear();
  for (const RowsByCall::Row& row : index_.work.Of(call))
    node_work_.emplace_back(trace_.work[row.row].graph_node, row.row);
  std::stable_sort(node_work_.begin(), node_work_.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
}

void GraphLaunches::Node(const TracedGraphNode& node, StreamLanes::Stream* lane) {
  auto work = std::lower_bound(
      node_work_.begin(), node_work_.end(), node.node,
      [](const auto& row, uint64_t wanted) { return row.first < wanted; });
  const bool has_work = work != node_work_.end() && work->first == node.node;
  if (!node.operations.empty()) {
    // A node that was switched off, or a record that was dropped: CUPTI does not say.
    if (!has_work)
      return losses_.Count(BuildLoss::kNodeWithoutWork);
    for (const uint64_t number : node.operations)
      if (const TracedOperation* operation = index_.Captured(number))
        work_.Operation(*operation, lane, &trace_.work[work->second],
                        /*is_launch=*/false);
    return;
  }
  for (; work != node_work_.end() && work->first == node.node; ++work)
    lanes_.Note(work_.OpOf(trace_.work[work->second], lane, /*is_launch=*/false));
  if (!has_work)
    CountMissing(node.kind);
}

// A node without work.
void GraphLaunches::CountMissing(GraphNodeKind kind) {
  switch (kind) {
    case GraphNodeKind::kKernel:
    case GraphNodeKind::kCopy:
    case GraphNodeKind::kMemset:
      return losses_.Count(BuildLoss::kNodeWithoutWork);
    case GraphNodeKind::kHost:
      return losses_.Count(BuildLoss::kHostFunction);
    case GraphNodeKind::kEventWait:
    case GraphNodeKind::kEventRecord:
      return losses_.Count(BuildLoss::kGraphEvent);
    default:
      return;
  }
}

void GraphLaunches::End(uint32_t call) {
  for (const RowsByCall::Row& row : index_.graph_changes.Of(call)) {
    const TracedGraphChange& change = trace_.graph_changes[row.row];
    const auto graph = graphs_.find(change.graph);
    if (!change.ended || graph == graphs_.end())
      continue;
    for (StreamLanes::Stream* lane : graph->second.lanes)
      if (lane != nullptr)
        lanes_.DestroyInternal(lane);
    for (const uint32_t token : graph->second.tokens)
      lanes_.GiveBackToken(token);
    graphs_.erase(graph);
  }
}

}  // namespace vrank::graph
