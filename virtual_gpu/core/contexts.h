// The primary context of each device: which are active, and the threads that issue work
// to them.
//
// Owns the contexts and the process's claim of the rank, which its first context makes.
// Ending a context ends all that lives in it, which is the caller's to do before.
//
// Not thread-safe: the GPU's lock guards it.

#ifndef VRANK_VIRTUAL_GPU_CORE_CONTEXTS_H_
#define VRANK_VIRTUAL_GPU_CORE_CONTEXTS_H_

#include <cstddef>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "base/guest/channel.h"
#include "virtual_gpu/core/activity_notes.h"
#include "virtual_gpu/core/activity_recorder.h"
#include "virtual_gpu/core/contents.h"
#include "virtual_gpu/core/devices.h"
#include "virtual_gpu/core/error.h"
#include "virtual_gpu/core/memory_accounting.h"
#include "virtual_gpu/core/pools.h"

namespace vrank::gpu {

class Contexts {
 public:
  // `lock`: the GPU's.
  Contexts(Channel* channel, std::recursive_mutex& lock, Devices& devices,
           Contents& contents, Pools& pools, MemoryAccounting& accounting,
           ActivityRecorder& recorder, ActivityNotes& notes);

  // A call that needs a context: Ready, the thread's device (0 where none was chosen),
  // and its context, which is made where it is missing.
  Error Begin(int* device);
  // Makes the device's context where it is missing. Takes the lock.
  Error Ensure(int device);
  // REQUIRES of the rest: the process sees the devices.
  bool IsActive(int device) const { return Of(device).active; }
  void End(int device);
  // Memory of the device's context for one more stream, and back. False: none is left.
  bool TakeStream(int device);
  void GiveBackStream(int device);
  // The rank is this process's.
  bool claimed() const { return claimed_; }

  // kPeerAccessAlreadyEnabled, kPeerAccessNotEnabled.
  Error EnablePeer(int device, int peer);
  Error DisablePeer(int device, int peer);

  // The calling thread issues work to the device. Threads that use a GPU each wait for
  // their own only.
  void NoteIssuer(int device);

 private:
  struct Context {
    bool active = false;
    uint64_t bytes = 0;  // that it holds: its own, its code's, its streams'
    std::set<int> peers;
    std::thread::id issuer;  // the latest thread that issued work to it
  };

  const Context& Of(int device) const { return contexts_[static_cast<size_t>(device)]; }
  Context& Of(int device) { return contexts_[static_cast<size_t>(device)]; }
  Error Activate(int device);
  // What a context holds changes.
  bool Take(int device, uint64_t bytes);
  void GiveBack(int device, uint64_t bytes);

  Channel* const channel_;
  std::recursive_mutex& mutex_;
  Devices& devices_;
  Contents& contents_;
  Pools& pools_;
  MemoryAccounting& accounting_;
  ActivityRecorder& recorder_;
  ActivityNotes& notes_;
  bool claimed_ = false;
  std::vector<Context> contexts_;  // by device; those beyond the visible ones stay idle
};

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_CONTEXTS_H_
