// What the virtual GPU tells a profiler: the program's calls and the work they caused,
// with times.
//
// A guest keeps no time, so a call's times are not known when it is made. Each is noted
// as a *mark* (so many nanoseconds of host time after record number n) and reported
// once the emulator has published when record n passed the host, and when its work
// ended. Reports arrive on one thread of the virtual GPU's own, in the order of the
// program's calls for everything that the host does, and in the order of each lane for
// work; asking nobody, they change no time.
//
// libcupti is the one listener. Nothing is noted while there is none.
//
// Thread rule: SetListener and Flush from any thread; the listener is called from one
// thread at a time, the activity thread or one that flushes (never from a thread that
// holds the GPU's lock).

#ifndef VRANK_VIRTUAL_GPU_CORE_ACTIVITY_H_
#define VRANK_VIRTUAL_GPU_CORE_ACTIVITY_H_

#include <cstdint>
#include <string_view>

#include "base/guest/protocol.h"

namespace vrank::gpu {

// Times are virtual nanoseconds on the host clock of the rank (what
// clock_gettime(CLOCK_MONOTONIC) would have shown, less its start).

// One call of the CUDA runtime or driver, the outermost of nested ones. A launch by
// libnccl or libcublas is a driver call (cuLaunchKernelEx), as on a real GPU.
struct ActivityCall {
  bool is_driver = false;
  // As exported, "cudaLaunchKernel_ptsz": CUPTI's name without the version.
  const char* function = "";
  uint32_t correlation = 0;  // 1, 2, 3, ... per process, in the order of the calls
  uint32_t thread = 0;       // 0, 1, 2, ... in the order of their first call
  int64_t start_ns = 0, end_ns = 0;
  int32_t result = 0;  // cudaError_t or CUresult
};

enum class ActivityWorkKind : uint8_t {
  kKernel,  // also GEMMs
  kCopy,
  kMemset,
  kCollective,  // a collective, or a fused group of sends and receives
  kHostFunc,
};

struct ActivityWork {
  ActivityWorkKind kind = ActivityWorkKind::kKernel;
  uint32_t correlation = 0;
  uint32_t device = 0, context = 0;
  uint32_t stream = 0;    // CUPTI's stream id: see ActivityStream
  const char* name = "";  // kernels: mangled; lives as long as the process
  uint32_t grid[3] = {1, 1, 1}, block[3] = {1, 1, 1};
  uint32_t shared_bytes = 0;
  protocol::CopyKind copy_kind = protocol::CopyKind::kHostToDevice;
  bool pinned = false;        // copies: the host side is page-locked
  bool asynchronous = false;  // copies, memsets: by one of the functions named ...Async
  uint64_t bytes = 0;         // copies, memsets
  uint32_t value = 0;         // memsets
  // The launch of an executable graph, and its node; 0: no launch of a graph.
  uint32_t graph = 0;
  uint64_t graph_node = 0;
  int64_t start_ns = 0, end_ns = 0;
};

enum class ActivitySyncKind : uint8_t { kEvent, kStreamWait, kStream, kContext };

// The part of a call in which the host waited, or asked: queries of events and streams
// are told as well (start == end where the host did not stand, and for kStreamWait,
// which holds up a stream and not the host). Blocking copies have none, as in CUPTI.
struct ActivitySync {
  ActivitySyncKind kind = ActivitySyncKind::kEvent;
  uint32_t correlation = 0;
  uint32_t context = 0, stream = 0;
  uint32_t event = 0;
  uint64_t event_sync_id = 0;  // the recording that is waited for; 0: never recorded
  int64_t start_ns = 0, end_ns = 0;
};

struct ActivityEventRecord {
  uint32_t correlation = 0;
  uint32_t context = 0, stream = 0;
  uint32_t event = 0;          // number of the event object, never reused
  uint64_t event_sync_id = 0;  // number of the recording, from 1, never reused
  int64_t device_ns = 0;       // when the stream got there
};

struct ActivityStream {
  uint32_t context = 0;
  uint32_t stream = 0;  // 7: the legacy default stream, as CUPTI numbers it
  enum class Kind : uint8_t {
    kLegacyDefault,
    kPerThreadDefault,
    kBlocking,
    kNonBlocking
  };
  Kind kind = Kind::kBlocking;
  int32_t priority = 0;
  bool destroyed = false;  // false: created
  uint32_t correlation = 0;
};

// Device memory and page-locked host memory. `address` 0: memory that has none of the
// program's (a context's, what a pool or a trim gives back).
struct ActivityMemory {
  bool release = false;
  enum class Where : uint8_t { kDevice, kPinnedHost } where = Where::kDevice;
  protocol::MemoryOwner owner = protocol::MemoryOwner::kProgram;
  uint32_t correlation = 0;
  uint32_t device = 0, context = 0, stream = 0;
  bool is_async = false;            // from a stream-ordered pool
  uint64_t address = 0, bytes = 0;  // bytes as requested
  // By how much the device's used memory changed: 0 where a pool served the request
  // from what it holds.
  int64_t device_delta_bytes = 0;
  int64_t time_ns = 0;
};

// The host stood still because the launch queue was full.
struct ActivityQueueFull {
  uint32_t correlation = 0;
  int64_t start_ns = 0, end_ns = 0;
};

// An NVTX range, as virtual_host's NVTX injection sees it.
struct ActivityRange {
  bool begin = true;
  uint32_t thread = 0;
  uint32_t id = 0;  // begin and end of one range share it
  const char* name = "";
  int64_t time_ns = 0;
};

struct ActivityExternalId {
  uint32_t kind = 0;  // CUpti_ExternalCorrelationKind
  uint64_t id = 0;
  uint32_t correlation = 0;
};

// A CUDA graph is built, made executable or changed. Handles are the program's; those
// of the nodes of an executable graph, which are copies, only a profiler gets to see.
struct ActivityGraph {
  enum class What : uint8_t {
    kNodeCreated,
    kNodeDestroyed,
    kEdgeCreated,    // `dependency` waits for `node`
    kEdgeDestroyed,  // the same
    kExecStarting,   // an executable graph is being made: copies of nodes follow
    kNodeCloned,     // `node` of `original_node`
    kExecCreated,
    kExecDestroyed,
    kNodeUpdated,  // `node` of `exec` does from now on what `original_node` does
    kNodeSet,      // `node` of `exec` got other parameters
  };
  What what = What::kNodeCreated;
  void* node = nullptr;
  uint64_t node_id = 0;
  int node_type = 0;  // cudaGraphNodeType
  void* original_node = nullptr;
  void* dependency = nullptr;
  void* exec = nullptr;
  uint32_t exec_id = 0;
};

class ActivityListener {
 public:
  virtual void OnCall(const ActivityCall& call) = 0;
  virtual void OnWork(const ActivityWork& work) = 0;
  virtual void OnSync(const ActivitySync& sync) = 0;
  virtual void OnEventRecord(const ActivityEventRecord& record) = 0;
  virtual void OnStream(const ActivityStream& stream) = 0;
  virtual void OnMemory(const ActivityMemory& memory) = 0;
  virtual void OnQueueFull(const ActivityQueueFull& wait) = 0;
  virtual void OnRange(const ActivityRange& range) = 0;
  virtual void OnExternalId(const ActivityExternalId& id) = 0;

  // On the program's thread, at once: for CUPTI's callback API. `function` as in
  // ActivityCall; a nested call is told, too.
  virtual void OnEnter(bool is_driver, const char* function, uint32_t correlation,
                       const void* parameters, const char* symbol) = 0;
  virtual void OnExit(bool is_driver, const char* function, uint32_t correlation,
                      const void* parameters, const char* symbol, int32_t result) = 0;
  // Streams and contexts as they come and go, on the program's thread.
  virtual void OnStreamNow(const ActivityStream& stream, void* handle) = 0;
  virtual void OnContextNow(uint32_t context, void* handle, bool created) = 0;
  // Graphs, likewise.
  virtual void OnGraphNow(const ActivityGraph& graph) = 0;

 protected:
  ~ActivityListener() = default;
};

class Activity {
 public:
  // nullptr: nobody listens. What was noted before is still reported to the old one,
  // which stays valid until a Flush has returned; a call that is open is not reported.
  // Streams and contexts that exist already are told to a new one, on this thread.
  virtual void SetListener(ActivityListener* listener) = 0;
  // Returns once everything that can be known has been reported: all that the program
  // has done so far if `wait_for_work` (blocks until other ranks let that work end, or
  // the session is called off), else what is known now.
  virtual void Flush(bool wait_for_work) = 0;
  // The calling thread's external ids (cuptiActivityPushExternalCorrelationId): every
  // call made while one is on top of its kind's stack is reported with it.
  virtual void PushExternalId(uint32_t kind, uint64_t id) = 0;
  virtual bool PopExternalId(uint32_t kind, uint64_t* id) = 0;
  // The host clock for a profiler: exact, and free (it is no clock reading of the
  // program).
  virtual int64_t Now() = 0;

 protected:
  ~Activity() = default;
};

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_ACTIVITY_H_
