// The profiler's half that runs with the program: notes calls and what they did, and
// reports them (activity_resolver.h): on a thread of its own, and on one that flushes,
// which so waits for no other thread.
//
// A note costs a mark and a push under one short lock; its time is found later. Nothing
// is noted while nobody listens.
//
// Thread rule: every method may be called from any thread. The GPU's lock may be held
// while a note is made, and is not needed to report one.

#ifndef VRANK_VIRTUAL_GPU_CORE_ACTIVITY_RECORDER_H_
#define VRANK_VIRTUAL_GPU_CORE_ACTIVITY_RECORDER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/guest/activity_channel.h"
#include "base/guest/channel.h"
#include "virtual_gpu/core/activity.h"
#include "virtual_gpu/core/activity_resolver.h"
#include "virtual_gpu/core/activity_tap.h"

namespace vrank::gpu {

class ActivityRecorder final : public Activity,
                               public ActivityTap,
                               private ProfiledGpu {
 public:
  // `channel` may be nullptr or have no activity(): then nothing is ever reported.
  // `introduce` runs when somebody begins to listen: it notes what exists already.
  ActivityRecorder(Channel* channel, std::function<void()> introduce);
  ~ActivityRecorder();

  // Activity.
  void SetListener(ActivityListener* listener) override;
  void Flush(bool wait_for_work) override;
  void PushExternalId(uint32_t kind, uint64_t id) override;
  bool PopExternalId(uint32_t kind, uint64_t* id) override;
  int64_t Now() override;

  // ActivityTap.
  void Enter(bool is_driver, const char* function, const void* parameters) override;
  void Exit(int32_t result) override;

  // --- For the virtual GPU --------------------------------------------------------
  // The rank has been claimed: where somebody listens, times are published from its
  // first record on.
  void RankClaimed();
  // For work that a library issues outside of any CUDA call: nullptr inside of one, and
  // where nobody listens.
  ActivityTap* TapOutsideCalls() {
    return listening() && Correlation() == 0 ? this : nullptr;
  }
  // The others REQUIRE listening().
  // The number of the calling thread's outermost call; 0 outside of one.
  static uint32_t Correlation();
  // The calling thread's latest record.
  uint64_t LastRecord() const { return wire_->LastRecord(); }
  // Notes something that happens now. `record`, `last_record`: see ActivityNote.
  void Note(ActivityNote::What what, uint64_t record = 0, uint64_t last_record = 0);
  void TellStreamNow(const ActivityStream& stream, void* handle);
  void TellContextNow(uint32_t context, void* handle, bool created);
  void TellGraphNow(const ActivityGraph& graph);

 private:
  // ProfiledGpu.
  void OnRange(bool begin, uint32_t id, std::string_view name) override;
  std::string DescribeTimeSources() override;

  void Wish(protocol::ActivityWish wish);
  // REQUIRES: mutex_ held.
  void NoteLocked(ActivityNote::What what, uint64_t record, uint64_t last_record);
  int64_t Ask(protocol::ActivityWish wish, HostMark* mark);
  const char* Keep(std::string_view text);
  void Run();
  bool Report();  // REQUIRES: report_mutex_ held
  // The rank has one ring of entries: it is for the process that has claimed the rank.
  bool MayRead();

  Channel* const channel_;
  ActivityChannel* const wire_;
  const std::function<void()> introduce_;
  std::atomic<ActivityListener*> listener_{nullptr};
  std::atomic<uint32_t> calls_{0};

  std::mutex mutex_;  // the notes, in the order of their marks
  std::vector<ActivityNote> notes_;
  bool claimed_ = false;                   // records are written
  std::unordered_set<std::string> names_;  // of ranges

  std::mutex report_mutex_;  // held while somebody reports
  ActivityResolver resolver_;
  std::vector<protocol::ActivityEntry> entries_;  // taken, to be reported
  std::vector<ActivityNote> taken_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_ACTIVITY_RECORDER_H_
