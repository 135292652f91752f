// The client's activity buffers: asked for when there is a record to store, filled, and
// given back when full or flushed.
//
// Both callbacks are the client's. A buffer is requested by the thread that has the
// record; a full one is given back by the next DeliverFull, which whoever reports calls
// after each record, so that a program's own threads never run the completion callback
// except in a flush. What finds no room is counted, and read by
// cuptiActivityGetNumDroppedRecords.
//
// Thread rule: may be called from any thread. The completion callback runs without a
// lock on the writing side: records go on being stored meanwhile.

#ifndef VRANK_VIRTUAL_GPU_API_CUPTI_BUFFERS_H_
#define VRANK_VIRTUAL_GPU_API_CUPTI_BUFFERS_H_

#include <cupti.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace vrank::cupti {

// Records start at multiples of this ("Activity buffers [...] must be aligned at 8
// bytes", ACTIVITY_RECORD_ALIGNMENT in cupti_activity.h).
inline constexpr size_t kRecordAlignment = 8;

class ActivityBuffers {
 public:
  // Replaces the client's callbacks.
  void SetCallbacks(CUpti_BuffersCallbackRequestFunc request,
                    CUpti_BuffersCallbackCompleteFunc complete);
  bool has_callbacks();

  // Copies a record in, or counts it as dropped.
  void Add(const void* record, size_t bytes);

  // Gives back the buffers that are full. One load where there are none.
  void DeliverFull();
  // Gives back every buffer that holds a record. On return no other thread is still in
  // the completion callback of an earlier one. False within that callback, where it
  // could not wait for itself.
  bool DeliverAll();
  // The calling thread is in the client's completion callback.
  static bool InCallback();

  // Records dropped since the last call.
  size_t TakeDropped() { return dropped_.exchange(0); }

  // Whether buffers are cleared before they are filled
  // (CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER is 0).
  void set_clears(bool clears) { clears_.store(clears); }

 private:
  struct Buffer {
    uint8_t* bytes = nullptr;
    size_t size = 0;
    size_t used = 0;
    size_t max_records = 0;  // 0: no limit
    size_t records = 0;

    bool Takes(size_t more) const {
      return size - used >= more && (max_records == 0 || records < max_records);
    }
  };

  // REQUIRES: mutex_.
  bool Request(size_t bytes);
  void Retire();

  void Deliver();

  std::mutex mutex_;  // guards the next five
  CUpti_BuffersCallbackRequestFunc request_ = nullptr;
  CUpti_BuffersCallbackCompleteFunc complete_ = nullptr;
  Buffer current_;  // no bytes: there is none
  std::vector<Buffer> full_;
  std::atomic<bool> has_full_{false};

  std::mutex delivery_;  // held while the completion callback runs
  std::atomic<size_t> dropped_{0};
  std::atomic<bool> clears_{true};
};

}  // namespace vrank::cupti

#endif  // VRANK_VIRTUAL_GPU_API_CUPTI_BUFFERS_H_
