#include "virtual_gpu/core/shared_handles.h"

#include <algorithm>
#include <vector>

namespace vrank::gpu {

SharedHandle SharedHandles::Make(SharedHandle::Kind kind, int device, uint64_t id,
                                 uint64_t bytes) {
  SharedHandle handle;
  handle.kind = kind;
  handle.rank = channel_->settings().rank;
  handle.node_device = static_cast<uint32_t>(devices_.NodeDevice(device));
  handle.id = id;
  handle.bytes = bytes;
  return handle;
}

Error SharedHandles::Open(const SharedHandle& handle, SharedHandle::Kind kind) {
  if (handle.magic != SharedHandle::kMagic || handle.kind != kind)
    return Error::kInvalidValue;
  if (handle.rank == channel_->settings().rank) {
    if (channel_->settings().played_ranks == 0)
      return Error::kInvalidContext;
    channel_->Count(LossId::kPlayedHandles, 1);
  }
  return Error::kSuccess;
}

bool SharedHandles::IsOwn(const SharedHandle& handle, SharedHandle::Kind kind) const {
  return handle.magic == SharedHandle::kMagic && handle.kind == kind &&
         handle.rank == channel_->settings().rank;
}

int SharedHandles::PlaceOf(const SharedHandle& handle, int device) {
  const std::vector<int>& shown = devices_.visible();
  const auto found =
      std::find(shown.begin(), shown.end(), static_cast<int>(handle.node_device));
  return found == shown.end() ? device : static_cast<int>(found - shown.begin());
}

}  // namespace vrank::gpu
