// A CUDA graph: nodes, what they do, and who waits for whom.
//
// Nodes own copies of all that their parameters point to. They are kept in the order in
// which they were made; where a graph leaves the order of two nodes open, that order
// decides, so that equal programs issue equal records.
//
// Not thread-safe: the GPU's lock guards it.

#ifndef VRANK_VIRTUAL_GPU_CORE_GRAPH_H_
#define VRANK_VIRTUAL_GPU_CORE_GRAPH_H_

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "virtual_gpu/core/graph_types.h"
#include "virtual_gpu/core/graphs.h"
#include "virtual_gpu/core/kernel_effects.h"

namespace vrank::gpu {

class Graph;
struct GraphNode;

struct KernelContent {
  explicit KernelContent(const KernelLaunch& from);
  KernelContent(const KernelContent& other);
  KernelContent& operator=(const KernelContent& other);
  // Those of the other kernel's launch.
  void TakeAttributes(const KernelContent& other);

  // `packed` is this object's copy of the arguments.
  KernelLaunch launch;
  std::vector<unsigned char> arguments;
  std::vector<void*> pointers;  // to each parameter in `arguments`
  std::map<int, std::array<unsigned char, Graphs::kAttributeBytes>> attributes;

 private:
  void Rebind();
};

struct GemmContent {
  GemmLaunch launch;  // its outputs are these
  std::vector<WrittenBlock> outputs;
};

struct ChildContent {
  std::unique_ptr<Graph> graph;
};

using GraphNodeContent =
    std::variant<EmptyParameters, KernelContent, GemmContent, CopyRequest, FillRequest,
                 HostCallParameters, ChildContent, EventRecordParameters,
                 EventWaitParameters, AllocationParameters, FreeParameters,
                 LibraryParameters>;

struct GraphLink {
  GraphNode* node = nullptr;
  GraphEdgeData data;
};

struct GraphNode {
  Graph* graph = nullptr;
  uint64_t id = 0;        // of all nodes of the process, in the order they were made
  uint64_t original = 0;  // the node that this one was cloned from; 0: none
  void* handle = nullptr;
  GraphNodeContent content;
  std::vector<GraphLink> before;  // that it waits for
  std::vector<GraphLink> after;   // that wait for it
  bool enabled = true;
  KernelWrites writes;  // of an executable graph's kernels

  GraphNodeType type() const;
};

// References that a graph holds on user objects (cudaUserObject_t), by handle.
using UserReferences = std::map<void*, unsigned>;

class Graph {
 public:
  Graph() = default;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  GraphNode* Add(GraphNodeContent content);
  void Remove(GraphNode* node);
  // False where the edge is there already, or is not.
  static bool Connect(GraphNode* from, GraphNode* to, const GraphEdgeData& data);
  static bool Disconnect(GraphNode* from, GraphNode* to, const GraphEdgeData& data);

  // Nodes get new ids and no handles; child graphs are cloned as well.
  std::unique_ptr<Graph> Clone() const;
  // Each node behind those it waits for, otherwise as they were made. False where the
  // graph has a cycle.
  bool Order(std::vector<GraphNode*>* ordered) const;

  const std::vector<std::unique_ptr<GraphNode>>& nodes() const { return nodes_; }

  void* handle = nullptr;
  // The node whose child graph this is: the program may not destroy it.
  GraphNode* owner = nullptr;
  UserReferences user_objects;

 private:
  std::vector<std::unique_ptr<GraphNode>> nodes_;
};

// Whether it allocates or frees memory, in child graphs, too.
bool HasMemoryNodes(const Graph& graph);

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_GRAPH_H_
