// The .vtrace file: what one rank did, as CUPTI and the NCCL stand-in said it.
//
// A file is a row of chunks and nothing else. A chunk is a ChunkHeader and records; it
// says its own length and checksum, so that a file is only ever appended to, and one
// whose writer was killed is readable up to its last whole chunk.
//
// The tracer writes *raw* files: chunks as its threads filled them, names numbered as
// they turned up, NCCL's operations apart from their launches. `vrank trace` turns
// these into *canonical* ones (graph/trace/trace_file.h): the same record kinds in an
// order that does not depend on the timing of threads, with a kSession record in front.
//
// Rules
//   - Records begin at multiples of 8 bytes, have multiples of 8 bytes, and are never
//     divided between chunks. A variable tail follows the struct and counts in `size`.
//   - A name is defined once (kName), in any chunk; records refer to it by number.
//     Number 0 is "no name".
//   - Little-endian. Times: nanoseconds on one clock of the rank.
//   - A reader skips kinds that it does not know and counts them, and ignores what a
//     record has behind the fields it knows: new kinds and longer records need no new
//     version. A changed meaning bumps kVersion; readers keep reading old ones.
//
// Thread rule: plain structs.

#ifndef VRANK_BASE_GUEST_TRACE_FORMAT_H_
#define VRANK_BASE_GUEST_TRACE_FORMAT_H_

#include <cstddef>
#include <cstdint>

#include "base/guest/protocol_records.h"

namespace vrank::trace {

inline constexpr uint16_t kVersion = 1;
inline constexpr char kMagic[4] = {'v', 't', 'r', 'C'};
// The most that a chunk may hold, plain or stored: what a reader must be ready for.
inline constexpr uint32_t kMaxChunkBytes = 16u << 20;

// Who filled the chunk.
enum class Source : uint8_t {
  kProgram = 0,    // a thread of the program: NCCL calls, callbacks
  kCupti = 1,      // records that CUPTI delivered
  kCanonical = 2,  // not the tracer: the canonical writer
};

enum class Encoding : uint8_t {
  kPlain = 0,
  kZstd = 1,  // one zstd frame; canonical files only
};

struct ChunkHeader {
  char magic[4];
  uint16_t version;
  Source source;
  Encoding encoding;
  uint32_t sequence;       // 0, 1, 2, ... in the file
  uint32_t records;        // how many the chunk holds
  uint32_t stored_bytes;   // that follow the header, a multiple of 8
  uint32_t plain_bytes;    // of the records, before encoding
  uint32_t crc;            // CRC-32C of this header with crc = 0, and the stored bytes
  uint32_t encoded_bytes;  // of stored_bytes, without the padding
};

enum class Kind : uint16_t {
  kPad = 0,
  kName = 1,          // Name + bytes
  kStart = 2,         // Start
  kCall = 3,          // Call
  kWork = 4,          // Work
  kSync = 5,          // Sync
  kEventRecord = 6,   // EventRecord
  kStream = 7,        // Stream
  kMemory = 8,        // Memory
  kPool = 9,          // Pool; raw files only
  kReserve = 10,      // Reserve
  kRange = 11,        // Range
  kOverhead = 12,     // Overhead
  kExternalId = 13,   // ExternalId; raw files only
  kCollective = 14,   // Collective
  kTransfers = 15,    // Transfers + protocol::Transfer[count]
  kCreation = 16,     // Creation
  kRelease = 17,      // Release
  kDropped = 18,      // Dropped
  kSession = 19,      // Session + bytes; canonical files, as the first record
  kEnd = 20,          // End; the last record of a file that was closed
  kGraphNode = 21,    // GraphNode + uint64[before] + uint64[operations]
  kGraphChange = 22,  // GraphChange
  kGraphLaunch = 23,  // GraphLaunch
  kContext = 24,      // Context; raw files only
  kHostTime = 25,     // HostTime; canonical files only
  kLimit = 26,        // no kind: the first number that is free
};

struct Record {
  Kind kind;
  uint16_t flags;  // bits of the kind, below
  uint32_t size;   // header, struct and tail
};

struct Name {
  Record record;
  uint32_t name;    // its number, from 1
  uint32_t length;  // bytes that follow, padded to 8
};

// The tracer starts.
struct Start {
  Record record;
  int64_t time_ns;
  uint32_t cupti_version;  // as cuptiGetVersion says it
  uint32_t reserved;
};

// A call of the CUDA runtime or driver (CUpti_ActivityAPI).
inline constexpr uint16_t kDriverCall = 1;  // flag: of the driver
struct Call {
  Record record;
  uint32_t function;     // name, without "_v7000"
  uint32_t correlation;  // CUPTI's
  uint32_t thread;       // raw: CUPTI's thread id; canonical: 0, 1, ...
  int32_t result;
  int64_t start_ns, end_ns;
};

enum class WorkKind : uint32_t { kKernel = 0, kCopy = 1, kMemset = 2 };

// CUpti_ActivityKernel*, Memcpy*, MemcpyPtoP*, Memset*.
struct Work {
  Record record;
  WorkKind work;
  uint32_t correlation;
  uint32_t device, context, stream;
  uint32_t name;  // kernels: mangled
  uint32_t grid[3], block[3];
  uint32_t shared_bytes;  // kernels: static and dynamic
  uint32_t registers;     // kernels: per thread
  uint32_t copy_kind;     // copies: CUpti_ActivityMemcpyKind
  uint32_t reserved;
  uint64_t bytes;       // copies, memsets
  uint64_t graph_node;  // CUDA graph node, 0: none
  int64_t start_ns, end_ns;
};

// CUpti_ActivitySynchronization*.
struct Sync {
  Record record;
  uint32_t sync;  // CUpti_ActivitySynchronizationType
  uint32_t correlation;
  uint32_t context, stream;
  uint32_t event;
  uint32_t reserved;
  uint64_t event_sync_id;  // EventRecord of the same number; 0: none
  int64_t start_ns, end_ns;
};

// CUpti_ActivityCudaEvent*.
struct EventRecord {
  Record record;
  uint32_t correlation;
  uint32_t context, stream;
  uint32_t event;
  uint64_t event_sync_id;
};

enum class StreamKind : uint32_t {
  kLegacyDefault = 0,
  kPerThreadDefault = 1,
  kBlocking = 2,
  kNonBlocking = 3
};

inline constexpr uint16_t kDestroyed = 1;  // flag: destroyed, not created
struct Stream {
  Record record;
  uint32_t context, stream;
  StreamKind stream_kind;  // not set where destroyed
  int32_t priority;
  uint32_t correlation;  // the call that made or destroyed it; 0: unknown
  uint32_t reserved;
};

// CUpti_ActivityMemory*.
inline constexpr uint16_t kReleased = 1;    // flag: given back, not taken
inline constexpr uint16_t kHostMemory = 2;  // flag: page-locked host memory
inline constexpr uint16_t kAsync = 4;       // flag: of a stream-ordered pool
struct Memory {
  Record record;
  uint32_t correlation, stream;
  uint64_t address;  // canonical: the allocation's number; its release has the same
  uint64_t bytes;
  int64_t time_ns;
};

// A context comes (or, kDestroyed, goes): in the thread's call around that moment, or
// in none that is traced.
struct Context {
  Record record;
  uint32_t context;
  uint32_t thread;  // as the system numbers it
  int64_t time_ns;
  uint64_t code_bytes;  // LoadedCodeBytes() when it was made; 0 when it is destroyed
};

// CUpti_ActivityMemoryPool*: how large a pool is now.
struct Pool {
  Record record;
  uint32_t correlation;
  uint32_t operation;  // CUpti_ActivityMemoryPoolOperationType
  uint64_t address;    // which pool
  uint64_t bytes;      // its size
  int64_t time_ns;
};

// Device memory that no call of the program asked for.
struct Reserve {
  Record record;
  protocol::MemoryOwner owner;
  uint32_t correlation;  // 0: between calls
  int64_t delta_bytes;
  int64_t time_ns;
  // Files of older tracers have no more than that.
  uint32_t communicator;  // whose it is; 0: none's
  uint32_t reserved;
};
inline constexpr uint32_t kShortestReserve = offsetof(Reserve, communicator);

// One end of an NVTX range (CUpti_ActivityMarker*).
inline constexpr uint16_t kRangeEnds = 1;  // flag: it ends
struct Range {
  Record record;
  uint32_t thread, id;  // begin and end share the id
  uint32_t name;        // "domain::name"; ends may have none
  uint32_t reserved;
  int64_t time_ns;
};

inline constexpr uint16_t kLaunchQueueFull = 1;  // flag: the host waited for a place
struct Overhead {
  Record record;
  uint32_t correlation, thread;
  uint32_t overhead;  // CUpti_ActivityOverheadKind
  uint32_t reserved;
  int64_t start_ns, end_ns;
};

// CUpti_ActivityExternalCorrelation, of the kind that the tracer uses.
struct ExternalId {
  Record record;
  uint64_t id;  // Collective::operation_id or Transfers::operation_id
  uint32_t correlation;
  uint32_t reserved;
};

// Operations of communicators, as the NCCL stand-in says them.
inline constexpr uint16_t kCaptured = 1;  // flag: into a graph; each launch does it
struct Collective {
  Record record;
  uint64_t operation_id;  // raw: 1, 2, 3, ...; canonical: 0, but of captured ones
  uint64_t count;         // NCCL's count argument
  uint32_t correlation;   // canonical: of the launch; raw: 0, see ExternalId
  uint32_t thread;        // raw: the caller's thread, as the system numbers it
  uint32_t communicator;
  uint32_t stream;  // raw: the lane, where the GPU is virtual
  uint32_t root;
  protocol::CollectiveKind operation;
  protocol::ElementType type;
  protocol::Reduction reduction;
  uint8_t reserved;
};

struct Transfers {
  Record record;
  uint64_t operation_id;
  uint32_t correlation, thread, communicator, stream;  // as in Collective
  uint32_t count;                                      // transfers that follow
  uint32_t reserved;
};

// A communicator comes into being: init (parent == 0) or split.
struct Creation {
  Record record;
  uint32_t communicator, thread;
  uint32_t parent;
  int32_t color, key;              // split
  uint32_t ranks, rank;            // init: as the caller states them
  uint32_t name;                   // ncclConfig_t::commName
  uint32_t told_size, told_index;  // what the rank was told; size 0: no member
  int64_t start_ns, end_ns;
  uint8_t unique_id[protocol::kUniqueIdBytes];  // init
};

struct Release {
  Record record;
  uint32_t communicator, thread;
  protocol::ReleaseKind release;
  uint32_t reserved;
  int64_t start_ns, end_ns;
};

// A node of an executable graph. Those of one graph are numbered from 0, each behind
// all that the file says of the graph so far; the graph is known once all are there.
// Behind the struct: the nodes that it waits for, by index, then the operations that
// it is, by Collective::operation_id or Transfers::operation_id.
struct GraphNode {
  Record record;
  uint64_t node;          // as Work::graph_node has it
  uint32_t graph, index;  // the executable graph's number, the node's in it
  uint32_t type;          // CUgraphNodeType
  uint32_t before;        // how many nodes it waits for
  uint32_t operations;    // how many operations it is
  uint32_t reserved;
};

// An executable graph gets other contents than it was made with, or (kDestroyed) ends.
struct GraphChange {
  Record record;
  uint32_t graph;
  uint32_t correlation;  // the call that does it; 0: unknown
};

struct GraphLaunch {
  Record record;
  uint32_t correlation;
  uint32_t graph;
  uint32_t context, stream;  // that it is launched in
};

// CPU time of the program between its calls, which passed on the rank's host clock
// (protocol::HostTime): from the emulator, which alone can tell it from what calls
// cost. In the order in which it passed.
inline constexpr uint16_t kMeasuredTime = 1;  // flag: measured; otherwise: as recorded
struct HostTime {
  Record record;
  int64_t after_ns;  // host time of the rank before it, waits left out
  int64_t ns;
};

// Records that are missing: of CUPTI, whose buffers overflowed, and of the tracer.
struct Dropped {
  Record record;
  uint64_t by_cupti, by_tracer;
};

// What the session knew of the slice: graph/trace/session.proto, serialized.
struct Session {
  Record record;
  uint32_t length;  // bytes that follow, padded to 8
  uint32_t reserved;
};

inline constexpr uint16_t kCutOff = 1;  // flag: the raw file had no end
// Flag: at the end CUPTI gave its records to somebody else, nobody knows how many.
inline constexpr uint16_t kRecordsTaken = 2;
struct End {
  Record record;
};

static_assert(sizeof(ChunkHeader) == 32 && sizeof(Record) == 8);
static_assert(sizeof(Call) == 40 && sizeof(Work) == 104 && sizeof(Sync) == 56);
static_assert(sizeof(EventRecord) == 32 && sizeof(Stream) == 32);
static_assert(sizeof(Memory) == 40 && sizeof(Pool) == 40 && sizeof(Reserve) == 40);
static_assert(sizeof(Range) == 32 && sizeof(Overhead) == 40);
static_assert(sizeof(ExternalId) == 24 && sizeof(Collective) == 48);
static_assert(sizeof(Transfers) == 40 && sizeof(Creation) == 192);
static_assert(sizeof(GraphNode) == 40 && sizeof(GraphChange) == 16);
static_assert(sizeof(GraphLaunch) == 24 && sizeof(Context) == 32);
static_assert(sizeof(Release) == 40 && sizeof(Dropped) == 24);
static_assert(sizeof(HostTime) == 24);

constexpr uint32_t RoundUp8(uint32_t bytes) {
  return (bytes + 7) & ~7u;
}

}  // namespace vrank::trace

#endif  // VRANK_BASE_GUEST_TRACE_FORMAT_H_
