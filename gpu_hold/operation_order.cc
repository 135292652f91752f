#include "gpu_hold/operation_order.h"

#include <utility>

namespace vrank::hold {

bool OperationOrder::Begin() {
  latest_ = streams_->NewEvent();
  latest_in_capture_ = streams_->NewEvent();
  return latest_ != nullptr && latest_in_capture_ != nullptr;
}

void OperationOrder::End() {
  for (void** const event : {&latest_, &latest_in_capture_})
    if (void* const made = std::exchange(*event, nullptr); made != nullptr)
      streams_->FreeEvent(made);
}

bool OperationOrder::Follow(uint64_t capture, void* stream) {
  if (capture == 0)
    return streams_->Await(stream, latest_);
  if (capture == capture_)
    return streams_->Await(stream, latest_in_capture_);
  return streams_->AwaitAtLaunch(stream, latest_);
}

bool OperationOrder::Precede(uint64_t capture, void* stream) {
  if (capture == 0)
    return streams_->Record(latest_, stream);
  capture_ = capture;
  return streams_->RecordAtLaunch(latest_, stream) &&
         streams_->Record(latest_in_capture_, stream);
}

}  // namespace vrank::hold
