// CUDA graphs of this process: the implementation of Graphs.
//
// It takes the lock, resolves handles and leaves captures, allocation nodes, executable
// graphs and their launches to parts of its own; building graphs and looking at them is
// done here.
//
// Thread rule: every method of Graphs may be called from any thread; it takes the GPU's
// lock. The others REQUIRE that it is held.

#ifndef VRANK_VIRTUAL_GPU_CORE_PROCESS_GRAPHS_H_
#define VRANK_VIRTUAL_GPU_CORE_PROCESS_GRAPHS_H_

#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "base/guest/channel.h"
#include "virtual_gpu/core/activity_notes.h"
#include "virtual_gpu/core/activity_recorder.h"
#include "virtual_gpu/core/capture.h"
#include "virtual_gpu/core/contents.h"
#include "virtual_gpu/core/contexts.h"
#include "virtual_gpu/core/copy_engine.h"
#include "virtual_gpu/core/devices.h"
#include "virtual_gpu/core/events.h"
#include "virtual_gpu/core/graph_allocations.h"
#include "virtual_gpu/core/graph_capture.h"
#include "virtual_gpu/core/graph_execs.h"
#include "virtual_gpu/core/graph_launcher.h"
#include "virtual_gpu/core/graph_notes.h"
#include "virtual_gpu/core/graph_table.h"
#include "virtual_gpu/core/graphs.h"
#include "virtual_gpu/core/kernel_effects.h"
#include "virtual_gpu/core/kernel_names.h"
#include "virtual_gpu/core/launch_records.h"
#include "virtual_gpu/core/library_memory.h"
#include "virtual_gpu/core/memory_accounting.h"
#include "virtual_gpu/core/node_contents.h"
#include "virtual_gpu/core/obligations.h"
#include "virtual_gpu/core/stream_lanes.h"
#include "virtual_gpu/core/streams.h"
#include "virtual_gpu/core/user_objects.h"

namespace vrank::gpu {

class ProcessGraphs final : public Graphs {
 public:
  // What graphs use of the GPU.
  struct Parts {
    Channel* channel;
    std::recursive_mutex& lock;
    Devices& devices;
    Contexts& contexts;
    Streams& streams;
    Captures& captures;
    StreamLanes& lanes;
    Contents& contents;
    Events& events;
    Obligations& obligations;
    KernelNames& kernels;
    KernelEffects& effects;
    LaunchRecords& launches;
    CopyEngine& copies;
    LibraryMemory& libraries;
    MemoryAccounting& accounting;
    ActivityRecorder& recorder;
    ActivityNotes& notes;
  };
  explicit ProcessGraphs(const Parts& gpu);

  // Calls of the program that a captured stream gets.
  GraphCapture& capture() { return capture_; }
  // What an allocation node's address holds is free. False where the address is none.
  bool FreeMemory(uint64_t address) { return allocations_.Free(address); }
  // A device's context ends, and the lanes of executable graphs with it.
  void ForgetDevice(int device) { execs_.ForgetDevice(device); }

  // --- Graphs (graphs.h)
  // -------------------------------------------------------------
  Error BeginCapture(void* stream, CaptureMode mode, void* graph,
                     Dependencies after) override;
  Error EndCapture(void* stream, void** graph) override;
  Error GetCaptureInfo(void* stream, CaptureInfo* info) override;
  Error UpdateCapture(void* stream, Dependencies after, bool replace) override;
  CaptureMode ExchangeCaptureMode(CaptureMode mode) override;
  Error Create(void** graph) override;
  Error Destroy(void* graph) override;
  Error Clone(void* graph, void** clone) override;
  Error AddNode(void* graph, Dependencies after, GraphNodeParameters* parameters,
                void** node) override;
  Error DestroyNode(void* node) override;
  Error GetNodeType(void* node, GraphNodeType* type) override;
  Error GetNodeParameters(void* node, GraphNodeParameters* parameters) override;
  Error SetNodeParameters(void* node, const GraphNodeParameters& parameters) override;
  Error GetKernelAttribute(void* node, int id, void* value) override;
  Error SetKernelAttribute(void* node, int id, const void* value) override;
  Error CopyKernelAttributes(void* to, void* from) override;
  Error Connect(void* graph, std::span<const GraphEdge> edges) override;
  Error Disconnect(void* graph, std::span<const GraphEdge> edges) override;
  Error GetNodes(void* graph, std::vector<void*>* nodes) override;
  Error GetRoots(void* graph, std::vector<void*>* nodes) override;
  Error GetEdges(void* graph, std::vector<GraphEdge>* edges) override;
  Error GetNeighbours(void* node, bool dependents,
                      std::vector<GraphDependency>* neighbours) override;
  Error FindInClone(void* original, void* clone, void** node) override;
  Error PrintDot(void* graph, const char* path) override;
  Error Instantiate(void* graph, Instantiation* how, void** exec) override;
  Error DestroyExec(void* exec) override;
  Error GetExecFlags(void* exec, uint64_t* flags) override;
  Error Launch(void* exec, void* stream) override;
  Error Upload(void* exec, void* stream) override;
  Error Update(void* exec, void* graph, GraphUpdate* update) override;
  Error SetExecParameters(void* exec, void* node,
                          const GraphNodeParameters& parameters) override;
  Error SetNodeEnabled(void* exec, void* node, bool enabled) override;
  Error GetNodeEnabled(void* exec, void* node, bool* enabled) override;
  Error CreateUserObject(void* data, void (*destroy)(void*), unsigned references,
                         void** object) override;
  Error RetainUserObject(void* object, unsigned count) override;
  Error ReleaseUserObject(void* object, unsigned count) override;
  Error RetainForGraph(void* graph, void* object, unsigned count, bool move) override;
  Error ReleaseFromGraph(void* graph, void* object, unsigned count) override;
  Error TrimMemory(int device) override;
  Error GetMemoryAttribute(int device, GraphMemoryAttribute attribute,
                           uint64_t* value) override;
  Error ResetMemoryAttribute(int device, GraphMemoryAttribute attribute) override;

 private:
  Channel* const channel_;
  std::recursive_mutex& mutex_;
  Devices& devices_;
  Contexts& contexts_;
  Streams& streams_;
  Captures& captures_;
  GraphAllocations allocations_;
  UserObjects user_objects_;
  GraphTable table_;
  GraphNotes notes_;
  NodeContents node_contents_;
  GraphCapture capture_;
  GraphLauncher launcher_;
  GraphExecs execs_;
};

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_PROCESS_GRAPHS_H_
