// Collects what real ranks compute between their calls, until it becomes HostTimes.
//
// Memory: at most kMostSamples values for each key, and as many for each kind of anchor
// at which its gaps ended where there are several.
//
// Thread rule: one thread (the session's).

#ifndef VRANK_EMULATOR_HOST_TIME_GAP_RECORDER_H_
#define VRANK_EMULATOR_HOST_TIME_GAP_RECORDER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/guest/anchor_history.h"
#include "base/guest/protocol.h"
#include "emulator/host_time/host_times.h"

namespace vrank::emulator {

class GapRecorder {
 public:
  static constexpr size_t kMostSamples = 1024;

  void Add(int32_t rank, const protocol::HostGaps& batch,
           std::span<const protocol::HostGap> gaps);
  // Of a thread whose process moves no clock: no part of the run's CPU time, which is
  // that of threads that issue work.
  void AddOfFollower(int32_t rank, const protocol::HostGaps& batch,
                     const protocol::HostGap& gap);
  // What was collected; of the machine nothing is known here.
  HostTimes Collected() const;

 private:
  // Every stride-th value, and the sum of it and those up to the next one.
  struct Samples {
    uint64_t count = 0, stride = 1;
    std::vector<int64_t> values, sums;
    void Add(int64_t ns);
    int64_t Mean() const;
  };
  // Of one key.
  struct Gap {
    uint32_t depth = 0;
    Samples all;
    // By the kind of the anchor at which they ended; as long as there is one kind, it
    // alone is known.
    uint64_t first_kind = 0;
    std::map<uint64_t, Samples> by_end;
    void Add(int64_t ns, uint64_t end);
    GapEstimate Estimated() const;
  };
  AnchorHistory& HistoryOf(int32_t rank, uint32_t thread, uint64_t role);
  void AddGap(AnchorHistory* history, uint64_t anchor, uint64_t end, int64_t ns);

  std::map<std::pair<int32_t, uint32_t>, std::unique_ptr<AnchorHistory>> threads_;
  std::unordered_map<uint64_t, Gap> gaps_;  // by key
  RecordedRun run_;
};

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_HOST_TIME_GAP_RECORDER_H_
