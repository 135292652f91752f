// CUDA graphs, as the CUDA libraries see them: a part of Gpu.
//
// An entry point checks its arguments, calls one method, and returns the Error by a
// cast. Handles that are none give kInvalidValue, as CUDA's graph functions do; a
// stream that is none gives kInvalidHandle.
//
// Host costs and errors of the process: as in gpu.h.
//
// Thread rule: every method may be called from any thread.

#ifndef VRANK_VIRTUAL_GPU_CORE_GRAPHS_H_
#define VRANK_VIRTUAL_GPU_CORE_GRAPHS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "virtual_gpu/core/error.h"
#include "virtual_gpu/core/graph_types.h"

namespace vrank::gpu {

class Graphs {
 public:
  using Dependencies = std::span<const GraphDependency>;

  // --- Stream capture --------------------------------------------------------------
  // `graph`: nullptr, or where the nodes go, after `after`.
  virtual Error BeginCapture(void* stream, CaptureMode mode, void* graph,
                             Dependencies after) = 0;
  virtual Error EndCapture(void* stream, void** graph) = 0;
  virtual Error GetCaptureInfo(void* stream, CaptureInfo* info) = 0;
  // What the stream's next node depends on: these, too, or (`replace`) just these.
  virtual Error UpdateCapture(void* stream, Dependencies after, bool replace) = 0;
  // Sets the calling thread's mode and returns what it was.
  virtual CaptureMode ExchangeCaptureMode(CaptureMode mode) = 0;

  // --- Graphs and nodes --------------------------------------------------------------
  virtual Error Create(void** graph) = 0;
  virtual Error Destroy(void* graph) = 0;
  virtual Error Clone(void* graph, void** clone) = 0;
  // Allocation nodes: the address is written into `parameters`.
  virtual Error AddNode(void* graph, Dependencies after,
                        GraphNodeParameters* parameters, void** node) = 0;
  virtual Error DestroyNode(void* node) = 0;
  virtual Error GetNodeType(void* node, GraphNodeType* type) = 0;
  virtual Error GetNodeParameters(void* node, GraphNodeParameters* parameters) = 0;
  virtual Error SetNodeParameters(void* node,
                                  const GraphNodeParameters& parameters) = 0;
  // Attributes of kernel nodes (cudaLaunchAttributeID); kept, and without effect.
  static constexpr size_t kAttributeBytes = 64;
  virtual Error GetKernelAttribute(void* node, int id, void* value) = 0;
  virtual Error SetKernelAttribute(void* node, int id, const void* value) = 0;
  virtual Error CopyKernelAttributes(void* to, void* from) = 0;
  virtual Error Connect(void* graph, std::span<const GraphEdge> edges) = 0;
  virtual Error Disconnect(void* graph, std::span<const GraphEdge> edges) = 0;
  virtual Error GetNodes(void* graph, std::vector<void*>* nodes) = 0;
  virtual Error GetRoots(void* graph, std::vector<void*>* nodes) = 0;
  virtual Error GetEdges(void* graph, std::vector<GraphEdge>* edges) = 0;
  // The nodes that it depends on, or (`dependents`) that depend on it.
  virtual Error GetNeighbours(void* node, bool dependents,
                              std::vector<GraphDependency>* neighbours) = 0;
  virtual Error FindInClone(void* original, void* clone, void** node) = 0;
  // A graph in Graphviz's language, into the file `path`.
  virtual Error PrintDot(void* graph, const char* path) = 0;

  // --- Executable graphs -------------------------------------------------------------
  virtual Error Instantiate(void* graph, Instantiation* how, void** exec) = 0;
  virtual Error DestroyExec(void* exec) = 0;
  virtual Error GetExecFlags(void* exec, uint64_t* flags) = 0;
  virtual Error Launch(void* exec, void* stream) = 0;
  virtual Error Upload(void* exec, void* stream) = 0;
  virtual Error Update(void* exec, void* graph, GraphUpdate* update) = 0;
  // `node`: of the graph that `exec` was instantiated from.
  virtual Error SetExecParameters(void* exec, void* node,
                                  const GraphNodeParameters& parameters) = 0;
  virtual Error SetNodeEnabled(void* exec, void* node, bool enabled) = 0;
  virtual Error GetNodeEnabled(void* exec, void* node, bool* enabled) = 0;

  // --- User objects ------------------------------------------------------------------
  virtual Error CreateUserObject(void* data, void (*destroy)(void*),
                                 unsigned references, void** object) = 0;
  virtual Error RetainUserObject(void* object, unsigned count) = 0;
  virtual Error ReleaseUserObject(void* object, unsigned count) = 0;
  // `move`: the caller's references become the graph's.
  virtual Error RetainForGraph(void* graph, void* object, unsigned count,
                               bool move) = 0;
  virtual Error ReleaseFromGraph(void* graph, void* object, unsigned count) = 0;

  // --- Memory of graphs --------------------------------------------------------------
  virtual Error TrimMemory(int device) = 0;
  virtual Error GetMemoryAttribute(int device, GraphMemoryAttribute attribute,
                                   uint64_t* value) = 0;
  // High-water marks can be reset, nothing else can be set.
  virtual Error ResetMemoryAttribute(int device, GraphMemoryAttribute attribute) = 0;

 protected:
  ~Graphs() = default;
};

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_GRAPHS_H_
