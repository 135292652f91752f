#include "tracer/cupti/graph_watch.h"

#include <algorithm>
#include <utility>

#include "base/guest/thread_value.h"

namespace vrank::tracer {
namespace {

thread_local uint64_t operation = 0;

// A graph that the thread makes executable: its nodes so far, and what they copy.
struct Making {
  bool open = false;
  std::vector<std::pair<uint64_t, uint64_t>> copies;
};

// A graph that the thread clones: its nodes so far, and those that wait for nodes whose
// copies are still to come; both by the original. What is told next of anything else
// ends it, and so does a node that is copied once more.
struct Cloning {
  std::unordered_map<uint64_t, uint64_t> copy_of;
  std::unordered_map<uint64_t, std::vector<uint64_t>> waiting;
};

Making& MyMaking() {
  return ThreadValue<Making>::Mine();
}
Cloning& MyCloning() {
  return ThreadValue<Cloning>::Mine();
}

}  // namespace

const std::vector<CUpti_CallbackId>& GraphWatch::Callbacks() {
  static const auto* const all = new std::vector<CUpti_CallbackId>{
      CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED,
      CUPTI_CBID_RESOURCE_GRAPHNODE_DESTROY_STARTING,
      CUPTI_CBID_RESOURCE_GRAPHNODE_DEPENDENCY_CREATED,
      CUPTI_CBID_RESOURCE_GRAPHNODE_DEPENDENCY_DESTROY_STARTING,
      CUPTI_CBID_RESOURCE_GRAPHEXEC_CREATE_STARTING,
      CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED,
      CUPTI_CBID_RESOURCE_GRAPHEXEC_CREATED,
      CUPTI_CBID_RESOURCE_GRAPHEXEC_DESTROY_STARTING,
      CUPTI_CBID_RESOURCE_GRAPH_NODE_UPDATED,
      CUPTI_CBID_RESOURCE_GRAPH_NODE_SET_PARAMS,
  };
  return *all;
}

void GraphWatch::SetOperation(uint64_t id) {
  operation = id;
}

uint64_t GraphWatch::IdOf(CUgraphNode node) const {
  uint64_t id = 0;
  if (node == nullptr || cupti_.cuptiGetGraphNodeId(node, &id) != CUPTI_SUCCESS)
    return 0;
  return id;
}

void GraphWatch::OnGraph(CUpti_CallbackId cbid, const CUpti_GraphData& data,
                         uint32_t call) {
  std::lock_guard lock(mutex_);
  Cloning& cloning = MyCloning();
  if (cbid != CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED && !cloning.copy_of.empty())
    cloning = {};
  Making& making = MyMaking();
  switch (cbid) {
    case CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED: {
      Node node;
      node.type = static_cast<uint32_t>(data.nodeType);
      // NCCL may capture more than its kernel, a function of the host for example.
      if (operation != 0 && data.nodeType == CU_GRAPH_NODE_TYPE_KERNEL)
        node.operations.push_back(operation);
      if (const uint64_t id = IdOf(data.node); id != 0)
        nodes_[id] = std::move(node);
      return;
    }
    case CUPTI_CBID_RESOURCE_GRAPHNODE_DESTROY_STARTING:
      nodes_.erase(IdOf(data.node));
      return;
    case CUPTI_CBID_RESOURCE_GRAPHNODE_DEPENDENCY_CREATED:
      return OnEdge(data, true);
    case CUPTI_CBID_RESOURCE_GRAPHNODE_DEPENDENCY_DESTROY_STARTING:
      return OnEdge(data, false);
    case CUPTI_CBID_RESOURCE_GRAPHEXEC_CREATE_STARTING:
      making = {true, {}};
      return;
    case CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED:
      if (making.open)
        making.copies.emplace_back(IdOf(data.node), IdOf(data.originalNode));
      else
        OnClone(IdOf(data.node), IdOf(data.originalNode));
      return;
    case CUPTI_CBID_RESOURCE_GRAPHEXEC_CREATED:
      OnExecCreated(data);
      making = {};
      return;
    case CUPTI_CBID_RESOURCE_GRAPHEXEC_DESTROY_STARTING:
      return OnExecEnds(data, call);
    case CUPTI_CBID_RESOURCE_GRAPH_NODE_UPDATED:
    case CUPTI_CBID_RESOURCE_GRAPH_NODE_SET_PARAMS:
      return OnExecChanges(data, call);
    default:
      return;
  }
}

// CUPTI tells the nodes of a clone and not its edges: they are those of the original.
void GraphWatch::OnClone(uint64_t copy, uint64_t original) {
  const auto known = nodes_.find(original);
  if (copy == 0 || known == nodes_.end())
    return;
  Cloning& cloning = MyCloning();
  if (cloning.copy_of.contains(original))
    cloning = {};
  Node node = known->second;
  node.before.clear();
  for (const uint64_t before : known->second.before) {
    const auto made = cloning.copy_of.find(before);
    if (made != cloning.copy_of.end())
      node.before.push_back(made->second);
    else
      cloning.waiting[before].push_back(copy);
  }
  nodes_[copy] = std::move(node);
  for (const uint64_t waiting : cloning.waiting[original])
    nodes_[waiting].before.push_back(copy);
  cloning.copy_of[original] = copy;
}

void GraphWatch::OnEdge(const CUpti_GraphData& data, bool created) {
  const auto waiting = nodes_.find(IdOf(data.dependency));
  if (waiting == nodes_.end())
    return;
  std::vector<uint64_t>& before = waiting->second.before;
  const uint64_t id = IdOf(data.node);
  const auto known = std::find(before.begin(), before.end(), id);
  if (created && known == before.end())
    before.push_back(id);
  else if (!created && known != before.end())
    before.erase(known);
}

void GraphWatch::OnExecCreated(const CUpti_GraphData& data) {
  const Making& making = MyMaking();
  uint32_t exec = 0;
  if (making.copies.empty() ||
      cupti_.cuptiGetGraphExecId(data.graphExec, &exec) != CUPTI_SUCCESS)
    return;
  std::unordered_map<uint64_t, uint64_t> place_of;  // by original
  for (const auto& [copy, original] : making.copies)
    place_of.emplace(original, place_of.size());
  struct Row {
    trace::GraphNode node;
    std::vector<uint64_t> tail;
  };
  std::vector<Row> rows;
  for (const auto& [copy, original] : making.copies) {
    const auto known = nodes_.find(original);
    if (copy == 0 || known == nodes_.end() ||
        known->second.type == CU_GRAPH_NODE_TYPE_GRAPH)
      return;
    Row row{};
    row.node.record.kind = trace::Kind::kGraphNode;
    row.node.graph = exec;
    row.node.index = static_cast<uint32_t>(rows.size());
    row.node.node = copy;
    row.node.type = known->second.type;
    for (const uint64_t before : known->second.before) {
      const auto place = place_of.find(before);
      if (place == place_of.end())
        return;
      row.tail.push_back(place->second);
    }
    row.node.before = static_cast<uint32_t>(row.tail.size());
    row.node.operations = static_cast<uint32_t>(known->second.operations.size());
    row.tail.insert(row.tail.end(), known->second.operations.begin(),
                    known->second.operations.end());
    rows.push_back(std::move(row));
  }
  for (const Row& row : rows)
    writer_.Append(trace::Source::kProgram, row.node, row.tail.data(),
                   row.tail.size() * sizeof(uint64_t));
  for (const auto& [copy, original] : making.copies) {
    exec_of_[copy] = exec;
    copies_[exec].push_back(copy);
  }
}

void GraphWatch::OnExecEnds(const CUpti_GraphData& data, uint32_t call) {
  uint32_t exec = 0;
  if (cupti_.cuptiGetGraphExecId(data.graphExec, &exec) != CUPTI_SUCCESS)
    return;
  const auto copies = copies_.find(exec);
  if (copies == copies_.end())
    return;
  for (const uint64_t copy : copies->second)
    exec_of_.erase(copy);
  copies_.erase(copies);
  AppendChange(exec, trace::kDestroyed, call);
}

void GraphWatch::OnExecChanges(const CUpti_GraphData& data, uint32_t call) {
  if (const auto exec = exec_of_.find(IdOf(data.node)); exec != exec_of_.end())
    AppendChange(exec->second, 0, call);
}

void GraphWatch::AppendChange(uint32_t exec, uint16_t flags, uint32_t call) {
  trace::GraphChange change{};
  change.record.kind = trace::Kind::kGraphChange;
  change.record.flags = flags;
  change.graph = exec;
  change.correlation = call;
  writer_.Append(trace::Source::kProgram, change);
}

void GraphWatch::OnLaunch(const CUpti_CallbackData& call, bool per_thread) {
  // Both structs of parameters, the runtime's and the driver's, are these two.
  struct Parameters {
    CUgraphExec exec;
    CUstream stream;
  };
  if (call.functionParams == nullptr)
    return;
  const auto& parameters = *static_cast<const Parameters*>(call.functionParams);
  trace::GraphLaunch launch{};
  launch.record.kind = trace::Kind::kGraphLaunch;
  launch.correlation = call.correlationId;
  launch.context = call.contextUid;
  if (cupti_.cuptiGetGraphExecId(parameters.exec, &launch.graph) != CUPTI_SUCCESS ||
      cupti_.cuptiGetStreamIdEx(call.context, parameters.stream, per_thread ? 1 : 0,
                                &launch.stream) != CUPTI_SUCCESS)
    return;
  writer_.Append(trace::Source::kProgram, launch);
}

}  // namespace vrank::tracer
