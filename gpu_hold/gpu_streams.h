// What libnccl asks a real GPU beside holds: devices, streams, and the little work of
// its own. A seam: the driver API of the process's libcuda, or a test's host threads.
//
// Thread rule: as CUDA's driver API: from any thread.

#ifndef VRANK_GPU_HOLD_GPU_STREAMS_H_
#define VRANK_GPU_HOLD_GPU_STREAMS_H_

#include <cstdint>
#include <memory>
#include <string>

namespace vrank::hold {

class GpuStreams {
 public:
  virtual ~GpuStreams() = default;

  // The calling thread's device, by its context; 0 where it has none yet.
  virtual int CurrentDevice() = 0;
  virtual int DeviceCount() = 0;
  // The primary context of `device` is the calling thread's until Leave. False: there
  // is no such device, or it has no room for a context.
  virtual bool Enter(int device) = 0;
  virtual void Leave() = 0;

  // `stream`: a CUstream or cudaStream_t, nullptr included.
  //
  // -1: it is none.
  virtual int DeviceOf(void* stream) = 0;
  // The capture that takes place on it; 0: none.
  virtual uint64_t CaptureOf(void* stream) = 0;
  // `waiting` goes on after what `before` holds now. REQUIRES: within Enter.
  virtual bool Join(void* waiting, void* before) = 0;
  // The same in two steps, of which the second may come when `before` is gone. nullptr:
  // no room. Before it is recorded nothing is waited for. REQUIRES: within Enter.
  virtual void* NewEvent() = 0;
  virtual void FreeEvent(void* event) = 0;
  virtual bool Record(void* event, void* before) = 0;
  virtual bool Await(void* waiting, void* event) = 0;
  // The same for a stream that is captured: each launch of the graph records, or waits
  // for what was recorded by then outside of it. (Record and Await make edges of the
  // graph there.)
  virtual bool RecordAtLaunch(void* event, void* before) = 0;
  virtual bool AwaitAtLaunch(void* waiting, void* event) = 0;
  // Waits until all that has been launched on the device has ended: what a graph's
  // launch has yet to begin shows in no event. REQUIRES: within Enter.
  virtual void AwaitDevice() = 0;
  // `bytes` on the device, in stream order. REQUIRES: within Enter.
  virtual bool Copy(void* to, const void* from, uint64_t bytes, void* stream) = 0;

  // 0: no room. REQUIRES: within Enter.
  virtual uint64_t Allocate(uint64_t bytes) = 0;
  virtual void Free(uint64_t address) = 0;
};

// nullptr: *error says what is missing. (On a GPU, graphs
// with collectives were not seen yet.)
std::unique_ptr<GpuStreams> MakeGpuStreams(std::string* error);

}  // namespace vrank::hold

#endif  // VRANK_GPU_HOLD_GPU_STREAMS_H_
