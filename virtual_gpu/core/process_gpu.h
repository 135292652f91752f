// The virtual GPU of this process: the one implementation of Gpu and VirtualGpu.
//
// It holds no time and simulates nothing. A call becomes records (lanes.h for the edges
// that CUDA implies), changes of what device memory contains (contents.h), and, where
// the program must know a time, a question.
//
// Locks: one lock guards all state. It may be taken again by its holder, because
// libnccl holds it between BeginWork and EndWork and asks about contents in between. It
// is never held while the host waits: questions about ends, fetches of results and host
// functions come after it is given back.
//
// Thread rule: every method may be called from any thread.

#ifndef VRANK_VIRTUAL_GPU_CORE_PROCESS_GPU_H_
#define VRANK_VIRTUAL_GPU_CORE_PROCESS_GPU_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/guest/virtual_gpu.h"
#include "virtual_gpu/core/activity_recorder.h"
#include "virtual_gpu/core/api_lock.h"
#include "virtual_gpu/core/contents.h"
#include "virtual_gpu/core/gpu.h"
#include "virtual_gpu/core/handle_table.h"
#include "virtual_gpu/core/host_functions.h"
#include "virtual_gpu/core/host_memory.h"
#include "virtual_gpu/core/kernel_code.h"
#include "virtual_gpu/core/lanes.h"
#include "virtual_gpu/core/obligations.h"
#include "virtual_gpu/core/pending_value.h"
#include "virtual_gpu/core/pool.h"
#include "virtual_gpu/core/process_graphs.h"
#include "virtual_gpu/core/shared_handle.h"

namespace vrank::gpu {

class ProcessGpu final : public Gpu, public VirtualGpu {
 public:
  // `channel` may be nullptr: a process outside vrank, where every call says no device.
  explicit ProcessGpu(Channel* channel);
  ~ProcessGpu();

  void SetValuePolicy(ValuePolicy policy);
  ActivityRecorder& activity() { return activity_; }

  // --- Gpu (gpu.h) -----------------------------------------------------------------
  uint32_t abi() const override { return Gpu::kAbi; }
  Error Ready() override;
  // Ready, but for a look at the devices.
  Error Reachable();
  Channel* channel() override { return channel_; }
  int DeviceCount() override;
  int NodeDevice(int device) override;
  int FindNodeDeviceInUse(int node_device) override;
  int CurrentDevice() override;
  Error SetCurrentDevice(int device) override;
  Error GetDeviceAttribute(int device, int attribute, int* value) override;
  Error EnsureContext(int device) override;
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

  // The kernel of this (mangled) name that no image registered: one of a library, whose
  // machine code is not read. The same object for the same name.
  KernelCode* FindKernel(const char* mangled_name);

  // --- Virtual memory management, for libcuda (process_gpu_mapping.cc) -------------
  // Physical memory of a device, without addresses; sizes in whole blocks.
  Error CreatePhysical(int device, uint64_t bytes, uint64_t* handle);
  // The memory goes when its handle is released as often as it was returned and it is
  // mapped nowhere.
  Error ReleasePhysical(uint64_t handle);
  // The handle of what is mapped there.
  Error RetainPhysical(uint64_t address, uint64_t* handle);
  Error FindPhysical(uint64_t handle, int* device, uint64_t* bytes);
  // Addresses without memory; `wanted` may be 0.
  Error ReserveAddresses(uint64_t bytes, uint64_t alignment, uint64_t wanted,
                         uint64_t* address);
  Error FreeAddresses(uint64_t address, uint64_t bytes);
  // All of one physical memory, which may be mapped at several places of its device.
  Error Map(uint64_t address, uint64_t bytes, uint64_t handle);
  Error Unmap(uint64_t address, uint64_t bytes);
  // What another process can map (process_gpu_sharing.cc), and what one has exported.
  Error ExportPhysical(uint64_t handle, SharedHandle* shared);
  Error ImportPhysical(const SharedHandle& shared, uint64_t* handle);
  // Recorded, not enforced. kInvalidValue where the range is not one of whole mappings.
  Error SetAccess(uint64_t address, uint64_t bytes, int device, MemoryAccess access);
  Error GetAccess(uint64_t address, int device, MemoryAccess* access);

  // --- VirtualGpu (base/guest/virtual_gpu.h); CurrentDevice is above
  // -------------------
  bool FindStream(void* handle, int device, VirtualGpu::Stream* stream,
                  int* error) override;
  int MemoryDevice(const void* address) override;
  void SetBlock(const void* address, int64_t bytes) override;
  void Fault() override { faulted_.store(true, std::memory_order_release); }
  void BeginWork(VirtualGpu::Stream stream) override;
  void EndWork(VirtualGpu::Stream stream) override;
  void DescribeWork(const protocol::Record& record) override;
  void Join(VirtualGpu::Stream waiting, VirtualGpu::Stream before) override;
  VirtualGpu::OwnToken TakeToken() override;
  void GiveBackToken(VirtualGpu::OwnToken token) override;
  uint64_t Reserve(int device, uint64_t bytes, protocol::MemoryOwner owner) override;
  void GiveBack(int device, uint64_t address) override;
  bool IsOfNccl(uint64_t address);
  std::vector<ContentPiece> Inspect(const void* address, uint64_t bytes) override;
  void Read(const void* address, uint64_t bytes, void* out) override;
  void SetResult(void* address, uint64_t bytes, protocol::PayloadKey key,
                 uint64_t offset) override;
  void CopyContent(void* to, const void* from, uint64_t bytes) override;
  // From now on the range is computed: a kernel of another library writes it.
  void SetComputed(void* address, uint64_t bytes);
  void Hold() override;
  void LetGo() override;
  uint64_t CaptureOf(VirtualGpu::Stream stream) override;
  bool Capture(VirtualGpu::Stream stream, std::shared_ptr<CapturedWork> work) override;

 private:
  friend class ProcessGraphs;
  using Stream = vrank::gpu::Stream;
  using Lock = ApiLock;

  struct Context {
    bool active = false;
    std::set<int> peers;
    Pool* default_pool = nullptr;
    Pool* current_pool = nullptr;
    std::thread::id issuer;  // the latest thread that issued work to it
  };

  struct Physical {
    int device = 0;
    uint64_t bytes = 0;
    uint32_t references = 1;  // by the program's handle; 0: released
    bool shared = false;      // another process's, and counted there
    std::vector<uint64_t> mapped;
    Allocation* parked = nullptr;  // what it contains while it is mapped nowhere
  };
  struct Mapping {
    uint64_t handle = 0;
    std::map<int, MemoryAccess> access;  // by device; none without a row
  };

  // Another process's memory, at the addresses at which it is seen here.
  struct Imported {
    SharedHandle handle;
    int device = 0;
    uint64_t address = 0;
    uint32_t opens = 0;
  };
  // Who writes it (Origin::writer).
  static constexpr const char* kOtherProcess = "another process";

  // A wait of the host that is about to happen: written down under the lock, done
  // without it.
  struct PendingWait {
    struct Lane {
      uint32_t lane;
      uint64_t stream_id;
      uint64_t issued;
    };
    std::vector<Lane> lanes;
    std::vector<Token> tokens;  // given back afterwards
    ObligationSet covers;
    uint64_t first_record = 0, last_record = 0;  // of the waits, once performed
  };

  // The calls as which a launch by libcublas, libcudnn or libnccl, and a memset by
  // libcudnn, appear to a profiler. (Which call cuDNN makes was not seen.)
  static constexpr const char* kLibraryLaunch = "cuLaunchKernelEx";
  static constexpr const char* kLibraryFill = "cuMemsetD32Async";

  // --- process_gpu_devices.cc
  // Ready, device chosen, context there. REQUIRES: lock held.
  Error Begin(int* device);
  Error StartContext(int device);
  void EmitMemory(int device, int64_t delta, protocol::MemoryOwner owner);
  // What other processes hold of the node's GPU. See protocol::AskMemory.
  uint64_t AskMemory(int node_device, uint64_t bytes, bool begins_sharing);
  // Before `bytes` of the device are taken, or read as free: nothing where no other
  // process may use it. `lock`: let go of meanwhile; nullptr where it cannot be.
  void LookAtOthers(int device, uint64_t bytes, Lock* lock);
  // Emits the change of used() around a step of an allocator.
  template <typename Step>
  auto Account(int device, protocol::MemoryOwner owner, Step step);

  // --- process_gpu_streams.cc
  // Begin, and the stream that work goes to.
  Error BeginOn(void* handle, Stream** stream);
  // The same of a call that threads make, too, which issue no work.
  Error BeginBeside(void* handle, Stream** stream);
  void NoteIssuer(const Stream* stream);
  void AddToWait(Stream* stream, PendingWait* wait);
  PendingWait WaitForStream(Stream* stream);
  PendingWait WaitForDevice(int device);
  // The host has seen the end of it.
  void NoteEnded(const PendingWait::Lane& lane);
  // Gives the lock back, waits, takes it again.
  Error Perform(PendingWait* wait, Lock* lock);
  Error PerformForDevice(PendingWait* wait, Lock* lock, int device);
  // Of a wait.
  Error ResultOf(const Answer& answer) const {
    return answer.complete || !channel_->aborting() ? Error::kSuccess
                                                    : Error::kLaunchTimeout;
  }
  void Shrink(Pool* pool, uint64_t keep);
  void TrimPools();

  // --- process_gpu_events.cc
  struct Question {
    protocol::QueryTarget kind;
    uint32_t target;
    uint32_t generation;            // of a token
    std::optional<int64_t> end_ns;  // where it is known
  };
  // Whether the target has ended; spends nothing. REQUIRES: lock not held.
  Answer Ask(const Question& question);
  Answer AskOnce(const Question& question);
  Answer AskOnStandingClock(const Question& question);
  Error EventEnd(void* handle, Lock* lock, int64_t* end_ns);
  void EmitRecord(Stream* on, Event* recorded, uint16_t flags);

  // --- process_gpu_copies.cc
  struct Sides {
    protocol::CopyKind kind;
    bool pinned;
  };
  Error FindSides(const CopyRequest& request, Sides* sides);
  bool HostMustWait(const CopyRequest& request, const Sides& sides) const;
  // Moves contents and existing bytes; results that are not here yet become landings.
  bool Move(const CopyRequest& request, const Sides& sides,
            std::vector<Landing>* landings);
  bool MoveRow(const Sides& sides, uint64_t to, uint64_t from, uint64_t bytes,
               std::vector<Landing>* landings);
  bool StoreFromHost(uint64_t to, const void* from, uint64_t bytes);
  Error CheckFill(const FillRequest& request);
  // Emit...: the record, and the note for a profiler. Mark...: what it does to memory.
  // `flags`: Record::flags.
  void EmitCopy(const Stream& stream, const CopyRequest& request, const Sides& sides,
                uint16_t flags);
  void EmitFill(const Stream& stream, const FillRequest& request, uint16_t flags);
  void MarkFill(const FillRequest& request);

  // --- process_gpu_work.cc
  uint32_t RecordName(KernelCode* code);
  Error CheckKernel(const KernelLaunch& launch);
  void EmitKernel(const Stream& stream, const KernelLaunch& launch, uint16_t flags);
  void EmitGemm(const Stream& stream, const GemmLaunch& launch, uint16_t flags);
  void EmitHostFunction(Stream* stream, const HostCallParameters& what, uint16_t flags);
  enum class Through { kAllPointers, kPointersToWrite };
  template <typename Visit>
  static bool ForAddresses(const KernelLaunch& launch, Through through, Visit visit);
  // Device memory that the kernel can reach: what follows each address among its
  // arguments in the block or allocation that it lies in, once; all of the program's
  // where the arguments are not known.
  uint64_t ReachableBytes(const KernelLaunch& launch);
  KernelWrites WritesOf(const KernelLaunch& launch);
  void MarkWrites(const KernelLaunch& launch);
  // --- process_gpu_compute.cc
  // Runs the launch by its machine code where it is small and all that it reads is
  // known: what it writes then exists. False: nothing was written.
  bool Compute(const KernelLaunch& launch);
  // --- process_gpu_values.cc
  // Where the kernel is element-wise: its output alone is written, and computed if its
  // inputs are known. False: another kernel.
  bool MarkElements(const KernelLaunch& launch);
  // The same for torch.cat's: copies what they copy.
  bool MarkConcat(const KernelLaunch& launch);
  bool MarkListCopy(const KernelLaunch& launch);
  void CopyOnDevice(const CopyPart& part);
  // The same for reductions.
  bool MarkReduction(const KernelLaunch& launch);
  // The same for the loss scale of torch.amp.
  bool MarkLossScale(const KernelLaunch& launch);
  Origin ElementsOf(const KernelLaunch& launch, const unsigned char* operands,
                    uint64_t elements);
  // What a kernel makes of its inputs: bytes that are stored, or a value that waits for
  // results. Computed by `writer` where an input or the output has no bytes.
  struct KernelInput {
    uint64_t address, bytes;
  };
  Origin ValueOf(std::span<const KernelInput> inputs, uint64_t out, uint64_t out_bytes,
                 PendingValue::Compute compute, const char* writer);
  void MarkBlindWrite(const KernelCode& kernel);
  void MarkOutputs(const GemmLaunch& launch);
  void MarkBlock(const WrittenBlock& block, const char* writer);

  static uint32_t ContextOf(int device) { return static_cast<uint32_t>(device) + 1; }
  // CUPTI gives the legacy default stream the number 7; others count on from there.
  static uint32_t NumberOf(const Stream& stream) {
    constexpr uint32_t kLegacy = 7;
    return stream.legacy ? kLegacy : kLegacy + static_cast<uint32_t>(stream.id);
  }
  static ActivitySync SyncOn(const Event& event) {
    return {.kind = ActivitySyncKind::kEvent,
            .context = ContextOf(event.device),
            .event = event.number,
            .event_sync_id = event.recording};
  }
  // --- process_gpu_activity.cc; REQUIRES: somebody listens. Records are the thread's
  // latest where nothing else is said.
  void Introduce();
  void NoteWork(const Stream& stream, ActivityWork work);
  void NoteCopy(const Stream& stream, const protocol::Copy& copy);
  void NoteLibraryWork(const Stream& stream, const protocol::Record& record);
  // As libnccl joins streams on a real GPU: an event's record and a wait for it.
  void JoinAsCalls(Stream* waiting, Stream* before);
  void NoteEventRecord(const Stream& stream, uint32_t event, uint64_t recording);
  // A wait or question of the host, or (kStreamWait) of a stream.
  void NoteSync(ActivitySync sync, const PendingWait* wait = nullptr);
  // ... of the thread's latest record.
  void NoteQuestion(const ActivitySync& sync);
  void NoteStream(Stream* stream, bool destroyed);
  // `delta`: of the device's used memory.
  void NoteMemory(ActivityMemory memory, int64_t delta);
  // What Account has changed last, of memory that has no address of the program's.
  void NoteChange(int device, protocol::MemoryOwner owner);
  void NoteHostMemory(bool release, uint64_t address, uint64_t bytes);
  void NoteContext(int device, int64_t delta_bytes);

  // --- process_gpu_memory.cc
  void* AddEvent(unsigned flags, int device);
  // --- process_gpu_sharing.cc
  SharedHandle OwnHandle(SharedHandle::Kind kind, int device, uint64_t id,
                         uint64_t bytes);
  Error BeginImport(const SharedHandle& handle, SharedHandle::Kind kind, int* device);
  int PlaceOf(const SharedHandle& handle, int device);
  // nullptr where it is another process's, or gone.
  Physical* FindOwnPhysical(const SharedHandle& shared) const;
  void DropImported(int device);
  void NoteWaitFor(const Event& event);
  static ActivityMemory MemoryOf(const Allocation& allocation, int device);
  // Frees it; a stream that a pool's memory is freed on orders its next use.
  void Release(Allocation* gone, int device, Stream* on);
  void ReturnPhysical(uint64_t handle);
  Physical* PhysicalOf(const Mapping& mapping) const {
    return physical_.Find(reinterpret_cast<void*>(mapping.handle));
  }
  // Whether the range consists of whole mappings.
  bool IsMapped(uint64_t address, uint64_t bytes) const;
  void Park(Physical* physical, uint64_t address);
  // The mapping that the address lies in, or the end.
  std::map<uint64_t, Mapping>::iterator FindMapping(uint64_t address);
  void DropMappings(int device);
  Pool* FindPool(void* handle);
  Pool* MakePool(int device, uint64_t max_bytes);
  Context& WithPools(int device);
  // The node's numbers of the devices that CUDA_VISIBLE_DEVICES leaves, read at the
  // first call that wants to know.
  const std::vector<int>& visible();
  Context& context(int device) { return contexts_[static_cast<size_t>(device)]; }

  Channel* const channel_;
  ActivityRecorder activity_;
  std::recursive_mutex mutex_;
  bool claimed_ = false;
  std::atomic<bool> visible_read_ = false;
  std::atomic<bool> faulted_ = false;  // Fault()
  std::vector<int> visible_;        // see visible(); guarded by mutex_ until it is read
  std::vector<Imported> imported_;  // few
  std::vector<Context> contexts_;  // by device; those beyond the visible ones stay idle
  int64_t account_delta_ = 0;      // of the latest Account
  uint64_t program_bytes_ = 0;     // MemoryOwner::kProgram's, of all devices
  std::vector<std::pair<uint64_t, uint64_t>> reached_;  // by ReachableBytes; to reuse
  Stream* working_ = nullptr;                           // between BeginWork and EndWork
  uint32_t events_made_ = 0;  // numbers of events, for profilers
  uint64_t recordings_ = 0;   // ... and of their recordings
  Lanes lanes_;
  Contents contents_;
  Obligations obligations_;
  HostFunctions host_functions_;
  HostMemory host_memory_;
  HandleTable<Event, 0x52> events_;
  HandleTable<Pool, 0x53> pools_;
  HandleTable<Physical, 0x54> physical_;
  std::map<uint64_t, Mapping> mappings_;  // by address
  ProcessGraphs graphs_{this};
  std::mutex kernels_mutex_;
  std::unordered_map<std::string_view, std::unique_ptr<KernelCode>> kernels_;
  uint64_t host_functions_issued_ = 0;
  // By threads of launches, less what launches give back (process_gpu_compute.cc).
  uint64_t computed_instructions_ = 0;
};

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_PROCESS_GPU_H_
