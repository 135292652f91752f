// Streams as calls of the program name them: work in them, waits for them, questions
// about them.
//
// The streams themselves are the lanes' (stream_lanes.h).
//
// Not thread-safe: the GPU's lock guards it; methods that take it give it back
// meanwhile.

#ifndef VRANK_VIRTUAL_GPU_CORE_STREAMS_H_
#define VRANK_VIRTUAL_GPU_CORE_STREAMS_H_

#include "base/guest/channel.h"
#include "virtual_gpu/core/activity_notes.h"
#include "virtual_gpu/core/api_lock.h"
#include "virtual_gpu/core/capture.h"
#include "virtual_gpu/core/contexts.h"
#include "virtual_gpu/core/error.h"
#include "virtual_gpu/core/gpu_types.h"
#include "virtual_gpu/core/host_waits.h"
#include "virtual_gpu/core/obligations.h"
#include "virtual_gpu/core/stream.h"
#include "virtual_gpu/core/stream_lanes.h"

namespace vrank::gpu {

class Streams {
 public:
  Streams(Channel* channel, Contexts& contexts, StreamLanes& lanes, Captures& captures,
          Obligations& obligations, HostWaits& waits, ActivityNotes& notes)
      : channel_(channel),
        contexts_(contexts),
        lanes_(lanes),
        captures_(captures),
        obligations_(obligations),
        waits_(waits),
        notes_(notes) {}

  // Contexts::Begin, and the stream that work goes to.
  Error BeginOn(void* handle, Stream** stream);
  // The same of a call that threads make, too, which issue no work.
  Error BeginBeside(void* handle, Stream** stream);
  // The same of a call that only asks about the stream.
  Error Find(void* handle, Stream** stream);

  // nullptr: the device has no memory for it.
  void* Create(int device, unsigned flags, int priority);
  Error Synchronize(Stream* stream, ApiLock* lock);
  // kSuccess or kNotReady.
  Error Query(Stream* stream, ApiLock* lock);

 private:
  Channel* const channel_;
  Contexts& contexts_;
  StreamLanes& lanes_;
  Captures& captures_;
  Obligations& obligations_;
  HostWaits& waits_;
  ActivityNotes& notes_;
};

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_STREAMS_H_
