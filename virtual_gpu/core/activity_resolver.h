// Gives notes their times: the profiler's half that runs after the program.
//
// Notes come in the order of their marks, entries of the emulator in the order of
// records. What the host did has a time once the mark's record has passed; work has one
// once its end is published, and is reported no earlier than its call could be. Pure
// bookkeeping: no threads, no channel.
//
// Thread rule: one thread at a time.

#ifndef VRANK_VIRTUAL_GPU_CORE_ACTIVITY_RESOLVER_H_
#define VRANK_VIRTUAL_GPU_CORE_ACTIVITY_RESOLVER_H_

#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <unordered_map>
#include <variant>
#include <vector>

#include "base/guest/activity_channel.h"
#include "virtual_gpu/core/activity.h"
#include "virtual_gpu/core/time_sources.h"

namespace vrank::gpu {

// The outermost call with this number begins at the note's mark.
struct CallBegin {
  uint32_t correlation = 0;
};

// Something that the program did, without its times.
struct ActivityNote {
  using What = std::variant<CallBegin, ActivityCall, ActivityWork, ActivitySync,
                            ActivityEventRecord, ActivityStream, ActivityMemory,
                            ActivityRange, ActivityExternalId>;
  ActivityListener* listener = nullptr;
  HostMark mark;
  // Work and event records: their record. Waits: the first and the last of theirs, 0
  // where the call had nothing to wait for.
  uint64_t record = 0;
  uint64_t last_record = 0;
  What what;
};

class ActivityResolver {
 public:
  // Takes both and reports what has become known. REQUIRES: `notes` holds every note
  // that was made before the latest of `entries` was published.
  void Take(std::vector<ActivityNote>* notes,
            std::span<const protocol::ActivityEntry> entries);

  // What the host did up to and with this record has been reported.
  bool PassedUntil(uint64_t record) const {
    return notes_.empty() || notes_.front().mark.record > record;
  }
  // That, and the work that it issued.
  bool DoneUntil(uint64_t record) const {
    return PassedUntil(record) &&
           (awaited_.empty() || awaited_.begin()->first > record);
  }

  // Of everything reported so far.
  const TimeSources& sources() const { return sources_; }

 private:
  struct Span {
    int64_t begin_ns = 0, end_ns = 0;
    protocol::TimeSource source = protocol::TimeSource::kModelled;
  };
  using Spans = std::unordered_map<uint64_t, Span>;

  static bool TakeSpan(Spans* spans, uint64_t record, Span* span);
  void TakeEntry(const protocol::ActivityEntry& entry);
  // Reports notes up to the record that has passed last.
  void ReportPassed(uint64_t before);
  void Report(ActivityNote* note);
  void ReportLaunch(ActivityNote* note, uint32_t correlation);
  void ReportWork(ActivityNote* note, const Span& span);

  uint64_t passed_ = 0;  // record
  int64_t host_ns_ = 0;  // the host clock after it
  std::deque<ActivityNote> notes_;
  std::unordered_map<uint32_t, int64_t> starts_;  // of open calls, by correlation
  Spans waits_, queue_waits_, ended_;             // by record, published and not asked
  std::map<uint64_t, ActivityNote> awaited_;      // by record, not published yet
  TimeSources sources_;
};

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_ACTIVITY_RESOLVER_H_
