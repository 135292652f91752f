// What the virtual GPU notes for a profiler (activity.h): work, waits, memory, streams.
//
// In front of the ActivityRecorder, it fills in what all notes share (the call, context
// and stream numbers) and owns the numbers that only profilers see: of events and their
// recordings, and of the graph node that is being issued.
//
// A note belongs to the calling thread's latest record where nothing else is said.
// Sizes are in bytes.
//
// Not thread-safe: the GPU's lock guards it, except Sync and Question, which use no
// state of this object. All but the numbers REQUIRE listening().

#ifndef VRANK_VIRTUAL_GPU_CORE_ACTIVITY_NOTES_H_
#define VRANK_VIRTUAL_GPU_CORE_ACTIVITY_NOTES_H_

#include <cstdint>

#include "base/guest/protocol.h"
#include "virtual_gpu/core/activity.h"
#include "virtual_gpu/core/activity_recorder.h"
#include "virtual_gpu/core/device_memory.h"
#include "virtual_gpu/core/stream.h"

namespace vrank::gpu {

// Records of the calling thread; zeros: none.
struct RecordRange {
  uint64_t first = 0, last = 0;
};

class ActivityNotes {
 public:
  explicit ActivityNotes(ActivityRecorder& recorder) : recorder_(recorder) {}

  bool listening() const { return recorder_.listening(); }
  uint64_t LastRecord() const { return recorder_.LastRecord(); }

  void Work(const Stream& stream, ActivityWork work);
  void Copy(const Stream& stream, const protocol::Copy& copy);
  // A kCollective, kPointToPoint or kCopy record of libnccl.
  void LibraryWork(const Stream& stream, const protocol::Record& record);
  void EventRecord(const Stream& stream, uint32_t event, uint64_t recording);
  // A wait of the host with its records, or (kStreamWait) of a stream.
  void Sync(ActivitySync sync, RecordRange records = {});
  // A question of the host: the thread's latest record.
  void Question(const ActivitySync& sync);
  void StreamChange(Stream* stream, bool destroyed);
  // `delta`: of the device's used memory.
  void Memory(ActivityMemory memory, int64_t delta);
  // Memory that has no address of the program's; nothing where `delta` is 0.
  void HiddenMemory(int device, protocol::MemoryOwner owner, int64_t delta);
  void HostMemory(bool release, uint64_t address, uint64_t bytes);
  void Context(int device, int64_t delta);

  // Numbers of events, which are never reused, and of their recordings; from 1.
  uint32_t NextEvent() { return ++events_; }
  uint64_t NextRecording() { return ++recordings_; }
  // The executable graph and the node of it that are being issued; 0: none.
  void SetGraph(uint32_t exec) { graph_exec_ = exec; }
  void SetGraphNode(uint64_t node) { graph_node_ = node; }

  static uint32_t ContextOf(int device) { return static_cast<uint32_t>(device) + 1; }
  // As in the driver: each device has its primary context and no other.
  static void* ContextHandle(int device) {
    return reinterpret_cast<void*>(uintptr_t{ContextOf(device)});
  }
  // CUPTI gives the legacy default stream the number 7; others count on from there.
  static uint32_t NumberOf(const Stream& stream) {
    constexpr uint32_t kLegacy = 7;
    return stream.legacy ? kLegacy : kLegacy + static_cast<uint32_t>(stream.id);
  }
  static ActivitySync SyncOn(const Event& event) {
    return {.kind = ActivitySyncKind::kEvent,
            .context = ContextOf(event.device),
            .event = event.number,
            .event_sync_id = event.recording};
  }
  static ActivitySync SyncOn(const Stream& stream) {
    return {.kind = ActivitySyncKind::kStream,
            .context = ContextOf(stream.device),
            .stream = NumberOf(stream)};
  }
  static ActivityMemory MemoryOf(const Allocation& allocation, int device);

 private:
  ActivityRecorder& recorder_;
  uint32_t events_ = 0;
  uint64_t recordings_ = 0;
  uint32_t graph_exec_ = 0;
  uint64_t graph_node_ = 0;
};

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_ACTIVITY_NOTES_H_
