// What callers of the virtual GPU hand over and get back about CUDA graphs.
//
// Graphs, their nodes and executable graphs travel as the opaque handles that programs
// hold (cudaGraph_t, CUgraphNode, ...). Numbers are CUDA's own.
//
// Thread rule: plain values.

#ifndef VRANK_VIRTUAL_GPU_CORE_GRAPH_TYPES_H_
#define VRANK_VIRTUAL_GPU_CORE_GRAPH_TYPES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <variant>

#include "base/guest/virtual_gpu.h"
#include "virtual_gpu/core/gpu_types.h"

namespace vrank::gpu {

// cudaGraphNodeType, of the kinds that are modelled.
enum class GraphNodeType : int {
  kKernel = 0,
  kCopy = 1,
  kFill = 2,
  kHost = 3,
  kChild = 4,
  kEmpty = 5,
  kEventWait = 6,
  kEventRecord = 7,
  kAllocation = 10,
  kFree = 11,
};

// cudaGraphEdgeData: which part of the one node waits for which part of the other. All
// zero: the whole for the whole, the one kind that is modelled.
struct GraphEdgeData {
  uint8_t from_port = 0;
  uint8_t to_port = 0;
  uint8_t type = 0;
  uint8_t reserved[5] = {};
  friend bool operator==(const GraphEdgeData&, const GraphEdgeData&) = default;
};

struct GraphDependency {
  void* node = nullptr;
  GraphEdgeData data;
};

struct GraphEdge {
  void* from = nullptr;
  void* to = nullptr;
  GraphEdgeData data;
};

struct EmptyParameters {};
struct HostCallParameters {
  void (*function)(void*) = nullptr;
  void* argument = nullptr;
};
struct ChildGraphParameters {
  void* graph = nullptr;
};
struct EventRecordParameters {
  void* event = nullptr;
};
struct EventWaitParameters {
  void* event = nullptr;
};
struct AllocationParameters {
  int device = 0;
  uint64_t bytes = 0;
  void* address = nullptr;  // set when the node is made
};
struct FreeParameters {
  void* address = nullptr;
};
// Work of libnccl; programs see it as a kernel node.
using LibraryParameters = std::shared_ptr<CapturedWork>;

// Pointers in it belong to the caller; in what GetNodeParameters answers, to the node.
using GraphNodeParameters =
    std::variant<EmptyParameters, KernelLaunch, GemmLaunch, CopyRequest, FillRequest,
                 HostCallParameters, ChildGraphParameters, EventRecordParameters,
                 EventWaitParameters, AllocationParameters, FreeParameters,
                 LibraryParameters>;

enum class CaptureMode : int { kGlobal = 0, kThreadLocal = 1, kRelaxed = 2 };
enum class CaptureStatus : int { kNone = 0, kActive = 1, kInvalidated = 2 };

struct CaptureInfo {
  CaptureStatus status = CaptureStatus::kNone;
  uint64_t id = 0;
  void* graph = nullptr;
  // What the stream's next node would depend on; valid until the next call that
  // concerns the stream.
  void* const* nodes = nullptr;
  const GraphEdgeData* edges = nullptr;
  size_t count = 0;
};

// cudaGraphInstantiateResult.
enum class InstantiateResult : int {
  kSuccess = 0,
  kError = 1,
  kInvalidStructure = 2,
  kNodeOperationNotSupported = 3,
  kMultipleContextsNotSupported = 4,
};

inline constexpr unsigned kAutoFreeOnLaunch = 1;
inline constexpr unsigned kUploadAfterInstantiation = 2;
inline constexpr unsigned kDeviceLaunch = 4;
inline constexpr unsigned kUseNodePriority = 8;

struct Instantiation {
  uint64_t flags = 0;
  void* error_node = nullptr;
  InstantiateResult result = InstantiateResult::kError;
};

// cudaGraphExecUpdateResult.
enum class UpdateResult : int {
  kSuccess = 0,
  kError = 1,
  kTopologyChanged = 2,
  kNodeTypeChanged = 3,
  kFunctionChanged = 4,
  kParametersChanged = 5,
  kNotSupported = 6,
  kUnsupportedFunctionChange = 7,
  kAttributesChanged = 8,
};

struct GraphUpdate {
  UpdateResult result = UpdateResult::kError;
  void* error_node = nullptr;
  void* error_from = nullptr;
};

// cudaGraphMemAttributeType.
enum class GraphMemoryAttribute : int {
  kUsedCurrent = 0,
  kUsedHigh = 1,
  kReservedCurrent = 2,
  kReservedHigh = 3,
};

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_GRAPH_TYPES_H_
