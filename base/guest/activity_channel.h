// What a profiler of this process needs of the channel: marks of host time that need no
// question, and what the emulator publishes about the records behind them.
//
// A guest keeps no time. It notes when something happened as a *mark*: so much host
// time after that record. Once the emulator has said when the record passed the host
// (protocol::ActivityEntry), the mark has a time. Asking nobody, a profiled program
// runs through the same virtual times as one that is not.
//
// Records are numbered 1, 2, 3, ... as they are written; 0 stands for the start.
//
// Thread rule: every method may be called from any thread, Read by one at a time.

#ifndef VRANK_BASE_GUEST_ACTIVITY_CHANNEL_H_
#define VRANK_BASE_GUEST_ACTIVITY_CHANNEL_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/guest/protocol.h"
#include "base/guest/units.h"

namespace vrank {

// A point of the process's host time: `pending_ns` after record `record` has passed.
struct HostMark {
  uint64_t record = 0;
  int64_t pending_ns = 0;
};

// The process's GPU, as long as a profiler listens to it.
class ProfiledGpu {
 public:
  // Told of NVTX ranges that become records, on the program's thread. Begin and end of
  // a range share the id, which is never reused; `name` is empty at the end.
  virtual void OnRange(bool begin, uint32_t id, std::string_view name) = 0;
  // A JSON object: who vouches for the times that profilers have been told so far
  // (virtual_gpu/core/time_sources.h). May wait for the reporting thread.
  virtual std::string DescribeTimeSources() = 0;

 protected:
  ~ProfiledGpu() = default;
};

class ActivityChannel {
 public:
  // Now. Marks taken one after the other under one lock never go back.
  virtual HostMark Mark() = 0;
  // Number of the record that the calling thread wrote last; 0: none.
  virtual uint64_t LastRecord() const = 0;

  // Those of the next published entries that are there, in order. Returns how many.
  virtual size_t Read(protocol::ActivityEntry* out, size_t capacity) = 0;
  // Waits at most `patience` of real time: for an entry where `for_entries`, else only
  // until WakeReaders. At once when the session has been called off. In virtual time
  // the calling thread runs meanwhile.
  virtual void Await(bool for_entries, Duration patience) = 0;
  virtual void WakeReaders() = 0;

  // The calling thread takes no part in virtual time from here on: it reads the
  // process's clock, and nobody waits for it. A mutex of the program's that it holds is
  // awaited in real time. One thread of the process at most.
  virtual void HideThread() = 0;

  // A call of the program ends that may have waited for a place in the launch queue:
  // where the clock's steps are kept (torch.profiler), it is asked until when. Nothing
  // is spent. The caller holds no lock.
  virtual void SettleLoggedClock() = 0;

  // nullptr: nobody profiles. The GPU stays valid for the life of the process.
  virtual void SetProfiledGpu(ProfiledGpu* gpu) = 0;

 protected:
  ~ActivityChannel() = default;
};

}  // namespace vrank

#endif  // VRANK_BASE_GUEST_ACTIVITY_CHANNEL_H_
