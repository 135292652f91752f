// CUDA graphs of this process: captures, graphs, executable graphs, launches.
//
// A launch is written as if the program had issued the graph's nodes one by one: work
// on lanes, and tokens between them (graph_plan.h). What it does to memory happens at
// each launch. The records are the same each time, so the first launch teaches them to
// the emulator and later ones name them (protocol::GraphLaunch), where nothing in them
// is new each time: host functions need an answer, events a number.
//
// Locks: the GPU's lock guards all of it; methods for ProcessGpu REQUIRE that it is
// held.
//
// Thread rule: every method of Graphs may be called from any thread.

#ifndef VRANK_VIRTUAL_GPU_CORE_PROCESS_GRAPHS_H_
#define VRANK_VIRTUAL_GPU_CORE_PROCESS_GRAPHS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "virtual_gpu/core/activity.h"
#include "virtual_gpu/core/capture.h"
#include "virtual_gpu/core/graph.h"
#include "virtual_gpu/core/graph_exec.h"
#include "virtual_gpu/core/graph_memory.h"
#include "virtual_gpu/core/graphs.h"
#include "virtual_gpu/core/handle_table.h"
#include "virtual_gpu/core/stream.h"

namespace vrank::gpu {

class ProcessGpu;

class ProcessGraphs final : public Graphs {
 public:
  explicit ProcessGraphs(ProcessGpu* gpu) : gpu_(*gpu) {}
  ~ProcessGraphs();

  // --- Graphs (graphs.h) -------------------------------------------------------------
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

  // --- For ProcessGpu: calls during captures ----------------------------------------
  bool capturing() const { return !captures_.empty(); }
  Error CheckUse(const Stream& stream) { return captures_.CheckUse(stream); }
  Error CheckSafe() {
    return captures_.empty() ? Error::kSuccess : captures_.CheckSafe();
  }
  // A copy or memset; a wait or query of a stream, a device, an event.
  Error CheckCopy(Stream* stream, bool asynchronous);
  Error CheckWait(Stream* stream);
  Error CheckDeviceWait(int device);
  Error CheckQuestion(const Event& event);
  // Adds what the stream was asked to do to the graph.
  Error Capture(Stream* stream, GraphNodeContent content);
  Error CaptureGemm(Stream* stream, const GemmLaunch& launch);
  Error CaptureWait(Stream* stream, const Event& event, void* handle, bool external);
  Error CaptureRecord(Stream* stream, Event* event, void* handle, bool external);
  Error CaptureAllocation(Stream* stream, uint64_t bytes, void** address);
  Error CaptureFree(Stream* stream, void* address);
  void CaptureJoin(Stream* waiting, Stream* before);
  void ForgetStream(Stream* stream);

  // A device's context ends, and its lanes with it.
  void ForgetDevice(int device);
  // What an allocation node's address holds is free. False where the address is none.
  bool FreeGraphMemory(uint64_t address);

  // The executable graph and the node of it that are being issued; 0: none. For notes
  // to a profiler.
  uint32_t launched_exec() const { return launched_exec_; }
  uint64_t launched_node() const { return launched_node_; }

 private:
  struct NodeRef {
    GraphNode* node;
  };
  // `owned`: of the program; a child graph belongs to its node.
  struct OwnedGraph {
    std::unique_ptr<Graph> owned;
    Graph* graph;
  };
  struct UserObject {
    void* data = nullptr;
    void (*destroy)(void*) = nullptr;
    uint64_t references = 0;
  };

  // --- process_graphs_nodes.cc
  Graph* FindGraph(void* handle) const;
  GraphNode* FindNode(const void* handle) const;
  void* HandleOf(GraphNode* node);
  void* HandleOf(Graph* graph);
  // Takes back the handles of a node, or of a graph and its nodes, that will be gone.
  void Disown(GraphNode* node);
  void Disown(Graph* graph);
  void DropGraph(void* handle);
  Error CheckDependencies(Graph* graph, Dependencies after) const;
  static bool IsWholeEdge(const GraphEdgeData& data) { return data == GraphEdgeData(); }

  // --- process_graphs_parameters.cc
  Error ContentFrom(const GraphNodeParameters& parameters, GraphNodeContent* content);
  GraphNodeParameters ParametersOf(GraphNode* node);

  // --- process_graphs_exec.cc
  GraphExec* FindExec(void* handle) const { return execs_.Find(handle); }
  // The copy of the node that `exec` was made with; nullptr where there is none.
  static GraphNode* FindInExec(const GraphExec& exec, const GraphNode& original);
  // On failure, `wrong` is the node whose launch a GPU refuses.
  Error CheckKernels(const Graph& graph, GraphNode** wrong);
  // After a change of what its nodes do.
  void Prepare(GraphExec* exec);
  void PrepareNode(GraphExec* exec, GraphNode* node);
  // The emulator need not remember its body any longer.
  void Forget(GraphExec* exec);
  UpdateResult Compare(const Graph& old_graph, const Graph& new_graph,
                       GraphNode** error_node);
  void TakeOver(Graph* to, const Graph& from);

  // --- process_graphs_launch.cc
  Error CheckLaunch(const GraphExec& exec);
  void TakeLanes(GraphExec* exec, int device);
  void DropLanes(GraphExec* exec);
  void IssueOrRepeat(GraphExec* exec, Stream* on);
  // `repeats`: the emulator remembers the records, so none is written but `record`.
  void WalkSteps(GraphExec* exec, Stream* on, bool repeats,
                 const protocol::GraphLaunch& record);
  void Step(GraphNode* node, Stream* lane, bool repeats);
  void StepCopy(const CopyRequest& request, Stream* lane, bool repeats);
  // Nodes of bodies that are not remembered, and those without a record.
  void StepOther(const GraphNodeContent& content, Stream* lane);

  // --- process_graphs_activity.cc; nothing where nobody listens
  void TellNode(ActivityGraph::What what, GraphNode* node, GraphExec* exec = nullptr,
                const GraphNode* original = nullptr);
  void TellEdge(ActivityGraph::What what, GraphNode* from, GraphNode* to);
  // A node that has been made, with its edges.
  void TellMade(GraphNode* node);
  void TellExec(ActivityGraph::What what, const GraphExec& exec);
  void TellCloned(const Graph& from, const Graph& clone);
  void TellInstantiated(const Graph& from, GraphExec* exec);

  // --- process_graphs_objects.cc
  void Retain(const UserReferences& references);
  void Release(const UserReferences& references);
  void ReleaseOne(void* object, unsigned count);

  // --- process_graphs_memory.cc
  static bool HasMemoryNodes(const Graph& graph);
  GraphMemory::Block* FindBlock(uint64_t address, int* device);
  Error TakeAddress(AllocationParameters* parameters);
  // Gives the address back if nothing can use it any more.
  void DropBlock(uint64_t address);
  // So many graphs more hold the allocation nodes.
  void CountMemory(const Graph& graph, int change);
  Error CheckFreed(const void* address);
  Error TakeMemory(const GraphExec& exec);
  void BeginMemory(const AllocationParameters& taken);

  ProcessGpu& gpu_;
  Captures captures_;
  HandleTable<OwnedGraph, 0x60> graphs_;
  HandleTable<NodeRef, 0x61> nodes_;
  HandleTable<GraphExec, 0x62> execs_;
  HandleTable<UserObject, 0x63> user_objects_;
  std::map<int, GraphMemory> memory_;  // by device
  uint32_t next_graph_ = 1;            // number for the emulator
  uint32_t execs_made_ = 0;
  uint32_t launched_exec_ = 0;
  uint64_t launched_node_ = 0;
};

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_PROCESS_GRAPHS_H_
