// Streams as lanes, and CUDA's rules for default streams as edges between them.
//
// The emulator's engine knows lanes that run in order and tokens that others wait for,
// nothing else. CUDA's rules become records here:
//   - An operation in the legacy default stream begins after all that was issued before
//     it to the context's blocking streams, and blocking streams' later operations
//     begin after it ("Stream synchronization behavior", CUDA runtime API).
//   - Per-thread default streams are blocking streams; non-blocking streams take no
//   part.
// An edge is a hidden token, recorded and waited for. It is written only where the
// waiting side has not yet waited for that very work: streams remember whether they are
// dirty, and how much of the legacy stream they have seen.
//
// Not thread-safe: the GPU's lock guards it.

#ifndef VRANK_VIRTUAL_GPU_CORE_STREAM_LANES_H_
#define VRANK_VIRTUAL_GPU_CORE_STREAM_LANES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <queue>
#include <vector>

#include "base/guest/channel.h"
#include "virtual_gpu/core/handle_table.h"
#include "virtual_gpu/core/stream.h"

namespace vrank::gpu {

class StreamLanes {
 public:
  explicit StreamLanes(Channel* channel) : channel_(channel) {}

  // --- Streams -----------------------------------------------------------------
  Stream* Create(int device, unsigned flags, int priority);
  // A lane that is no stream of the program (of an executable graph), and its end.
  Stream* CreateInternal(int device);
  void DestroyInternal(Stream* stream);
  // Work that was issued goes on; device-wide waits still cover it.
  void Destroy(Stream* stream);
  // `handle` as programs pass it, for a context of `device`; nullptr where it is none.
  // Streams of other devices are found too.
  Stream* Find(void* handle, int device);
  // The stream with this lane; nullptr where there is none.
  Stream* FindLane(uint32_t lane);
  // All streams of the device, default streams included, in order of their lanes.
  std::vector<Stream*> OfDevice(int device);
  // Forgets all streams of the device (its context ends).
  void DestroyAll(int device);

  // --- Edges -------------------------------------------------------------------
  // Writes the edges that an operation on `stream` needs before its own record.
  void Before(Stream* stream);
  // An operation that may end later than all before it was issued to `stream`.
  void After(Stream* stream);
  // `waiting` goes on after all that `before` holds now.
  void Join(Stream* waiting, Stream* before);
  // Its two halves: the token of `before`, and the wait for it.
  void RecordHidden(Stream* stream, uint16_t flags = 0);
  void WaitForHidden(Stream* waiting, Stream* before);
  // The same for a token.
  void Wait(Stream* waiting, const Token& token, uint16_t flags = 0);
  // Records the token at the end of the stream. `flags`: Record::flags.
  void Record(Stream* stream, Token* token, uint16_t flags = 0);

  // --- Tokens ------------------------------------------------------------------
  Token TakeToken();
  // A token that no wait of the host names and whose generations nobody counts.
  Token TakeInternalToken();
  void GiveBackInternalToken(const Token& token) {
    free_internal_tokens_.push_back(token);
  }
  void GiveBackToken(const Token& token);

  // --- Waits of the host ----------------------------------------------------------
  // Whose work a wait of the host for `stream`, or a question about it, covers: that of
  // the legacy stream covers what the blocking streams hold, which it has not waited
  // for yet. A blocking stream's covers its own work only, of which what needs the
  // legacy stream has waited for that. A wait is no work: it writes no edge.
  std::vector<Stream*> CoveredBy(Stream* stream) const;
  // Work of destroyed streams of the device that no wait has covered. TakeLeft hands it
  // to the caller, who waits for it and gives the tokens back.
  struct Left {
    std::vector<Token> tokens;
    ObligationSet covers;
  };
  Left TakeLeft(int device);

 private:
  struct Device {
    std::unique_ptr<Stream> legacy;
    std::map<uint64_t, std::unique_ptr<Stream>> per_thread;  // by thread number
    std::vector<Stream*> dirty;    // blocking streams, in the order they became so
    uint64_t legacy_issued = 0;    // operations in the legacy stream so far
    uint64_t legacy_recorded = 0;  // ... of which its hidden token covers so many
    Left left;
  };

  std::unique_ptr<Stream> Make(int device, unsigned flags, int priority);
  void Release(Stream* stream);
  Stream* Legacy(int device);
  Stream* PerThread(int device);
  void NeedHidden(Stream* stream);

  Channel* const channel_;
  std::map<int, Device> devices_;
  std::map<uint32_t, std::unique_ptr<Stream>> internal_;  // by lane
  HandleTable<Stream, 0x51> streams_;
  std::vector<Stream*> by_lane_;  // index: lane
  std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<>> free_lanes_;
  std::vector<Token> free_tokens_, free_internal_tokens_;
  uint32_t next_token_ = 1;
  uint64_t next_stream_id_ = 1;
};

// Merges `more` into `set`.
void Merge(ObligationSet* set, const ObligationSet& more);

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_STREAM_LANES_H_
