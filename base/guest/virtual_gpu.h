// What the virtual GPU offers to the libraries that stand beside it.
//
// The core of the virtual GPU lives in libcuda.so.1, as NVIDIA's does. libnccl reaches
// it as NVIDIA's own libraries reach theirs: cuGetExportTable with a private id
// (kVirtualGpuTable). A real libcuda does not know that id, which is how a guest
// library tells a real GPU from a virtual one. (The runtime, cuBLAS and NVML use the
// wider interface in virtual_gpu/core, through the same door.)
//
// Thread rule: every method may be called from any thread. BeginWork takes the GPU's
// lock and EndWork gives it back, so that the records in between stay together and in
// order.

#ifndef VRANK_BASE_GUEST_VIRTUAL_GPU_H_
#define VRANK_BASE_GUEST_VIRTUAL_GPU_H_

#include <dlfcn.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/guest/held_result.h"
#include "base/guest/protocol.h"

namespace vrank {

namespace gpu {
class Activity;     // virtual_gpu/core/activity.h
class ActivityTap;  // virtual_gpu/core/activity_tap.h
class Gpu;          // virtual_gpu/core/gpu.h
}  // namespace gpu

// CUuuid of the table: version 4, random, ours.
inline constexpr unsigned char kVirtualGpuTable[16] = {
    0x7b, 0x1e, 0x52, 0xa9, 0x0c, 0x44, 0x4d, 0x6f,
    0x9a, 0x83, 0x56, 0x72, 0x61, 0x6e, 0x6b, 0x01};

// A stretch of device memory whose bytes have one origin.
struct ContentPiece {
  protocol::PayloadState state;
  uint64_t offset;  // from the start of the inspected range
  uint64_t bytes;
  protocol::PayloadKey source;  // kDerived
  uint64_t source_offset;
};

class CapturedWork;

class VirtualGpu {
 public:
  static constexpr uint32_t kAbi = 15;

  struct Stream {
    int device = 0;
    uint32_t lane = 0;
  };

  struct OwnToken {
    uint32_t id = 0;          // protocol.h; 0: none
    uint32_t generation = 0;  // recordings so far
  };

  virtual uint32_t abi() const = 0;

  // The calling thread's device; -1 where there is none.
  virtual int CurrentDevice() = 0;
  // Devices that the program sees.
  virtual int DeviceCount() = 0;
  // The node's number of one of them: CUDA_VISIBLE_DEVICES may number them anew. -1
  // where there is no such device.
  virtual int NodeDevice(int device) = 0;
  // A cudaStream_t or CUstream; nullptr: the legacy default stream of `device` (or the
  // per-thread one for callers compiled so). Makes the device's context where it is
  // missing; the calling thread's device stays. `device` -1: the calling thread's.
  // False with the CUDA error of a launch on it where there can be none.
  virtual bool FindStream(void* handle, int device, Stream* stream,
                          int* error = nullptr) = 0;

  // Of memory at an address: its device, or one of the two below.
  static constexpr int kHostMemory = -1;  // page-locked: kernels may use it
  static constexpr int kNoMemory = -2;    // none that a kernel may use
  // (A real GPU finds out by itself.)
  virtual int MemoryDevice(const void* /*address*/) { return kHostMemory; }
  // The program's own allocator (PyTorch's) has given a part of its memory to a tensor,
  // or with -`bytes` has it back. A kernel that gets an address in it stays in it,
  // which bounds what it may have written and read.
  virtual void SetBlock(const void* /*address*/, int64_t /*bytes*/) {}
  // A kernel of this process has used memory that it may not: from here on its calls
  // fail with cudaErrorIllegalAddress, as those of a context that is lost.
  virtual void Fault() {}

  // Brackets one work record on `stream`: BeginWork writes the edges that CUDA's rules
  // for default streams ask for.
  virtual void BeginWork(Stream stream) = 0;
  virtual void EndWork(Stream stream) = 0;
  // Says what the work is, for profilers: a kCollective, kPointToPoint or kCopy record.
  // REQUIRES: between BeginWork and EndWork, right after the record was written.
  virtual void DescribeWork(const protocol::Record&) {}
  // Everything `waiting` does from here on starts after what `before` holds now.
  virtual void Join(Stream waiting, Stream before) = 0;
  // A token for the caller's own records, which do not record it on a lane.
  virtual OwnToken TakeToken() = 0;
  virtual void GiveBackToken(OwnToken token) = 0;

  // Holds the GPU's lock over several calls, until LetGo.
  virtual void Hold() = 0;
  virtual void LetGo() = 0;

  // The capture that takes place on the stream; 0 where there is none. Within one, work
  // is handed to Capture instead of being written, and Join joins captured streams.
  virtual uint64_t CaptureOf(Stream stream) = 0;
  // The work becomes a node of the graph that is captured. False where the capture has
  // been invalidated.
  virtual bool Capture(Stream stream, std::shared_ptr<CapturedWork> work) = 0;

  // Device memory that real NCCL would take: counted, listed apart, out of memory like
  // any other. Returns 0 when the device has no room.
  virtual uint64_t Reserve(int device, uint64_t bytes, protocol::MemoryOwner owner) = 0;
  virtual void GiveBack(int device, uint64_t address) = 0;

  // Contents. Pointers may be device memory or host memory that the device can reach.
  // Where nothing wrote a byte, or a kernel would have, the piece is kComputed.
  virtual std::vector<ContentPiece> Inspect(const void* address, uint64_t bytes) = 0;
  // Copies out bytes that Inspect called kKnown.
  virtual void Read(const void* address, uint64_t bytes, void* out) = 0;
  // What work does to memory. REQUIRES: between the BeginWork and EndWork of that work,
  // or within CapturedWork::Repeat.
  //
  // From now on the range holds this member's result of an operation, starting at
  // `offset` of that result; its bytes are fetched when somebody looks.
  virtual void SetResult(void* address, uint64_t bytes, protocol::PayloadKey key,
                         uint64_t offset) = 0;
  // The range takes over the contents of the other one, bytes and origins: what a copy
  // on the device does (a communicator of one rank).
  virtual void CopyContent(void* to, const void* from, uint64_t bytes) = 0;
  // Called once, by whatever thread, before bytes of results are fetched the next time:
  // what they need from this process may be told only then.
  virtual void BeforeNextFetch(std::function<void()> /*call*/) {}

  // --- Where the GPU is a real one, whose streams are held (gpu_hold/held_gpu.h) -----
  //
  // A held stream waits for the emulator; work is told to it when the stream gets
  // there.
  virtual bool HoldsStreams() const { return false; }
  // Counts the host's time up to now: before a question at which ranks meet, each when
  // it asks. (A virtual GPU's host time is counted call by call.)
  virtual void CountHostTime() {}
  // A communicator of this process exists. False: its operations cannot be held, and
  // HoldFailure says why.
  virtual bool OpenHolds(uint32_t /*communicator*/, int /*device*/,
                         uint32_t /*ranks*/) {
    return true;
  }
  // Waits until its operations have ended, or ends its holds where it is aborted. None
  // may be held after that, but after kFinalize they may be asked about.
  virtual void EndHolds(uint32_t /*communicator*/, protocol::ReleaseKind) {}
  // Takes over a kCollective, kPointToPoint or kCopy record: the caller does not write
  // it. `result`: of a collective; its buffers are written in the stream's order.
  // False: the caller does. REQUIRES: as DescribeWork.
  virtual bool HoldStream(Stream, const protocol::Record&, const void* /*tail*/,
                          size_t /*tail_bytes*/, const HeldResult& /*result*/) {
    return false;
  }
  // What went wrong first; empty: nothing.
  virtual std::string HoldFailure() { return {}; }

 protected:
  ~VirtualGpu() = default;
};

// Holds the GPU's lock for a scope.
class GpuHold {
 public:
  explicit GpuHold(VirtualGpu& gpu) : gpu_(gpu) { gpu_.Hold(); }
  ~GpuHold() { gpu_.LetGo(); }
  GpuHold(const GpuHold&) = delete;
  GpuHold& operator=(const GpuHold&) = delete;

 private:
  VirtualGpu& gpu_;
};

// Work of a library in a CUDA graph: one record per launch. Lives as long as the graphs
// that hold it.
//
// Thread rule: called by one thread at a time, with the GPU's lock held.
class CapturedWork {
 public:
  virtual ~CapturedWork() = default;
  // The graph is launched: all of the work, on this stream. `flags` go into the
  // record's flags.
  virtual void Launch(VirtualGpu::Stream stream, uint16_t flags) = 0;
  // The same where the emulator remembers the record: everything else, that is what
  // goes into an operation, and what it does to memory.
  virtual void Repeat() = 0;
};

// What cuGetExportTable hands out for kVirtualGpuTable. Valid for the life of the
// process. Readers compare `bytes` and, in the object they use, abi().
struct VirtualGpuTable {
  uint64_t bytes = sizeof(VirtualGpuTable);  // first, as in NVIDIA's own tables
  VirtualGpu* gpu = nullptr;                 // for libnccl
  gpu::Gpu* runtime = nullptr;               // for libcudart, libcublas, libnvidia-ml
  gpu::Activity* activity = nullptr;         // for libcupti
  gpu::ActivityTap* tap = nullptr;           // for libcudart: tells of calls
};

// The table of the process's libcuda.so.1, or nullptr where that library is missing, is
// NVIDIA's own, or comes from another build.
//
// Whoever asks first may start a tool (CUDA_INJECTION64_PATH) that calls these
// libraries itself, or waits for a thread that does. So nothing is locked meanwhile,
// not even the guard of a static: threads that come at the same time look it up side by
// side.
inline const VirtualGpuTable* FindVirtualGpuTable() {
  using Export = int (*)(const void** table, const void* uuid);
  static std::atomic<const VirtualGpuTable*> found{nullptr};
  static std::atomic<bool> looked_up{false};
  if (looked_up.load(std::memory_order_acquire))
    return found.load(std::memory_order_relaxed);
  auto get = reinterpret_cast<Export>(dlsym(RTLD_DEFAULT, "cuGetExportTable"));
  if (get == nullptr) {
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (library != nullptr)
      get = reinterpret_cast<Export>(dlsym(library, "cuGetExportTable"));
  }
  const void* table = nullptr;
  const VirtualGpuTable* ours = nullptr;
  if (get != nullptr && get(&table, kVirtualGpuTable) == 0 && table != nullptr)
    ours = static_cast<const VirtualGpuTable*>(table);
  if (ours != nullptr && ours->bytes != sizeof(VirtualGpuTable))
    ours = nullptr;
  found.store(ours, std::memory_order_relaxed);
  looked_up.store(true, std::memory_order_release);
  return ours;
}

}  // namespace vrank

#endif  // VRANK_BASE_GUEST_VIRTUAL_GPU_H_
