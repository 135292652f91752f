// The records of the guest protocol: what a guest says of its program's calls.
//
// Include base/guest/protocol.h, which explains the words and the rules.
//
// Thread rule: plain structs.

#ifndef VRANK_BASE_GUEST_PROTOCOL_RECORDS_H_
#define VRANK_BASE_GUEST_PROTOCOL_RECORDS_H_

#include <cstddef>
#include <cstdint>

#include "base/guest/thread_work.h"

namespace vrank::protocol {

inline constexpr uint32_t kHostLane = 0;
inline constexpr uint32_t kNoSlot = 0xffffffff;
inline constexpr uint32_t kNone = 0xffffffff;

enum class RecordKind : uint16_t {
  kPad = 0,
  // Names. A name is defined once per process, before its first use.
  kDefineName,  // DefineName + bytes
  // Host.
  kHost,        // Record: only host_ns
  kAskClock,    // AskClock: what does the host clock read?
  kRangeBegin,  // Range: an NVTX range opens on the host
  kRangeEnd,    // Range
  kLoss,        // Loss: something was approximated; shown in the report
  kMemory,      // Memory: device memory was taken or given back
  // Lanes and tokens.
  kReleaseLane,    // Lane
  kRecordToken,    // TokenOnLane: token := end of the lane
  kWaitToken,      // TokenOnLane: the lane goes on after the token
  kHostWaitToken,  // HostWait: the host goes on after the token
  kHostWaitLane,   // HostWait: ... after everything issued to the lane so far
  kHostQuery,      // HostQuery: has token or lane ended by now?
  kHostFuncEnd,    // HostFuncEnd: a host callback has returned
  // Work on a lane.
  kKernel,    // Kernel + argument bytes
  kGemm,      // Gemm
  kCopy,      // Copy
  kMemset,    // Memset
  kHostFunc,  // HostFunc: a host callback in stream order
  // NCCL.
  kCommInit,      // CommInit: rendezvous of the host threads of all members
  kCommSplit,     // CommSplit
  kCommRelease,   // CommRelease: finalize (waits for its work), destroy or abort
  kCollective,    // Collective
  kPointToPoint,  // PointToPoint + Transfer[count]: one fused group of sends and
                  // receives
  kPayload,       // Payload + bytes: what this member contributes to a collective
  kFetchPayload,  // FetchPayload: the bytes of a collective's result
  kEstimate,      // Estimate: what would a collective or a transfer take?
  // For a profiler in the process.
  kActivity,  // Activity: publish times, or stop, or say when that is done
  // CUDA graphs.
  kGraphLaunch,  // GraphLaunch
  kGraphEnd,     // Graph: the body of the launch before ends here
  kGraphForget,  // Graph: will not be launched any more
  // GPUs that several ranks of a node use.
  kAskMemory,  // AskMemory: how much of a GPU do other processes hold?
  // What the program computes between its calls.
  kHostGaps,  // HostGaps + HostGap[count]: carries no host time, becomes no op
  // What PyTorch's allocator holds.
  kAllocatorPeak,    // AllocatorPeak: carries no host time, becomes no op
  kAllocatorBlocks,  // AllocatorBlocks + AllocatorBlock[count]: likewise
  kCount
};

// Record::flags.
// Written by a thread that issues no work (a watchdog, a logger): the record has its
// place in the rank's order, but it must not move the host clock. Its waits are its
// own, and its queries are answered by the host clock at that place.
inline constexpr uint16_t kFromHelper = 1;
// The source of host_ns: costs without a source (Settings::assumed_host_costs), or CPU
// time of the program between its calls, measured or recorded. Without a flag:
// modelled. A record's host time has one source.
inline constexpr uint16_t kHostTimeAssumed = 2;
inline constexpr uint16_t kHostTimeMeasured = 128;
inline constexpr uint16_t kHostTimeRecorded = 256;
// Likewise HostFunc::duration_ns.
inline constexpr uint16_t kValueAssumed = 4;
// A kRecordToken whose time is published where times are (ActivityEntry).
inline constexpr uint16_t kTimed = 8;
// Belongs to a graph launch: takes no place of its own in the launch queue.
inline constexpr uint16_t kInGraph = 16;
// The thread's next record is another HostWait: one call waits for several lanes.
inline constexpr uint16_t kMoreWaits = 32;
// A HostQuery of a polling loop that issues nothing between its queries.
inline constexpr uint16_t kAsksAgain = 64;

// Begins every record. `size` counts header, struct and tail, and is a multiple of 8.
struct Record {
  RecordKind kind = RecordKind::kPad;
  uint16_t flags = 0;
  uint32_t size = 0;
  int64_t host_ns = 0;  // filled in by the channel
};

struct DefineName {
  Record record;
  uint32_t name;    // chosen by the guest: 1, 2, 3, ...; 0 means "no name"
  uint32_t length;  // bytes that follow, padded to 8
};

// Asks for the host clock where an edge is pending that only the engine knows.
struct AskClock {
  Record record;
  uint32_t slot;
  uint32_t reserved = 0;
};

struct Range {
  Record record;
  uint32_t name;
  uint32_t reserved = 0;
};

// The counters themselves are rows of base/guest/losses.def; `loss` is the row's index.
struct Loss {
  Record record;
  uint32_t loss;
  uint32_t name;    // what it happened to (a kernel, an API function), or 0
  uint64_t amount;  // occurrences or bytes, as the row says
};

enum class MemoryOwner : uint32_t {
  kProgram = 0,       // cudaMalloc, pools, virtual memory mapped by the program
  kContext = 1,       // what a CUDA context takes on a real device
  kCommunicator = 2,  // what NCCL takes for channels, buffers, peers
};

struct Memory {
  Record record;
  int64_t delta_bytes;  // negative when memory is given back
  uint32_t device;
  MemoryOwner owner;
};

// Queries the bytes of a GPU that other processes hold; they are the answer's value.
// The emulator answers in virtual-time order: the rank with the earlier host clock
// allocates first. Ties are broken by rank number.
struct AskMemory {
  Record record;
  uint32_t device;  // of the node
  uint32_t slot;
  uint64_t bytes;  // that this process takes next, where they are there; 0: none
  // 1: a context on a GPU that is another rank's by its number. From the answer on
  // every process of the node asks before it takes memory of that GPU
  // (SegmentHeader::shared_gpus).
  uint32_t begins_sharing;
  uint32_t reserved = 0;
};

struct Lane {
  Record record;
  uint32_t lane;
  uint32_t reserved = 0;
};

struct TokenOnLane {
  Record record;
  uint32_t lane;
  uint32_t token;
};

// The host blocks until the token or lane has ended. `slot` is where the answer is
// written; kNoSlot where the guest needs none: it knew the end already (the engine
// computes the same), or this is one of several waits in a row (a call that waits for
// many lanes), of which the last one asks.
struct HostWait {
  Record record;
  uint32_t target;  // token or lane
  uint32_t slot;
};

enum class QueryTarget : uint32_t { kToken = 0, kLane = 1 };

struct HostQuery {
  Record record;
  QueryTarget target_kind;
  uint32_t target;
  uint32_t slot;            // kNoSlot where the guest knew the answer
  uint32_t known_complete;  // that answer: 1 complete, 0 not yet
};

// A kernel the program launched. `arguments` bytes follow: the parameters in order,
// each at the offset that the kernel's parameter layout gives; 0 where the layout is
// unknown.
struct Kernel {
  Record record;
  uint32_t lane;
  uint32_t name;  // mangled, as registered
  uint32_t grid[3];
  uint32_t block[3];
  uint32_t shared_bytes;
  uint32_t argument_bytes;
  ThreadWork thread;
  // Device memory that the launch can reach, where `thread` does not tell what it does
  // (KernelEffects::ReachableBytes); else 0.
  uint64_t reachable_bytes;
};

// Element types, with NCCL's numbers for the ones that NCCL has (nccl.h,
// ncclDataType_t).
enum class ElementType : uint8_t {
  kInt8 = 0,
  kUint8 = 1,
  kInt32 = 2,
  kUint32 = 3,
  kInt64 = 4,
  kUint64 = 5,
  kFloat16 = 6,
  kFloat32 = 7,
  kFloat64 = 8,
  kBfloat16 = 9,
  kFloat8E4M3 = 10,
  kFloat8E5M2 = 11,
  kTfloat32 = 12,  // compute type only
};

// C[m,n] = A[m,k] B[k,n], `batch` times.
struct Gemm {
  Record record;
  uint32_t lane;
  uint32_t name;  // the API function: "cublasGemmEx"
  uint64_t m, n, k, batch;
  ElementType a_type, b_type, c_type, compute_type;
  uint8_t reads_c;  // beta != 0
  // Bytes, at most 16: what the start of each column (or row) of A, B and C in memory
  // is a multiple of. 0: not known.
  uint8_t alignment;
  uint8_t reserved[2] = {};
};

enum class CopyKind : uint32_t {
  kHostToDevice = 0,
  kDeviceToHost = 1,
  kDeviceToDevice = 2,
  kPeer = 3,
  kHostToHost = 4,
};

struct Copy {
  Record record;
  uint32_t lane;
  CopyKind copy_kind;
  uint64_t bytes;
  uint32_t pinned;  // the host side is page-locked
  uint32_t reserved = 0;
};

struct Memset {
  Record record;
  uint32_t lane;
  uint32_t reserved = 0;
  uint64_t bytes;
};

// A callback in stream order. The answer is its start; it never blocks the caller.
// duration_ns: what it takes beside what its thread's clock shows.
struct HostFunc {
  Record record;
  uint32_t lane;
  uint32_t slot;
  int64_t duration_ns;
};

// The process's HostFunc record `number` (1, 2, ...) has returned, when its thread's
// clock had gone on by took_ns since the start.
struct HostFuncEnd {
  Record record;
  uint64_t number;
  int64_t took_ns;
};

inline constexpr size_t kUniqueIdBytes = 128;

// A communicator comes into being. Answered when all members have arrived: value is 0,
// or 1 + another member (its rank in the communicator) that is on the same GPU.
//
// A process with several members (a GPU each) writes a record for each of them; its
// host goes on until the last one has been written.
struct CommInit {
  Record record;
  uint32_t communicator;  // number chosen by the guest: 1, 2, 3, ... never reused
  uint32_t ranks;
  uint32_t rank;
  uint32_t device;  // the node's number of it; kNone: ranks may share it
  uint32_t slot;
  uint32_t name;  // ncclConfig_t::commName, or 0
  // Members that this process joins with in one go; 1 also where several threads of it
  // join with one each.
  uint32_t local_members;
  // 0: the host waits until the communicator exists. Else a token that ends then, for
  // queries and waits; until then no other record names it or the communicator.
  uint32_t token;
  uint8_t unique_id[kUniqueIdBytes];
};

// In CommInit's answer, whose value is 0, or 1 + the index of another member on the
// same GPU: that member is not real. No real rank of the node has chosen a GPU but the
// first.
inline constexpr uint64_t kTwinIsPlayed = uint64_t{1} << 32;

inline constexpr int32_t kNoColor = -1;

// Answer: value = size << 32 | index of this rank in the child (0 for kNoColor).
// A meeting of all members that makes nothing (the registration of a window) is a split
// in which all pass kNoColor. A shrink is one in which the excluded members, whose
// indices follow ascending as uint32_t[excluded], take no part.
struct CommSplit {
  Record record;
  uint32_t parent;
  uint32_t communicator;  // the child's number, also where the colour is kNoColor
  int32_t color;
  int32_t key;
  uint32_t slot;
  uint32_t name;   // ncclConfig_t::commName, or 0
  uint32_t token;  // as CommInit's
  uint32_t excluded;
};

// kStop: what is in flight is aborted, and waited for; the communicator stays.
enum class ReleaseKind : uint32_t {
  kFinalize = 0,
  kDestroy = 1,
  kAbort = 2,
  kStop = 3,
};

struct CommRelease {
  Record record;
  uint32_t communicator;
  ReleaseKind release;
  uint32_t slot;
  uint32_t captured = 0;  // its operations in CUDA graphs that exist
};

enum class CollectiveKind : uint8_t {
  kAllReduce = 0,
  kAllGather = 1,
  kReduceScatter = 2,
  kBroadcast = 3,
  kReduce = 4,
  kAllToAll = 5,
  kGather = 6,
  kScatter = 7,
};

enum class Reduction : uint8_t {
  kSum = 0,
  kProd = 1,
  kMax = 2,
  kMin = 3,
  kAvg = 4,
  kPreMulSum = 5,
};

// `count` is NCCL's count argument: elements of the call's own buffer as nccl.h defines
// it per operation (all-gather: elements *sent*; reduce-scatter: elements *received*).
// Calls fused in one ncclGroup carry the same nonzero `group` number.
struct Collective {
  Record record;
  uint32_t lane;
  uint32_t communicator;
  uint64_t count;
  uint32_t root;
  uint32_t group;
  CollectiveKind operation;
  ElementType type;
  Reduction reduction;
  uint8_t in_place;
  uint32_t reserved = 0;
};

struct Transfer {
  uint64_t bytes;
  uint32_t peer;     // index in the communicator
  uint32_t is_send;  // 1 send, 0 receive
};

// All sends and receives of one group on one communicator: one launch, fused.
struct PointToPoint {
  Record record;
  uint32_t lane;
  uint32_t communicator;
  uint32_t count;  // transfers that follow
  uint32_t group;
};

// What a thread that issues work computed between two of its calls (anchors).
struct HostGap {
  uint64_t anchor;  // the call before it, as AnchorHistory takes it
  int64_t ns;       // CPU time, user and system; of this machine, not scaled
};

// Gaps of one thread, in order. An empty batch announces a thread that issues work.
struct HostGaps {
  Record record;
  uint64_t role;       // of the thread, see AnchorHistory
  uint64_t end;        // the anchor at which the last of them ended; its kind counts
  uint32_t thread;     // its id; the first batch of a thread may be empty
  uint32_t count;      // gaps that follow
  uint64_t preempted;  // involuntary switches of the thread since the batch before
};

// The most that PyTorch's caching allocator has held of a GPU so far: written before
// the first launch after either figure has grown.
struct AllocatorPeak {
  Record record;
  uint32_t device;  // of the process
  uint32_t unused = 0;
  uint64_t allocated_bytes;  // torch.cuda.max_memory_allocated()
  uint64_t reserved_bytes;   // torch.cuda.max_memory_reserved()
};

// What PyTorch's caching allocator has given to tensors and taken back since the launch
// before, in order.
struct AllocatorBlocks {
  Record record;
  uint32_t count;  // of blocks that follow
  // Some more were left out before these: there were too many between two launches.
  uint32_t incomplete;
};
enum class BlockChange : uint32_t {
  kTaken = 0,
  kTakenInBackward = 1,  // by a thread of PyTorch's autograd engine
  kGivenBack = 2,
};
struct AllocatorBlock {
  uint64_t address;
  uint64_t bytes;
  BlockChange change;
  uint32_t device;  // of the process
};

enum class ActivityWish : uint32_t {
  kStart = 0,  // publish from this record on; no slot
  kStop = 1,   // no slot
  // Answered once this record has passed the host; host_ns is the clock there.
  kClock = 2,
  // Answered once, besides, all work that was issued before has ended and been
  // published.
  kDrain = 3,
};

// What a profiler wants. Becomes no op and carries no host time: it changes no time.
struct Activity {
  Record record;
  ActivityWish wish;
  uint32_t slot;
};

}  // namespace vrank::protocol

#endif  // VRANK_BASE_GUEST_PROTOCOL_RECORDS_H_
