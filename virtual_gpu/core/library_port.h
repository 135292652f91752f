// The virtual GPU as the libraries beside it see it: libnccl's work, and the memory of
// libnccl and cuBLAS (base/guest/virtual_gpu.h).
//
// Thread rule: every method may be called from any thread; it takes the GPU's lock,
// which BeginWork and Hold keep until EndWork and LetGo.

#ifndef VRANK_VIRTUAL_GPU_CORE_LIBRARY_PORT_H_
#define VRANK_VIRTUAL_GPU_CORE_LIBRARY_PORT_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/guest/virtual_gpu.h"
#include "virtual_gpu/core/activity_notes.h"
#include "virtual_gpu/core/activity_recorder.h"
#include "virtual_gpu/core/contents.h"
#include "virtual_gpu/core/contexts.h"
#include "virtual_gpu/core/device_allocator.h"
#include "virtual_gpu/core/devices.h"
#include "virtual_gpu/core/graph_capture.h"
#include "virtual_gpu/core/host_memory.h"
#include "virtual_gpu/core/library_memory.h"
#include "virtual_gpu/core/stream_lanes.h"
#include "virtual_gpu/core/streams.h"

namespace vrank::gpu {

class LibraryPort final : public VirtualGpu {
 public:
  LibraryPort(std::recursive_mutex& lock, Devices& devices, Contexts& contexts,
              Streams& streams, StreamLanes& lanes, Contents& contents,
              HostMemory& host_memory, LibraryMemory& memory,
              DeviceAllocator& allocator, GraphCapture& captures,
              ActivityRecorder& recorder, ActivityNotes& notes)
      : mutex_(lock),
        devices_(devices),
        contexts_(contexts),
        streams_(streams),
        lanes_(lanes),
        contents_(contents),
        host_memory_(host_memory),
        memory_(memory),
        allocator_(allocator),
        captures_(captures),
        recorder_(recorder),
        notes_(notes) {}

  // --- VirtualGpu
  // -------------------------------------------------------------------
  uint32_t abi() const override { return VirtualGpu::kAbi; }
  int CurrentDevice() override { return Devices::Current(); }
  int DeviceCount() override { return devices_.Count(); }
  int NodeDevice(int device) override { return devices_.NodeDevice(device); }
  bool FindStream(void* handle, int device, VirtualGpu::Stream* stream,
                  int* error) override;
  int MemoryDevice(const void* address) override;
  void SetBlock(const void* address, int64_t bytes) override;
  void Fault() override { devices_.Fault(); }
  void BeginWork(VirtualGpu::Stream stream) override;
  void EndWork(VirtualGpu::Stream stream) override;
  void DescribeWork(const protocol::Record& record) override;
  void Join(VirtualGpu::Stream waiting, VirtualGpu::Stream before) override;
  OwnToken TakeToken() override;
  void GiveBackToken(OwnToken token) override;
  void Hold() override;
  void LetGo() override;
  uint64_t CaptureOf(VirtualGpu::Stream stream) override;
  bool Capture(VirtualGpu::Stream stream, std::shared_ptr<CapturedWork> work) override;
  uint64_t Reserve(int device, uint64_t bytes, protocol::MemoryOwner owner) override;
  void GiveBack(int device, uint64_t address) override;
  std::vector<ContentPiece> Inspect(const void* address, uint64_t bytes) override;
  void Read(const void* address, uint64_t bytes, void* out) override;
  void SetResult(void* address, uint64_t bytes, protocol::PayloadKey key,
                 uint64_t offset) override;
  void CopyContent(void* to, const void* from, uint64_t bytes) override;
  void BeforeNextFetch(std::function<void()> call) override;

 private:
  using Stream = vrank::gpu::Stream;

  // As libnccl joins streams on a real GPU: an event's record and a wait for it.
  void JoinAsCalls(Stream* waiting, Stream* before);
  bool IsOfNccl(uint64_t address);

  std::recursive_mutex& mutex_;
  Devices& devices_;
  Contexts& contexts_;
  Streams& streams_;
  StreamLanes& lanes_;
  Contents& contents_;
  HostMemory& host_memory_;
  LibraryMemory& memory_;
  DeviceAllocator& allocator_;
  GraphCapture& captures_;
  ActivityRecorder& recorder_;
  ActivityNotes& notes_;
};

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_LIBRARY_PORT_H_
