// The order of a communicator's operations on the device.
//
// They follow each other, whatever their streams, of which the program may have
// destroyed the one before. Those of a capture follow each other by its edges; its
// launches follow, and are followed, like calls.
//
// Thread rule: not thread-safe: the lock of the communicator's holds guards it.
// REQUIRES, of all methods: its device entered (GpuStreams::Enter).

#ifndef VRANK_GPU_HOLD_OPERATION_ORDER_H_
#define VRANK_GPU_HOLD_OPERATION_ORDER_H_

#include <cstdint>

#include "gpu_hold/gpu_streams.h"

namespace vrank::hold {

class OperationOrder {
 public:
  // `streams` outlives it.
  explicit OperationOrder(GpuStreams* streams) : streams_(streams) {}
  OperationOrder(const OperationOrder&) = delete;
  OperationOrder& operator=(const OperationOrder&) = delete;

  // False: no room for its events.
  bool Begin();
  void End();

  // Lets `stream` wait for the latest operation; `capture`: the stream's, 0: none.
  bool Follow(uint64_t capture, void* stream);
  // The operation that `stream` got last is the latest one.
  bool Precede(uint64_t capture, void* stream);

  bool was_captured() const { return capture_ != 0; }

 private:
  GpuStreams* const streams_;
  void* latest_ = nullptr;  // GpuStreams::NewEvent, after the latest operation
  void* latest_in_capture_ = nullptr;  // the same within the capture below
  uint64_t capture_ = 0;               // the latest one
};

}  // namespace vrank::hold

#endif  // VRANK_GPU_HOLD_OPERATION_ORDER_H_
