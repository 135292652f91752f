// What one rank did in one slice of the job: a trace as it stands in memory, read from
// a .vtrace file (trace_file.h) and turned into a program by graph/build.
//
// Rows hold what CUPTI and the NCCL stand-in said, in their terms. Nothing is
// interpreted here: which call waited for what is the builder's business.
//
// Times are nanoseconds on one clock of the rank; only their differences mean anything.
// Names are indices into `names` (0: none).
//
// Thread rule: plain values.

#ifndef VRANK_GRAPH_TRACE_RANK_TRACE_H_
#define VRANK_GRAPH_TRACE_RANK_TRACE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graph/schema/job_description.h"
#include "graph/schema/op.h"

namespace vrank::graph {

// A call of the CUDA runtime or driver.
struct TracedCall {
  uint32_t function = 0;  // name: "cudaLaunchKernel"
  bool is_driver = false;
  uint32_t correlation = 0;  // in the order of the calls
  uint32_t thread = 0;       // 0, 1, ... in the order of first appearance
  int64_t start_ns = 0, end_ns = 0;
  int32_t result = 0;
};

struct TracedWork {
  WorkClass work = WorkClass::kKernel;  // kKernel, kCopy, kMemset
  uint32_t correlation = 0;
  uint32_t device = 0, context = 0, stream = 0;
  uint32_t name = 0;  // kernels: mangled
  uint32_t grid[3] = {1, 1, 1}, block[3] = {1, 1, 1};
  uint32_t shared_bytes = 0, registers = 0;
  uint32_t copy_kind = 0;  // CUPTI's
  uint64_t bytes = 0;
  uint64_t graph_node = 0;
  int64_t start_ns = 0, end_ns = 0;
};

// CUPTI's CUpti_ActivitySynchronizationType, by value.
enum class SyncKind : uint8_t {
  kEvent = 1,
  kStreamWait = 2,
  kStream = 3,
  kContext = 4
};

struct TracedSync {
  SyncKind kind = SyncKind::kEvent;
  uint32_t correlation = 0, context = 0, stream = 0, event = 0;
  uint64_t event_sync_id = 0;
  int64_t start_ns = 0, end_ns = 0;
};

struct TracedEventRecord {
  uint32_t correlation = 0, context = 0, stream = 0, event = 0;
  uint64_t event_sync_id = 0;
};

struct TracedStream {
  enum class Kind : uint8_t {
    kLegacyDefault,
    kPerThreadDefault,
    kBlocking,
    kNonBlocking
  };
  uint32_t context = 0, stream = 0;
  Kind kind = Kind::kBlocking;
  int32_t priority = 0;
  bool destroyed = false;    // false: created
  uint32_t correlation = 0;  // the call that made or destroyed it
};

// A context comes or goes. Raw traces only: finished ones have its memory as a reserve.
struct TracedContext {
  uint32_t context = 0;
  bool destroyed = false;    // false: created
  uint32_t correlation = 0;  // the call that does it; 0: none that is traced
  int64_t time_ns = 0;
  uint64_t code_bytes = 0;  // of the kernels that the process had loaded when it came
};

struct TracedMemory {
  bool release = false;
  bool device = true;     // false: page-locked host memory
  bool is_async = false;  // from a stream-ordered pool
  uint32_t correlation = 0, stream = 0;
  uint64_t address = 0, bytes = 0;
  int64_t time_ns = 0;
};

// A pool of stream-ordered memory grew or shrank, or the context or a communicator
// took device memory.
struct TracedReserve {
  MemoryOwner owner = MemoryOwner::kProgram;
  int64_t delta_bytes = 0;
  uint32_t correlation = 0;  // 0: between calls, at time_ns
  int64_t time_ns = 0;
  uint32_t communicator = 0;  // whose it is, by the rank's own number; 0: none's
};

struct TracedRange {
  bool begin = true;
  uint32_t thread = 0, id = 0, name = 0;
  int64_t time_ns = 0;
};

// CUPTI's own cost, and the host standing still at a full launch queue.
struct TracedOverhead {
  enum class Kind : uint8_t { kProfiler, kLaunchQueueFull };
  Kind kind = Kind::kProfiler;
  uint32_t correlation = 0, thread = 0;
  int64_t start_ns = 0, end_ns = 0;
};

// An operation of a communicator: from the NCCL stand-in. Its launch is the CUDA call
// with that correlation; its times are the TracedWork's of that correlation.
struct TracedOperation {
  uint32_t correlation = 0, communicator = 0, stream = 0;
  bool is_collective = true;
  CollectiveCall call;              // is_collective
  std::vector<Transfer> transfers;  // otherwise: a fused group
  // Captured into a graph, whose launches do it: by what its node names it. 0: no.
  uint64_t captured = 0;
};

// CUgraphNodeType, by value.
enum class GraphNodeKind : uint32_t {
  kKernel = 0,
  kCopy = 1,
  kMemset = 2,
  kHost = 3,
  kGraph = 4,
  kEmpty = 5,
  kEventWait = 6,
  kEventRecord = 7
};

// A node of an executable CUDA graph.
struct TracedGraphNode {
  uint32_t graph = 0, index = 0;  // the graph's number; the node's in it, from 0
  uint64_t node = 0;              // as TracedWork::graph_node has it
  GraphNodeKind kind = GraphNodeKind::kKernel;
  std::vector<uint32_t> before;      // nodes of the graph that it waits for
  std::vector<uint64_t> operations;  // TracedOperation::captured
};

// An executable graph ends, or gets other contents than it was made with.
struct TracedGraphChange {
  uint32_t graph = 0, correlation = 0;
  bool ended = false;
};

struct TracedGraphLaunch {
  uint32_t correlation = 0, graph = 0, context = 0, stream = 0;
};

// A host call of NCCL that other members have a part in, or that waits.
struct TracedNcclCall {
  enum class Kind : uint8_t { kInit, kSplit, kRelease };
  Kind kind = Kind::kInit;
  uint32_t communicator = 0;  // the rank's own number: the new or the released one
  uint32_t thread = 0;
  Creation creation;  // kInit, kSplit
  ReleaseKind release = ReleaseKind::kFinalize;
  int64_t start_ns = 0, end_ns = 0;
  // What the rank was told: size and own index (kInit, kSplit; size 0: no member).
  uint32_t told_size = 0, told_index = 0;
};

// CPU time of the program between its calls that passed on the host clock of a virtual
// GPU's rank. It is part of the times between rows; this says whose they are.
struct TracedHostTime {
  Source source = Source::kRecorded;  // or kMeasured
  int64_t after_ns = 0;               // host time of the rank before it, without waits
  int64_t ns = 0;                     // not 0
  int64_t end_ns() const { return after_ns + ns; }
};

// What the session that recorded the slice knows; written by `vrank trace`.
struct TraceSession : JobDescription {
  int32_t rank = 0;
  std::vector<int32_t> real_ranks;  // of this slice
  // Device memory that a CUDA context takes on that GPU, which CUPTI does not show.
  uint64_t context_bytes = 0;
  // Virtual GPU: the rank's host clock at the end, as far as it told the emulator.
  // CUPTI shows calls of CUDA and nothing else of the host.
  int64_t host_end_ns = 0;
  // Virtual GPU: GpuDescription::kernel_gap_ns, which no row shows.
  int64_t kernel_gap_ns = 0;
  // Virtual GPU: where the time of work came from, by kernel name; what is not listed
  // is modelled.
  struct WorkSource {
    Source source = Source::kModelled;
    uint32_t unseen_ns = 0;  // WorkCost::unseen_ns, the mean of its launches
    friend bool operator==(const WorkSource&, const WorkSource&) = default;
  };
  std::map<std::string, WorkSource> work_sources;
  std::map<std::string, uint64_t> losses;
  // Communicators as they were served: members by world rank, and whether some of that
  // was assumed. By the rank's own number.
  struct Served {
    std::string identity;
    std::vector<int32_t> members;
    bool assumed = false;
  };
  std::map<uint32_t, Served> communicators;
};

struct RankTrace {
  std::string file;  // for messages
  TraceSession session;
  std::vector<std::string> names{std::string()};
  std::vector<TracedCall> calls;
  std::vector<TracedWork> work;
  std::vector<TracedSync> syncs;
  std::vector<TracedEventRecord> event_records;
  std::vector<TracedStream> streams;
  std::vector<TracedContext> contexts;
  std::vector<TracedMemory> memory;
  std::vector<TracedReserve> reserves;
  std::vector<TracedRange> ranges;
  std::vector<TracedOverhead> overheads;
  std::vector<TracedOperation> operations;
  std::vector<TracedNcclCall> nccl_calls;
  std::vector<TracedGraphNode> graph_nodes;
  std::vector<TracedGraphChange> graph_changes;
  std::vector<TracedGraphLaunch> graph_launches;
  std::vector<TracedHostTime> host_times;  // one after the other. Finished traces only
  uint64_t dropped_by_cupti = 0, dropped_by_tracer = 0;
  uint64_t unknown_records = 0;  // skipped: of kinds that a newer vrank writes
  bool complete = true;          // false: cut off (the process was killed)
  // Another user of CUPTI got records, nobody knows how many. Raw traces only.
  bool records_taken = false;
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_TRACE_RANK_TRACE_H_
