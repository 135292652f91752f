// The virtual GPU as the CUDA libraries see it.
//
// libcuda.so.1 holds the one implementation; libcudart, libcublas and libnvidia-ml get
// this interface through cuGetExportTable (base/guest/virtual_gpu.h,
// FindVirtualGpuTable()->runtime). An entry point of those libraries checks its
// arguments, calls one method, and returns the Error by a cast.
//
// Host costs: each method that stands for an API call spends what that call costs
// (host_costs.def); its caller spends nothing more.
//
// Errors of the process: where work is not possible at all (no emulator, after fork,
// another process issues this rank's work) every method returns that error, see
// Ready().
//
// Thread rule: every method may be called from any thread.

#ifndef VRANK_VIRTUAL_GPU_CORE_GPU_H_
#define VRANK_VIRTUAL_GPU_CORE_GPU_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/guest/channel.h"
#include "base/guest/virtual_gpu.h"
#include "virtual_gpu/core/error.h"
#include "virtual_gpu/core/gpu_types.h"
#include "virtual_gpu/core/graphs.h"
#include "virtual_gpu/core/shared_handle.h"

namespace vrank::gpu {

class Gpu {
 public:
  // The one object behind both interfaces answers abi(), so they have one number, which
  // is bumped with any change of either.
  static constexpr uint32_t kAbi = VirtualGpu::kAbi;
  virtual uint32_t abi() const = 0;

  // --- Process -------------------------------------------------------------------
  // kSuccess; kNoDevice outside vrank (said once on stderr); kNotInitialized after
  // fork.
  virtual Error Ready() = 0;
  // The way to the emulator: settings, costs, losses. nullptr outside vrank.
  virtual Channel* channel() = 0;

  // --- Devices and contexts --------------------------------------------------------
  // Those that CUDA_VISIBLE_DEVICES leaves (visible_devices.h), which is read at the
  // first call that depends on it. 0 outside vrank.
  virtual int DeviceCount() = 0;
  // The node's number of one of them; -1 where there is no such device.
  virtual int NodeDevice(int device) = 0;
  // The program's number of one of the node's devices; -1 where the program has no
  // context on it. Reads no variable: NVML may ask before the program has set it.
  virtual int FindNodeDeviceInUse(int node_device) = 0;
  // The calling thread's device; -1 where none was chosen (the runtime then uses 0).
  virtual int CurrentDevice() = 0;
  // Makes `device` current for the calling thread; -1 for none. Creates no context.
  virtual Error SetCurrentDevice(int device) = 0;
  // Numbered as cudaDeviceAttr and CUdevice_attribute.
  virtual Error GetDeviceAttribute(int device, int attribute, int* value) = 0;
  // Creates the device's primary context where it is missing. Methods below that need a
  // context do so by themselves, for the current device or else device 0.
  virtual Error EnsureContext(int device) = 0;
  virtual bool ContextIsActive(int device) = 0;
  // Waits for the context's work, then gives back all that it owns.
  virtual Error DestroyContext(int device) = 0;
  virtual Error SynchronizeDevice() = 0;
  virtual Error EnablePeerAccess(int peer) = 0;
  virtual Error DisablePeerAccess(int peer) = 0;

  // --- Streams ---------------------------------------------------------------------
  virtual Error CreateStream(unsigned flags, int priority, void** stream) = 0;
  virtual Error DestroyStream(void* stream) = 0;
  virtual Error SynchronizeStream(void* stream) = 0;
  // kSuccess or kNotReady.
  virtual Error QueryStream(void* stream) = 0;
  // `external`: in a captured stream, a node that waits for the event when the graph
  // runs; likewise in RecordEvent.
  virtual Error StreamWaitEvent(void* stream, void* event, bool external = false) = 0;
  virtual Error GetStreamInfo(void* stream, StreamInfo* info) = 0;

  // --- Events ----------------------------------------------------------------------
  virtual Error CreateEvent(unsigned flags, void** event) = 0;
  virtual Error DestroyEvent(void* event) = 0;
  virtual Error RecordEvent(void* event, void* stream, bool external = false) = 0;
  virtual Error SynchronizeEvent(void* event) = 0;
  virtual Error QueryEvent(void* event) = 0;
  virtual Error ElapsedNanoseconds(void* start, void* end, int64_t* elapsed) = 0;

  // --- Work ------------------------------------------------------------------------
  virtual Error LaunchKernel(const KernelLaunch& launch) = 0;
  virtual Error LaunchGemm(const GemmLaunch& launch) = 0;
  virtual Error LaunchHostFunction(void* stream, void (*function)(void*),
                                   void* argument) = 0;
  virtual Error Copy(const CopyRequest& request) = 0;
  // Copies without an order among them, in the stream's order as a whole, after a check
  // of all: `failed` is the one that is wrong.
  virtual Error CopyBatch(std::span<CopyRequest> requests, void* stream,
                          size_t* failed) = 0;
  virtual Error Fill(const FillRequest& request) = 0;

  // --- CUDA graphs -----------------------------------------------------------------
  virtual Graphs& graphs() = 0;

  // --- Device memory -----------------------------------------------------------------
  virtual Error Allocate(uint64_t bytes, void** address) = 0;
  virtual Error Free(void* address) = 0;
  virtual Error GetDeviceMemoryInfo(DeviceMemoryInfo* info) = 0;
  virtual Error GetPointerInfo(const void* address, PointerInfo* info) = 0;

  // --- Stream-ordered memory ---------------------------------------------------------
  // A null pool is the current pool of the stream's device.
  virtual Error AllocateAsync(uint64_t bytes, void* pool, void* stream,
                              void** address) = 0;
  virtual Error FreeAsync(void* address, void* stream) = 0;
  virtual Error CreatePool(int device, uint64_t max_bytes, void** pool) = 0;
  virtual Error DestroyPool(void* pool) = 0;
  virtual Error DefaultPool(int device, void** pool) = 0;
  virtual Error CurrentPool(int device, void** pool) = 0;
  virtual Error SetCurrentPool(int device, void* pool) = 0;
  virtual Error TrimPool(void* pool, uint64_t keep_bytes) = 0;
  virtual Error SetPoolAccess(void* pool, int device, MemoryAccess access) = 0;
  virtual Error GetPoolAccess(void* pool, int device, MemoryAccess* access) = 0;
  virtual Error GetPoolAttribute(void* pool, PoolAttribute attribute,
                                 uint64_t* value) = 0;
  virtual Error SetPoolAttribute(void* pool, PoolAttribute attribute,
                                 uint64_t value) = 0;

  // --- Page-locked host memory -------------------------------------------------------
  virtual Error AllocateHost(uint64_t bytes, unsigned flags, void** address) = 0;
  virtual Error FreeHost(void* address) = 0;
  virtual Error RegisterHost(void* address, uint64_t bytes, unsigned flags) = 0;
  virtual Error UnregisterHost(void* address) = 0;

  // --- Memory and events of other processes (shared_handles.h) -----------------
  // The allocation that the address lies in, for another process to open.
  virtual Error ExportMemory(const void* address, SharedHandle* handle) = 0;
  // Opened again, the same address; as often to be closed. kInvalidContext: the
  // caller's own.
  virtual Error ImportMemory(const SharedHandle& handle, void** address) = 0;
  virtual Error CloseImported(void* address) = 0;
  // Of events with kEventInterprocess.
  virtual Error ExportEvent(void* event, SharedHandle* handle) = 0;
  virtual Error ImportEvent(const SharedHandle& handle, void** event) = 0;
  // What other processes hold of the node's GPU of that number; no context is made.
  virtual Error GetNodeDeviceHeldBytes(int node_device, uint64_t* bytes) = 0;

 protected:
  ~Gpu() = default;
};

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_GPU_H_
