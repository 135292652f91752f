// Launches: what a graph's nodes become on lanes, and what they do to memory.

#include <utility>

#include "virtual_gpu/core/process_gpu.h"
#include "virtual_gpu/core/process_graphs.h"
#include "virtual_gpu/core/thread_state.h"

namespace vrank::gpu {

using protocol::kInGraph;

Error ProcessGraphs::Launch(void* handle, void* stream) {
  ProcessGpu::Lock lock(gpu_.mutex_);
  Stream* on = nullptr;
  VRANK_RETURN_IF_FAILED(gpu_.BeginOn(stream, &on));
  GraphExec* const exec = FindExec(handle);
  if (exec == nullptr)
    return Error::kInvalidValue;
  if (on->capture != nullptr)
    return HasMemoryNodes(*exec->graph)
               ? Error::kNotSupported
               : Capture(on, ChildContent{exec->graph->Clone()});
  gpu_.channel_->Spend(HostCost::kGraphLaunch);
  gpu_.channel_->Spend(HostCost::kGraphLaunchNode, exec->plan.nodes);
  VRANK_RETURN_IF_FAILED(CheckLaunch(*exec));
  VRANK_RETURN_IF_FAILED(TakeMemory(*exec));
  TakeLanes(exec, on->device);
  gpu_.lanes_.Before(on);
  // "Each launch is ordered behind both any previous work in stream and any previous
  // launches of graphExec."
  if (exec->last_stream != 0 && exec->last_stream != on->id)
    gpu_.lanes_.Wait(on, exec->tokens[exec->plan.done]);
  exec->last_stream = on->id;
  launched_exec_ = exec->id;
  IssueOrRepeat(exec, on);
  launched_exec_ = 0;
  gpu_.lanes_.After(on);
  return Error::kSuccess;
}

Error ProcessGraphs::Upload(void* handle, void* stream) {
  ProcessGpu::Lock lock(gpu_.mutex_);
  Stream* on = nullptr;
  VRANK_RETURN_IF_FAILED(gpu_.BeginOn(stream, &on));
  GraphExec* const exec = FindExec(handle);
  if (exec == nullptr)
    return Error::kInvalidValue;
  if (on->capture != nullptr)
    return Captures::Refuse(on->capture, Error::kStreamCaptureUnsupported);
  gpu_.channel_->Spend(HostCost::kGraphInstantiate);
  return Error::kSuccess;
}

Error ProcessGraphs::CheckLaunch(const GraphExec& exec) {
  ProcessGpu::Sides sides{};
  for (const GraphStep& step : exec.plan.steps) {
    if (step.node == nullptr || !step.node->enabled)
      continue;
    const GraphNodeContent& content = step.node->content;
    if (const auto* copy = std::get_if<CopyRequest>(&content))
      VRANK_RETURN_IF_FAILED(gpu_.FindSides(*copy, &sides));
    if (const auto* fill = std::get_if<FillRequest>(&content))
      VRANK_RETURN_IF_FAILED(gpu_.CheckFill(*fill));
    const auto* record = std::get_if<EventRecordParameters>(&content);
    const auto* wait = std::get_if<EventWaitParameters>(&content);
    if ((record != nullptr && gpu_.events_.Find(record->event) == nullptr) ||
        (wait != nullptr && gpu_.events_.Find(wait->event) == nullptr))
      return Error::kInvalidValue;
  }
  return Error::kSuccess;
}

void ProcessGraphs::TakeLanes(GraphExec* exec, int device) {
  if (exec->device == device)
    return;
  DropLanes(exec);
  exec->device = device;
  exec->lanes.push_back(nullptr);
  for (uint32_t lane = 1; lane < exec->plan.lanes; ++lane)
    exec->lanes.push_back(gpu_.lanes_.CreateInternal(device));
  for (uint32_t token = 0; token < exec->plan.tokens; ++token)
    exec->tokens.push_back(gpu_.lanes_.TakeInternalToken());
  exec->covers.resize(exec->plan.tokens);
}

void ProcessGraphs::DropLanes(GraphExec* exec) {
  Forget(exec);
  for (Stream* lane : exec->lanes)
    if (lane != nullptr)
      gpu_.lanes_.DestroyInternal(lane);
  for (const Token& token : exec->tokens)
    gpu_.lanes_.GiveBackInternalToken(token);
  exec->lanes.clear();
  exec->tokens.clear();
  exec->device = -1;
  exec->last_stream = 0;
}

void ProcessGraphs::ForgetDevice(int device) {
  execs_.ForEach([&](void*, GraphExec& exec) {
    if (exec.device == device)
      DropLanes(&exec);
  });
}

void ProcessGraphs::IssueOrRepeat(GraphExec* exec, Stream* on) {
  if (gpu_.obligations_.empty())
    on->covers.clear();
  for (Stream* lane : exec->lanes)
    if (lane != nullptr)
      lane->covers.clear();
  const bool listening = gpu_.activity_.listening();
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
    record.graph = exec->number = next_graph_++;
  WalkSteps(exec, on, /*repeats=*/false, record);
  if (record.graph == 0)
    return;
  protocol::Graph end{};
  end.record.kind = protocol::RecordKind::kGraphEnd;
  end.graph = record.graph;
  gpu_.channel_->Emit(end);
}

// A body that the emulator remembers is announced last: payloads precede the operation
// that they belong to.
void ProcessGraphs::WalkSteps(GraphExec* exec, Stream* on, bool repeats,
                              const protocol::GraphLaunch& record) {
  const bool tracks = exec->has_obligations || !on->covers.empty();
  if (!repeats)
    gpu_.channel_->Emit(record);
  for (const GraphStep& step : exec->plan.steps) {
    Stream* const lane = step.lane == 0 ? on : exec->lanes[step.lane];
    switch (step.kind) {
      case GraphStep::Kind::kNode:
        if (step.node->enabled) {
          launched_node_ = step.node->id;
          Step(step.node, lane, repeats);
          launched_node_ = 0;
        }
        break;
      case GraphStep::Kind::kRecord:
        if (!repeats)
          gpu_.lanes_.Record(lane, &exec->tokens[step.token], kInGraph);
        if (tracks)
          exec->covers[step.token] = lane->covers;
        break;
      case GraphStep::Kind::kWait:
        if (!repeats)
          gpu_.lanes_.Wait(lane, exec->tokens[step.token], kInGraph);
        if (tracks)
          Merge(&lane->covers, exec->covers[step.token]);
        break;
    }
  }
  // A launch that has faulted does not get through.
  if (repeats && !gpu_.faulted_.load(std::memory_order_acquire))
    gpu_.channel_->Emit(record);
}

void ProcessGraphs::Step(GraphNode* node, Stream* lane, bool repeats) {
  GraphNodeContent& content = node->content;
  if (const auto* kernel = std::get_if<KernelContent>(&content)) {
    if (!repeats)
      gpu_.EmitKernel(*lane, kernel->launch, kInGraph);
    const char* const writer = kernel->launch.kernel->name.c_str();
    for (const uint64_t address : node->writes.addresses)
      gpu_.contents_.WriteFrom(address, writer);
    if (node->writes.blind)
      gpu_.MarkBlindWrite(*kernel->launch.kernel);
  } else if (const auto* gemm = std::get_if<GemmContent>(&content)) {
    if (!repeats)
      gpu_.EmitGemm(*lane, gemm->launch, kInGraph);
    gpu_.MarkOutputs(gemm->launch);
  } else if (const auto* copy = std::get_if<CopyRequest>(&content)) {
    StepCopy(*copy, lane, repeats);
  } else if (const auto* fill = std::get_if<FillRequest>(&content)) {
    if (!repeats)
      gpu_.EmitFill(*lane, *fill, kInGraph);
    gpu_.MarkFill(*fill);
  } else if (auto* library = std::get_if<LibraryParameters>(&content)) {
    if (repeats) {
      gpu_.working_ = lane;
      (*library)->Repeat();
      gpu_.working_ = nullptr;
    } else {
      (*library)->Launch({lane->device, lane->lane}, kInGraph);
    }
  } else {
    StepOther(content, lane);
  }
}

void ProcessGraphs::StepCopy(const CopyRequest& request, Stream* lane, bool repeats) {
  ProcessGpu::Sides sides{};
  if (gpu_.FindSides(request, &sides) != Error::kSuccess)
    return;  // CheckLaunch has found them
  if (!repeats)
    gpu_.EmitCopy(*lane, request, sides, kInGraph);
  std::vector<Landing> landings;
  gpu_.Move(request, sides, &landings);
  for (const Landing& landing : landings)
    Merge(&lane->covers, {gpu_.obligations_.AddLanding(landing)});
}

void ProcessGraphs::StepOther(const GraphNodeContent& content, Stream* lane) {
  if (const auto* host = std::get_if<HostCallParameters>(&content)) {
    gpu_.EmitHostFunction(lane, *host, kInGraph);
  } else if (const auto* record = std::get_if<EventRecordParameters>(&content)) {
    gpu_.EmitRecord(lane, gpu_.events_.Find(record->event), kInGraph);
  } else if (const auto* wait = std::get_if<EventWaitParameters>(&content)) {
    const Event* const event = gpu_.events_.Find(wait->event);
    if (!event->recorded)
      return;
    gpu_.lanes_.Wait(lane, event->token, kInGraph);
    Merge(&lane->covers, event->covers);
  } else if (const auto* taken = std::get_if<AllocationParameters>(&content)) {
    BeginMemory(*taken);
  } else if (const auto* freed = std::get_if<FreeParameters>(&content)) {
    [[maybe_unused]] const bool known =
        FreeGraphMemory(reinterpret_cast<uint64_t>(freed->address));
  }
}

}  // namespace vrank::gpu
