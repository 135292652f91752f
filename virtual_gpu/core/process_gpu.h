// The virtual GPU of this process: the one implementation of Gpu.
//
// It holds no time and simulates nothing. A call becomes records (stream_lanes.h for
// the edges that CUDA implies), changes of what device memory contains (contents.h),
// and, where the program must know a time, a question.
//
// A facade: it owns the parts and the lock, begins each call (device, context, stream),
// hands work in a captured stream to the graph, and leaves the rest to the part whose
// state it is. Parts know the parts below them, in the order of the members, and never
// this class.
//
// Locks: one lock guards all state. It may be taken again by its holder, because
// libnccl holds it between BeginWork and EndWork and asks about contents in between. It
// is never held while the host waits: questions about ends, fetches of results and host
// functions come after it is given back.
//
// Thread rule: every method may be called from any thread.

#ifndef VRANK_VIRTUAL_GPU_CORE_PROCESS_GPU_H_
#define VRANK_VIRTUAL_GPU_CORE_PROCESS_GPU_H_

#include <cstdint>
#include <mutex>
#include <span>
#include <string>

#include "base/guest/channel.h"
#include "base/guest/virtual_gpu.h"
#include "virtual_gpu/core/activity_notes.h"
#include "virtual_gpu/core/activity_recorder.h"
#include "virtual_gpu/core/api_lock.h"
#include "virtual_gpu/core/capture.h"
#include "virtual_gpu/core/contents.h"
#include "virtual_gpu/core/contexts.h"
#include "virtual_gpu/core/copy_engine.h"
#include "virtual_gpu/core/device_allocator.h"
#include "virtual_gpu/core/devices.h"
#include "virtual_gpu/core/events.h"
#include "virtual_gpu/core/gpu.h"
#include "virtual_gpu/core/host_memory.h"
#include "virtual_gpu/core/host_waits.h"
#include "virtual_gpu/core/imported_memory.h"
#include "virtual_gpu/core/kernel_effects.h"
#include "virtual_gpu/core/kernel_names.h"
#include "virtual_gpu/core/launch_records.h"
#include "virtual_gpu/core/library_memory.h"
#include "virtual_gpu/core/library_port.h"
#include "virtual_gpu/core/memory_accounting.h"
#include "virtual_gpu/core/obligations.h"
#include "virtual_gpu/core/pools.h"
#include "virtual_gpu/core/process_graphs.h"
#include "virtual_gpu/core/shared_handle.h"
#include "virtual_gpu/core/shared_handles.h"
#include "virtual_gpu/core/stream_lanes.h"
#include "virtual_gpu/core/streams.h"
#include "virtual_gpu/core/virtual_memory.h"

namespace vrank::gpu {

class ProcessGpu final : public Gpu {
 public:
  // `channel` may be nullptr: a process outside vrank, where every call says no device.
  explicit ProcessGpu(Channel* channel);

  void SetValuePolicy(ValuePolicy policy);
  // Ready, but for a look at the devices.
  Error Reachable() { return devices_.Reachable(); }
  // The kernel of this (mangled) name that no image registered: one of a library, whose
  // machine code is not read. The same object for the same name.
  KernelCode* FindKernel(const char* mangled_name) {
    return kernels_.Find(mangled_name);
  }

  // What other libraries see of the GPU: libcupti and libcudart, libnccl and libcublas,
  // libcuda.
  ActivityRecorder& activity() { return activity_; }
  LibraryPort& libraries() { return libraries_; }
  VirtualMemory& virtual_memory() { return virtual_memory_; }

  // --- Gpu (gpu.h)
  // -----------------------------------------------------------------
  uint32_t abi() const override { return Gpu::kAbi; }
  Error Ready() override { return devices_.Ready(); }
  Channel* channel() override { return channel_; }
  int DeviceCount() override { return devices_.Count(); }
  int NodeDevice(int device) override { return devices_.NodeDevice(device); }
  int FindNodeDeviceInUse(int node_device) override;
  int CurrentDevice() override { return Devices::Current(); }
  Error SetCurrentDevice(int device) override { return devices_.SetCurrent(device); }
  Error GetDeviceAttribute(int device, int attribute, int* value) override {
    return devices_.GetAttribute(device, attribute, value);
  }
  Error EnsureContext(int device) override { return contexts_.Ensure(device); }
  bool ContextIsActive(int device) override;
  Error DestroyContext(int device) override;
  Error SynchronizeDevice() override;
  Error EnablePeerAccess(int peer) override;
  Error DisablePeerAccess(int peer) override;
  Error CreateStream(unsigned flags, int priority, void** stream) override;
  Error DestroyStream(void* stream) override;
  Error SynchronizeStream(void* stream) override;
  Error QueryStream(void* stream) override;
  Error StreamWaitEvent(void* stream, void* event, bool external = false) override;
  Error GetStreamInfo(void* stream, StreamInfo* info) override;
  Error CreateEvent(unsigned flags, void** event) override;
  Error DestroyEvent(void* event) override;
  Error RecordEvent(void* event, void* stream, bool external = false) override;
  Error SynchronizeEvent(void* event) override;
  Error QueryEvent(void* event) override;
  Error ElapsedNanoseconds(void* start, void* end, int64_t* elapsed) override;
  Graphs& graphs() override { return graphs_; }
  Error LaunchKernel(const KernelLaunch& launch) override;
  Error LaunchGemm(const GemmLaunch& launch) override;
  Error LaunchHostFunction(void* stream, void (*function)(void*),
                           void* argument) override;
  Error Copy(const CopyRequest& request) override;
  Error CopyBatch(std::span<CopyRequest> requests, void* stream,
                  size_t* failed) override;
  Error Fill(const FillRequest& request) override;
  Error Allocate(uint64_t bytes, void** address) override;
  Error Free(void* address) override;
  Error GetDeviceMemoryInfo(DeviceMemoryInfo* info) override;
  Error GetNodeDeviceHeldBytes(int node_device, uint64_t* bytes) override;
  Error GetPointerInfo(const void* address, PointerInfo* info) override;
  Error AllocateAsync(uint64_t bytes, void* pool, void* stream,
                      void** address) override;
  Error FreeAsync(void* address, void* stream) override;
  Error CreatePool(int device, uint64_t max_bytes, void** pool) override;
  Error DestroyPool(void* pool) override;
  Error DefaultPool(int device, void** pool) override;
  Error CurrentPool(int device, void** pool) override;
  Error SetCurrentPool(int device, void* pool) override;
  Error TrimPool(void* pool, uint64_t keep_bytes) override;
  Error SetPoolAccess(void* pool, int device, MemoryAccess access) override;
  Error GetPoolAccess(void* pool, int device, MemoryAccess* access) override;
  Error GetPoolAttribute(void* pool, PoolAttribute attribute, uint64_t* value) override;
  Error SetPoolAttribute(void* pool, PoolAttribute attribute, uint64_t value) override;
  Error AllocateHost(uint64_t bytes, unsigned flags, void** address) override;
  Error FreeHost(void* address) override;
  Error RegisterHost(void* address, uint64_t bytes, unsigned flags) override;
  Error UnregisterHost(void* address) override;
  Error ExportMemory(const void* address, SharedHandle* handle) override;
  Error ImportMemory(const SharedHandle& handle, void** address) override;
  Error CloseImported(void* address) override;
  Error ExportEvent(void* event, SharedHandle* handle) override;
  Error ImportEvent(const SharedHandle& handle, void** event) override;

 private:
  using Lock = ApiLock;

  // Work on the stream has failed an assertion, of which CUDA prints this. Returns what
  // its launch does.
  Error FailAssertion(Stream* stream, std::string said);
  // A profiler begins to listen: notes what exists already.
  void Introduce();
  // A call that allocates or frees, which captures forbid: Contexts::Begin and that.
  Error BeginUnsafe(int* device);

  Channel* const channel_;
  std::recursive_mutex mutex_;
  ActivityRecorder activity_;
  ActivityNotes notes_;
  Devices devices_;
  Contents contents_;
  StreamLanes lanes_;
  Captures captures_;
  Obligations obligations_;
  HostMemory host_memory_;
  MemoryAccounting accounting_;
  Pools pools_;
  Contexts contexts_;
  HostWaits waits_;
  Streams streams_;
  Events events_;
  KernelNames kernels_;
  KernelEffects effects_;
  LaunchRecords launches_;
  CopyEngine copies_;
  DeviceAllocator allocator_;
  SharedHandles shared_handles_;
  ImportedMemory imported_;
  VirtualMemory virtual_memory_;
  LibraryMemory library_memory_;
  ProcessGraphs graphs_;
  LibraryPort libraries_;
};

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_PROCESS_GPU_H_
