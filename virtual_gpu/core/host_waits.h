// Waits of the host for streams and devices.
//
// A wait is written down under the GPU's lock and performed without it; what the host
// has seen the end of is marked in the streams. A wait settles the obligations that it
// covers (obligations.h).
//
// Not thread-safe: the GPU's lock guards it; methods that take it give it back
// meanwhile, after which pointers into the GPU's tables may be gone.

#ifndef VRANK_VIRTUAL_GPU_CORE_HOST_WAITS_H_
#define VRANK_VIRTUAL_GPU_CORE_HOST_WAITS_H_

#include <cstdint>
#include <vector>

#include "base/guest/channel.h"
#include "virtual_gpu/core/activity_notes.h"
#include "virtual_gpu/core/api_lock.h"
#include "virtual_gpu/core/error.h"
#include "virtual_gpu/core/obligations.h"
#include "virtual_gpu/core/pools.h"
#include "virtual_gpu/core/stream.h"
#include "virtual_gpu/core/stream_lanes.h"

namespace vrank::gpu {

// What a wait that is about to happen covers.
struct PendingWait {
  struct Lane {
    uint32_t lane;
    uint64_t stream_id;
    uint64_t issued;
  };
  std::vector<Lane> lanes;
  std::vector<Token> tokens;  // given back afterwards
  ObligationSet covers;
  RecordRange records;  // once performed
};

class HostWaits {
 public:
  HostWaits(Channel* channel, StreamLanes& lanes, Obligations& obligations,
            Pools& pools, ActivityNotes& notes)
      : channel_(channel),
        lanes_(lanes),
        obligations_(obligations),
        pools_(pools),
        notes_(notes) {}

  // What a wait for the stream covers that no wait has covered yet, and what one for
  // this stream's own lane does.
  PendingWait CoverStream(Stream* stream);
  PendingWait CoverLane(Stream* stream);
  // The host has seen the end of it.
  void MarkEnded(const PendingWait::Lane& lane);

  Error Perform(PendingWait* wait, ApiLock* lock);
  // Waits for all that the device holds.
  Error WaitForDevice(int device, ApiLock* lock);

 private:
  void Add(Stream* stream, PendingWait* wait);

  Channel* const channel_;
  StreamLanes& lanes_;
  Obligations& obligations_;
  Pools& pools_;
  ActivityNotes& notes_;
};

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_HOST_WAITS_H_
