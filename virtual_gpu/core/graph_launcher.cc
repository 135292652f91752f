#include "virtual_gpu/core/graph_launcher.h"

#include <utility>
#include <variant>
#include <vector>

namespace vrank::gpu {

using protocol::kInGraph;

Error GraphLauncher::Launch(GraphExec* exec, Stream* on) {
  channel_->Spend(HostCost::kGraphLaunch);
  channel_->Spend(HostCost::kGraphLaunchNode, exec->plan.nodes);
  VRANK_RETURN_IF_FAILED(CheckLaunch(*exec));
  VRANK_RETURN_IF_FAILED(allocations_.TakeMemory(*exec));
  TakeLanes(exec, on->device);
  lanes_.Before(on);
  // "Each launch is ordered behind both any previous work in stream and any previous
  // launches of graphExec."
  if (exec->last_stream != 0 && exec->last_stream != on->id)
    lanes_.Wait(on, exec->tokens[exec->plan.done]);
  exec->last_stream = on->id;
  notes_.SetGraph(exec->id);
  IssueOrRepeat(exec, on);
  notes_.SetGraph(0);
  lanes_.After(on);
  return Error::kSuccess;
}

Error GraphLauncher::CheckLaunch(const GraphExec& exec) {
  CopySides sides{};
  for (const GraphStep& step : exec.plan.steps) {
    if (step.node == nullptr || !step.node->enabled)
      continue;
    const GraphNodeContent& content = step.node->content;
    if (const auto* copy = std::get_if<CopyRequest>(&content))
      VRANK_RETURN_IF_FAILED(copies_.FindSides(*copy, &sides));
    if (const auto* fill = std::get_if<FillRequest>(&content))
      VRANK_RETURN_IF_FAILED(copies_.CheckFill(*fill));
    const auto* record = std::get_if<EventRecordParameters>(&content);
    const auto* wait = std::get_if<EventWaitParameters>(&content);
    if ((record != nullptr && events_.Find(record->event) == nullptr) ||
        (wait != nullptr && events_.Find(wait->event) == nullptr))
      return Error::kInvalidValue;
  }
  return Error::kSuccess;
}

void GraphLauncher::TakeLanes(GraphExec* exec, int device) {
  if (exec->device == device)
    return;
  DropLanes(exec);
  exec->device = device;
  exec->lanes.push_back(nullptr);
  for (uint32_t lane = 1; lane < exec->plan.lanes; ++lane)
    exec->lanes.push_back(lanes_.CreateInternal(device));
  for (uint32_t token = 0; token < exec->plan.tokens; ++token)
    exec->tokens.push_back(lanes_.TakeInternalToken());
  exec->covers.resize(exec->plan.tokens);
}

void GraphLauncher::DropLanes(GraphExec* exec) {
  Forget(exec);
  for (Stream* lane : exec->lanes)
    if (lane != nullptr)
      lanes_.DestroyInternal(lane);
  for (const Token& token : exec->tokens)
    lanes_.GiveBackInternalToken(token);
  exec->lanes.clear();
  exec->tokens.clear();
  exec->device = -1;
  exec->last_stream = 0;
}

void GraphLauncher::IssueOrRepeat(GraphExec* exec, Stream* on) {
  obligations_.Prune(&on->covers);
  for (Stream* lane : exec->lanes)
    if (lane != nullptr)
      lane->covers.clear();
  const bool listening = notes_.listening();
  protocol::GraphLaunch record{};
  record.record.kind = protocol::RecordKind::kGraphLaunch;
  record.lane = on->lane;
  if (exec->number != 0 && !listening) {
    record.graph = exec->number;
    WalkSteps(exec, on, /*repeats=*/true, record);
    return;
  }
  record.nodes_follow = 1;
  if (exec->repeatable && !listening)
    record.graph = exec->number = next_number_++;
  WalkSteps(exec, on, /*repeats=*/false, record);
  if (record.graph == 0)
    return;
  protocol::Graph end{};
  end.record.kind = protocol::RecordKind::kGraphEnd;
  end.graph = record.graph;
  channel_->Emit(end);
}

// A body that the emulator remembers is announced last: payloads precede the operation
// that they belong to.
void GraphLauncher::WalkSteps(GraphExec* exec, Stream* on, bool repeats,
                              const protocol::GraphLaunch& record) {
  const bool tracks = exec->has_obligations || !on->covers.empty();
  if (!repeats)
    channel_->Emit(record);
  for (const GraphStep& step : exec->plan.steps) {
    Stream* const lane = step.lane == 0 ? on : exec->lanes[step.lane];
    switch (step.kind) {
      case GraphStep::Kind::kNode:
        if (step.node->enabled) {
          notes_.SetGraphNode(step.node->id);
          Step(step.node, lane, repeats);
          notes_.SetGraphNode(0);
        }
        break;
      case GraphStep::Kind::kRecord:
        if (!repeats)
          lanes_.Record(lane, &exec->tokens[step.token], kInGraph);
        if (tracks)
          exec->covers[step.token] = lane->covers;
        break;
      case GraphStep::Kind::kWait:
        if (!repeats)
          lanes_.Wait(lane, exec->tokens[step.token], kInGraph);
        if (tracks)
          Merge(&lane->covers, exec->covers[step.token]);
        break;
    }
  }
  // A launch that has faulted does not get through.
  if (repeats && !devices_.faulted())
    channel_->Emit(record);
}

void GraphLauncher::Step(GraphNode* node, Stream* lane, bool repeats) {
  GraphNodeContent& content = node->content;
  if (const auto* kernel = std::get_if<KernelContent>(&content)) {
    if (!repeats)
      launches_.EmitKernel(*lane, kernel->launch, kInGraph);
    effects_.Apply(*kernel->launch.kernel, node->writes);
  } else if (const auto* gemm = std::get_if<GemmContent>(&content)) {
    if (!repeats)
      launches_.EmitGemm(*lane, gemm->launch, kInGraph);
    effects_.Apply(gemm->launch, kernels_.Find(gemm->launch.name)->name.c_str());
  } else if (const auto* copy = std::get_if<CopyRequest>(&content)) {
    StepCopy(*copy, lane, repeats);
  } else if (const auto* fill = std::get_if<FillRequest>(&content)) {
    if (!repeats)
      copies_.EmitFill(*lane, *fill, kInGraph);
    copies_.Fill(*fill);
  } else if (auto* library = std::get_if<LibraryParameters>(&content)) {
    if (repeats) {
      library_memory_.SetStream(lane);
      (*library)->Repeat();
      library_memory_.SetStream(nullptr);
    } else {
      (*library)->Launch({lane->device, lane->lane}, kInGraph);
    }
  } else {
    StepOther(content, lane);
  }
}

void GraphLauncher::StepCopy(const CopyRequest& request, Stream* lane, bool repeats) {
  CopySides sides{};
  if (copies_.FindSides(request, &sides) != Error::kSuccess)
    return;  // CheckLaunch has found them
  if (!repeats)
    copies_.EmitCopy(*lane, request, sides, kInGraph);
  std::vector<Landing> landings;
  copies_.Move(request, sides, &landings);
  for (const Landing& landing : landings)
    Merge(&lane->covers, {obligations_.AddLanding(landing)});
}

void GraphLauncher::StepOther(const GraphNodeContent& content, Stream* lane) {
  if (const auto* host = std::get_if<HostCallParameters>(&content)) {
    launches_.EmitHostFunction(lane, *host, kInGraph);
  } else if (const auto* record = std::get_if<EventRecordParameters>(&content)) {
    events_.Record(lane, events_.Find(record->event), kInGraph);
  } else if (const auto* wait = std::get_if<EventWaitParameters>(&content)) {
    const Event* const event = events_.Find(wait->event);
    if (!event->recorded)
      return;
    lanes_.Wait(lane, event->token, kInGraph);
    Merge(&lane->covers, event->covers);
  } else if (const auto* taken = std::get_if<AllocationParameters>(&content)) {
    allocations_.Begin(*taken);
  } else if (const auto* freed = std::get_if<FreeParameters>(&content)) {
    [[maybe_unused]] const bool known =
        allocations_.Free(reinterpret_cast<uint64_t>(freed->address));
  }
}

void GraphLauncher::Forget(GraphExec* exec) {
  if (exec->number == 0)
    return;
  protocol::Graph record{};
  record.record.kind = protocol::RecordKind::kGraphForget;
  record.graph = std::exchange(exec->number, 0);
  channel_->Emit(record);
}

}  // namespace vrank::gpu
