// Profiler as the virtual GPU's listener: reports become records, calls become
// callbacks.

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iterator>

#include "virtual_gpu/api/cupti/profiler.h"
#include "virtual_gpu/api/cupti/records.h"

namespace vrank::cupti {
namespace {

uint32_t ProcessId() {
  return static_cast<uint32_t>(getpid());
}

// The calling thread has begun to listen and is being told what exists.
thread_local bool introducing = false;

uint32_t CbidOf(gpu::ActivityGraph::What what) {
  using What = gpu::ActivityGraph::What;
  switch (what) {
    case What::kNodeCreated:
      return CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED;
    case What::kNodeDestroyed:
      return CUPTI_CBID_RESOURCE_GRAPHNODE_DESTROY_STARTING;
    case What::kEdgeCreated:
      return CUPTI_CBID_RESOURCE_GRAPHNODE_DEPENDENCY_CREATED;
    case What::kEdgeDestroyed:
      return CUPTI_CBID_RESOURCE_GRAPHNODE_DEPENDENCY_DESTROY_STARTING;
    case What::kExecStarting:
      return CUPTI_CBID_RESOURCE_GRAPHEXEC_CREATE_STARTING;
    case What::kNodeCloned:
      return CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED;
    case What::kExecCreated:
      return CUPTI_CBID_RESOURCE_GRAPHEXEC_CREATED;
    case What::kExecDestroyed:
      return CUPTI_CBID_RESOURCE_GRAPHEXEC_DESTROY_STARTING;
    case What::kNodeUpdated:
      return CUPTI_CBID_RESOURCE_GRAPH_NODE_UPDATED;
    case What::kNodeSet:
      return CUPTI_CBID_RESOURCE_GRAPH_NODE_SET_PARAMS;
  }
  return 0;
}

bool IsOneOf(const char* function, std::initializer_list<const char*> names) {
  return std::any_of(names.begin(), names.end(), [function](const char* name) {
    return std::strcmp(function, name) == 0;
  });
}

}  // namespace

void Profiler::OnCall(const gpu::ActivityCall& call) {
  registry_.TieThread(call.thread, call.correlation);
  const uint32_t cbid = FindCbid(call.is_driver, call.function);
  if (!selection_.SelectsFunction(call.is_driver, cbid, call.correlation))
    return;
  const Caller caller{ProcessId(), registry_.ThreadId(call.thread)};
  Report(ApiRecord(call, cbid, caller, shift()));
}

void Profiler::OnWork(const gpu::ActivityWork& work) {
  auto selected = [&](CUpti_ActivityKind kind) {
    return selection_.SelectsFor(work.context, kind, work.correlation);
  };
  switch (work.kind) {
    case gpu::ActivityWorkKind::kKernel:
    case gpu::ActivityWorkKind::kCollective:
      ReportKernel(work);
      break;
    case gpu::ActivityWorkKind::kCopy:
      if (work.copy_kind == protocol::CopyKind::kPeer) {
        if (selected(CUPTI_ACTIVITY_KIND_MEMCPY2))
          Report(PeerCopyRecord(work, shift()));
      } else if (selected(CUPTI_ACTIVITY_KIND_MEMCPY)) {
        Report(CopyRecord(work, shift()));
      }
      break;
    case gpu::ActivityWorkKind::kMemset:
      if (selected(CUPTI_ACTIVITY_KIND_MEMSET))
        Report(MemsetRecord(work, shift()));
      break;
    case gpu::ActivityWorkKind::kHostFunc:
      break;  // CUPTI has a record for these from CUDA 13.1 on
  }
}

void Profiler::ReportKernel(const gpu::ActivityWork& work) {
  for (CUpti_ActivityKind kind :
       {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_KERNEL}) {
    if (selection_.SelectsFor(work.context, kind, work.correlation)) {
      Report(KernelRecord(work, kind, shift()));
      return;
    }
  }
}

void Profiler::OnSync(const gpu::ActivitySync& sync) {
  if (selection_.SelectsFor(sync.context, CUPTI_ACTIVITY_KIND_SYNCHRONIZATION,
                            sync.correlation))
    Report(SyncRecord(sync, shift()));
}

void Profiler::OnEventRecord(const gpu::ActivityEventRecord& record) {
  if (selection_.SelectsFor(record.context, CUPTI_ACTIVITY_KIND_CUDA_EVENT,
                            record.correlation))
    Report(EventRecord(record, registry_.DeviceOf(record.context), event_times_.load(),
                       shift()));
}

void Profiler::OnStream(const gpu::ActivityStream& stream) {
  // No call: it existed when listening began.
  if (!stream.destroyed && stream.correlation != 0 &&
      selection_.SelectsFor(stream.context, CUPTI_ACTIVITY_KIND_STREAM,
                            stream.correlation))
    Report(StreamRecord(stream));
}

void Profiler::OnMemory(const gpu::ActivityMemory& memory) {
  PoolSize& pool = pools_[memory.device];
  if (memory.is_async) {
    pool.held += static_cast<uint64_t>(memory.device_delta_bytes);
    pool.used += memory.release ? 0 - memory.bytes : memory.bytes;
  }
  // What a context itself takes is no allocation, and CUPTI does not show it.
  if ((memory.owner != protocol::MemoryOwner::kContext || memory.address != 0) &&
      selection_.SelectsFor(memory.context, CUPTI_ACTIVITY_KIND_MEMORY2,
                            memory.correlation))
    Report(MemoryRecord(memory, pool, ProcessId(), shift()));
}

void Profiler::OnQueueFull(const gpu::ActivityQueueFull& wait) {
  if (selection_.Selects(CUPTI_ACTIVITY_KIND_OVERHEAD, wait.correlation))
    Report(OverheadRecord(wait, ProcessId(), shift()));
}

void Profiler::OnRange(const gpu::ActivityRange& range) {
  if (!selection_.SelectsAt(CUPTI_ACTIVITY_KIND_MARKER, range.time_ns))
    return;
  const Caller caller{ProcessId(), registry_.ThreadId(range.thread)};
  Report(MarkerRecord(range, registry_.Keep(range.name), caller, shift()));
}

void Profiler::OnExternalId(const gpu::ActivityExternalId& id) {
  if (selection_.Selects(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, id.correlation))
    Report(ExternalRecord(id));
}

void Profiler::OnEnter(bool is_driver, const char* function, uint32_t correlation,
                       const void* parameters, const char* symbol) {
  uint32_t last = last_call_.load(std::memory_order_relaxed);
  while (last < correlation && !last_call_.compare_exchange_weak(last, correlation)) {
  }
  registry_.NoteThread(correlation);
  if (!subscribers_.Active())
    return;
  ApiCallback call{is_driver, function, correlation, parameters, symbol, nullptr, 0};
  CurrentContext(&call.context, &call.context_id);
  subscribers_.Enter(call);
}

void Profiler::OnExit(bool is_driver, const char* function, uint32_t correlation,
                      const void* parameters, const char* symbol, int32_t result) {
  if (!subscribers_.Active())
    return;
  if (is_driver && result == 0 && std::strcmp(function, "cuInit") == 0) {
    const CUpti_ResourceData data{};
    subscribers_.Tell(CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_CU_INIT_FINISHED,
                      &data);
  }
  if (result == 0)
    TellSynchronized(function);
  ApiCallback call{is_driver, function, correlation, parameters, symbol, nullptr, 0};
  CurrentContext(&call.context, &call.context_id);
  subscribers_.Exit(call, result);
}

void Profiler::TellSynchronized(const char* function) {
  if (!IsOneOf(function, {"cudaDeviceSynchronize", "cuCtxSynchronize"}))
    return;
  CUpti_SynchronizeData data{};
  uint32_t id;
  CurrentContext(&data.context, &id);
  subscribers_.Tell(CUPTI_CB_DOMAIN_SYNCHRONIZE,
                    CUPTI_CBID_SYNCHRONIZE_CONTEXT_SYNCHRONIZED, &data);
}

// The virtual GPU may hold its lock here: it must not be asked anything.
void Profiler::OnStreamNow(const gpu::ActivityStream& stream, void* handle) {
  if (!stream.destroyed)
    registry_.AddStream(stream, handle);
  if (!introducing) {
    CUpti_ResourceData data{};
    data.context = registry_.HandleOf(stream.context);
    data.resourceHandle.stream = static_cast<CUstream>(handle);
    subscribers_.Tell(CUPTI_CB_DOMAIN_RESOURCE,
                      stream.destroyed ? CUPTI_CBID_RESOURCE_STREAM_DESTROY_STARTING
                                       : CUPTI_CBID_RESOURCE_STREAM_CREATED,
                      &data);
  }
  if (stream.destroyed)
    registry_.RemoveStream(handle);
}

void Profiler::OnContextNow(uint32_t context, void* handle, bool created) {
  if (created)
    registry_.AddContext(context, handle);
  if (!introducing) {
    const Selection selected = Selected();
    if (created && selected.Has(CUPTI_ACTIVITY_KIND_DEVICE) &&
        !devices_told_.exchange(true))
      DumpDevices();
    if (created && selected.Has(CUPTI_ACTIVITY_KIND_CONTEXT)) {
      const auto record =
          ContextRecord(context, DeviceOfContext(handle), settings().gpu);
      buffers_.Add(&record, sizeof record);
    }
    CUpti_ResourceData data{};
    data.context = static_cast<CUcontext>(handle);
    subscribers_.Tell(CUPTI_CB_DOMAIN_RESOURCE,
                      created ? CUPTI_CBID_RESOURCE_CONTEXT_CREATED
                              : CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING,
                      &data);
  }
  if (!created)
    registry_.RemoveContext(handle);
}

// As OnStreamNow. CUPTI's page says "the dependent graph node" of CUpti_GraphData's
// `dependency`: the one that waits for `node`.
void Profiler::OnGraphNow(const gpu::ActivityGraph& graph) {
  using What = gpu::ActivityGraph::What;
  if (graph.node != nullptr && graph.what != What::kNodeDestroyed)
    registry_.AddNode(graph.node, graph.node_id);
  if (graph.exec != nullptr && graph.what != What::kExecDestroyed)
    registry_.AddExec(graph.exec, graph.exec_id);
  CUpti_GraphData told{};
  told.node = static_cast<CUgraphNode>(graph.node);
  told.originalNode = static_cast<CUgraphNode>(graph.original_node);
  told.nodeType = static_cast<CUgraphNodeType>(graph.node_type);
  told.dependency = static_cast<CUgraphNode>(graph.dependency);
  // "About to be created": there is no handle yet.
  if (graph.what != What::kExecStarting)
    told.graphExec = static_cast<CUgraphExec>(graph.exec);
  CUpti_ResourceData data{};
  data.resourceDescriptor = &told;
  subscribers_.Tell(CUPTI_CB_DOMAIN_RESOURCE, CbidOf(graph.what), &data);
  if (graph.what == What::kNodeDestroyed)
    registry_.RemoveNode(graph.node);
  if (graph.what == What::kExecDestroyed)
    registry_.RemoveExec(graph.exec);
}

// Beginning to listen, the virtual GPU tells of what exists already. A client that
// attaches late gets no records and callbacks of that (cuptiActivityEnableAndDump is
// for those).
void Profiler::Listen(bool on) {
  introducing = true;
  activity_->SetListener(on ? this : nullptr);
  introducing = false;
}

}  // namespace vrank::cupti
