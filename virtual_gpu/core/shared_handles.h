// Handles that processes exchange (CUDA's IPC handles, exported memory): making them
// and opening another process's.
//
// A process that opens a handle gets addresses of the same size on the same device, but
// no memory: that is the owner's and counted there. What the owner computes is not
// known here, so the contents count as computed elsewhere. When the other process's
// event happens is not known either: an opened event counts as ended until this process
// records it, and a wait for it is counted.
//
// A rank that is played has no process that could hand out a handle. Where programs
// exchange handles, its part is a copy of a real rank's, which may be the caller's own:
// CUDA refuses to open that, but here it stands for the played rank's, which is
// counted. Where all ranks are real it is refused as by CUDA.
//
// Thread rule: no state; any thread.

#ifndef VRANK_VIRTUAL_GPU_CORE_SHARED_HANDLES_H_
#define VRANK_VIRTUAL_GPU_CORE_SHARED_HANDLES_H_

#include <cstdint>

#include "base/guest/channel.h"
#include "virtual_gpu/core/devices.h"
#include "virtual_gpu/core/error.h"
#include "virtual_gpu/core/shared_handle.h"

namespace vrank::gpu {

// The writer (Origin::writer) of memory that another process computes.
inline constexpr const char* kOtherProcess = "another process";

class SharedHandles {
 public:
  SharedHandles(Channel* channel, Devices& devices)
      : channel_(channel), devices_(devices) {}

  // A handle of something of this process's.
  SharedHandle Make(SharedHandle::Kind kind, int device, uint64_t id, uint64_t bytes);
  // Whether the handle is one of this kind and can be opened.
  Error Open(const SharedHandle& handle, SharedHandle::Kind kind);
  // Whether the handle is one of this kind and of this rank: the process's own, or a
  // played rank's copy of it.
  bool IsOwn(const SharedHandle& handle, SharedHandle::Kind kind) const;
  // Where memory of that device is seen: there, or, where it is not visible, on
  // `device`.
  int PlaceOf(const SharedHandle& handle, int device);

 private:
  Channel* const channel_;
  Devices& devices_;
};

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_SHARED_HANDLES_H_
