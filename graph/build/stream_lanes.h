// Streams as lanes, and CUDA's rules for default streams as edges between them.
//
// A trace shows streams, events and waits; a program knows lanes and tokens only. The
// edges that CUDA implies without a call ("Stream synchronization behavior", CUDA
// runtime API) become hidden tokens here, by the same rules and in the same order in
// which the virtual GPU writes them (virtual_gpu/core/lanes.h), so that a program built
// from a trace has the ops of the run that was traced:
//   - Work in the legacy default stream begins after all that was issued before it to
//     the context's blocking streams, and their later work begins after it.
//   - Per-thread default streams are blocking streams; non-blocking streams take no
//     part.
// An edge is written only where the waiting side has not waited for that very work yet.
//
// Numbers are given out lowest first, so they depend on the trace alone.
//
// Thread rule: one builder.

#ifndef VRANK_GRAPH_BUILD_STREAM_LANES_H_
#define VRANK_GRAPH_BUILD_STREAM_LANES_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <utility>
#include <vector>

#include "base/guest/freed_ranges.h"
#include "graph/schema/op.h"
#include "graph/trace/rank_trace.h"

namespace vrank::graph {

class StreamLanes {
 public:
  struct Stream {
    uint32_t context = 0;
    uint32_t lane = 0;
    uint64_t id = 0;  // never reused, as lanes are
    bool legacy = false;
    // Takes part in the legacy stream's rules; not itself legacy.
    bool blocking = false;
    // Holds work that the legacy stream has not waited for.
    bool dirty = false;
    uint64_t legacy_seen = 0;
    uint32_t hidden = 0;  // token of implied edges; taken when first needed
    // Operations issued, and how many of them a wait of the host has covered.
    uint64_t issued = 0, waited = 0;
    // When the lane ends by the times that the trace shows.
    int64_t end_ns = 0;
  };

  // `append` takes the ops as they come.
  explicit StreamLanes(std::function<void(const Op&)> append)
      : append_(std::move(append)) {}

  // An op that concerns no stream.
  void Note(const Op& op) { append_(op); }

  // The stream that CUPTI numbers so; made where it is not known yet. `made`: it was.
  Stream* Find(uint32_t context, uint32_t number, bool* made = nullptr);
  void Create(uint32_t context, uint32_t number, TracedStream::Kind kind);
  // Waits for the device still cover what the stream held.
  void Destroy(uint32_t context, uint32_t number);
  bool Has(uint32_t context, uint32_t number) const {
    return streams_.contains({context, number});
  }
  // A lane that is no stream of the program (of an executable graph), and its end.
  Stream* CreateInternal(uint32_t context);
  void DestroyInternal(Stream* stream);

  // --- Edges, as virtual_gpu/core/lanes.h has them --------------------------------
  void Before(Stream* stream);
  void After(Stream* stream);
  void Join(Stream* waiting, Stream* before);
  void Record(Stream* stream, uint32_t token);
  void Wait(Stream* waiting, uint32_t token);

  uint32_t TakeToken();
  void GiveBackToken(uint32_t token) { free_tokens_.push(token); }
  int64_t TokenEnd(uint32_t token) const { return token_ends_[token]; }

  // --- Waits of the host ----------------------------------------------------------
  // Each returns the end of what is waited for, by the times that the trace shows.
  // Nothing is written where a wait has covered all of it.
  int64_t HostWait(Stream* stream);
  // Streams with work that no wait has covered and that one for this stream does, as
  // Lanes::CoveredBy of the virtual GPU has them.
  std::vector<Stream*> Uncovered(Stream* stream) const;
  int64_t HostWaitForContext(uint32_t context);

  // --- Stream-ordered memory --------------------------------------------------------
  // Memory that one stream freed and another takes makes the taker follow the freer.
  void FreeRange(Stream* stream, uint64_t begin, uint64_t end);
  void TakeRange(Stream* stream, uint64_t begin, uint64_t end);

 private:
  struct Context {
    Stream* legacy = nullptr;
    std::vector<Stream*> dirty;  // blocking streams, in the order they became so
    uint64_t legacy_issued = 0;
    uint64_t legacy_recorded = 0;  // ... of which its hidden token covers so many
    std::vector<uint32_t> left;    // tokens: work of destroyed streams
  };
  using Key = std::pair<uint32_t, uint32_t>;  // context, CUPTI's number
  using Lowest =
      std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<uint32_t>>;

  std::unique_ptr<Stream> Make(uint32_t context);
  void HostWaitLane(Stream* stream);
  void Release(Stream* stream);
  Stream* Owner(const FreedBy& freed) const;

  std::function<void(const Op&)> append_;
  std::map<Key, std::unique_ptr<Stream>> streams_;
  std::map<uint32_t, std::unique_ptr<Stream>> internal_;  // by lane
  std::map<uint32_t, Context> contexts_;
  std::vector<Stream*> by_lane_{nullptr};  // lane 0 is the host
  Lowest free_lanes_;
  Lowest free_tokens_;
  std::vector<int64_t> token_ends_{0};  // by token; token 0 is none
  uint64_t next_id_ = 1;
  FreedRanges freed_;
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_BUILD_STREAM_LANES_H_
