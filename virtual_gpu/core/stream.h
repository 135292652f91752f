// What the core keeps about streams, events and the tokens behind them.
//
// Thread rule: plain values; the GPU's lock guards them.

#ifndef VRANK_VIRTUAL_GPU_CORE_STREAM_H_
#define VRANK_VIRTUAL_GPU_CORE_STREAM_H_

#include <cstdint>
#include <optional>
#include <vector>

namespace vrank::gpu {

// A token of the protocol and how often it was recorded; 0: never.
struct Token {
  uint32_t id = 0;
  uint32_t generation = 0;
};

// Ids (obligations.h) of what must have happened on the host before a wait for this
// point of a stream may return: copies to the host whose bytes are still on their way,
// host functions that have not run. Sorted; empty in almost all programs, almost all
// the time.
using ObligationSet = std::vector<uint64_t>;

struct Capture;    // virtual_gpu/core/capture.h
struct GraphNode;  // virtual_gpu/core/graph.h

struct Stream {
  void* handle = nullptr;  // nullptr: a default stream
  int device = 0;
  uint32_t lane = 0;
  unsigned flags = 0;
  int priority = 0;
  uint64_t id = 0;
  bool legacy = false;    // the legacy default stream of its context
  bool blocking = false;  // takes part in the legacy stream's rules; not itself legacy

  // Work that the legacy stream has not waited for yet.
  bool dirty = false;
  // How much of the legacy stream's work this stream has waited for.
  uint64_t legacy_seen = 0;
  // Used for edges that CUDA's rules imply; taken when first needed.
  Token hidden;
  // Operations issued, and how many of them a host wait has covered.
  uint64_t issued = 0;
  uint64_t waited = 0;
  ObligationSet covers;
  bool noted = false;     // a profiler knows of it
  bool internal = false;  // a lane of an executable graph, no stream of the program
  // While it is captured: what its next node waits for.
  Capture* capture = nullptr;
  std::vector<GraphNode*> captured_after;
};

struct Event {
  uint32_t number = 0;     // never reused
  uint64_t recording = 0;  // number of the latest one, never reused; 0: none
  unsigned flags = 0;
  int device = 0;
  bool recorded = false;
  bool imported = false;  // another process's (shared_handles.h)
  // Last recorded in this capture (Capture::id), after these nodes; 0: in none.
  uint64_t capture = 0;
  std::vector<GraphNode*> captured_after;
  Token token;  // taken at the first record; may have been another event's before
  ObligationSet covers;
  // Its end, once an answer told it; of the current generation.
  std::optional<int64_t> end_ns;
};

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_STREAM_H_
