// Events: tokens that programs hold, and questions about their ends.
//
// Owns the events. Times are in nanoseconds of virtual time.
//
// Not thread-safe: the GPU's lock guards it; methods that take it give it back
// meanwhile.

#ifndef VRANK_VIRTUAL_GPU_CORE_EVENTS_H_
#define VRANK_VIRTUAL_GPU_CORE_EVENTS_H_

#include <cstdint>

#include "base/guest/channel.h"
#include "virtual_gpu/core/activity_notes.h"
#include "virtual_gpu/core/api_lock.h"
#include "virtual_gpu/core/capture.h"
#include "virtual_gpu/core/error.h"
#include "virtual_gpu/core/handle_table.h"
#include "virtual_gpu/core/obligations.h"
#include "virtual_gpu/core/pools.h"
#include "virtual_gpu/core/stream.h"
#include "virtual_gpu/core/stream_lanes.h"

namespace vrank::gpu {

class Events {
 public:
  Events(Channel* channel, StreamLanes& lanes, Captures& captures,
         Obligations& obligations, Pools& pools, ActivityNotes& notes)
      : channel_(channel),
        lanes_(lanes),
        captures_(captures),
        obligations_(obligations),
        pools_(pools),
        notes_(notes) {}

  // nullptr where the handle is none.
  Event* Find(void* handle) const { return events_.Find(handle); }
  void* Add(unsigned flags, int device);
  Error Destroy(void* handle);

  // A record of the event at the end of the stream. `flags`: Record::flags.
  void Record(Stream* on, Event* recorded, uint16_t flags);
  // What `waiting` does from here on starts after the event.
  void OrderBehind(Stream* waiting, const Event& awaited);

  // --- The host; each may be the program's call
  // ---------------------------------------
  Error Synchronize(void* handle, ApiLock* lock);
  // kSuccess or kNotReady.
  Error Query(void* handle, ApiLock* lock);
  Error Elapsed(void* start, void* end, int64_t* elapsed_ns, ApiLock* lock);

  // The device's context ends; a node of a graph that is captured is gone.
  void Drop(int device);
  void Forget(const GraphNode* node);

 private:
  // When another process's event happens is not known: a wait for it is counted.
  void CountWait(const Event& event);
  Error FindEnd(void* handle, ApiLock* lock, int64_t* end_ns);
  // The end of this recording of the event is known.
  void KeepEnd(void* handle, uint32_t generation, const Answer& answer);

  Channel* const channel_;
  StreamLanes& lanes_;
  Captures& captures_;
  Obligations& obligations_;
  Pools& pools_;
  ActivityNotes& notes_;
  HandleTable<Event, 0x52> events_;
};

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_EVENTS_H_
