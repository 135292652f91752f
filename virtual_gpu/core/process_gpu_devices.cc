// Process, devices, contexts.

#include <atomic>
#include <cstdlib>

#include "base/guest/raw_log.h"
#include "virtual_gpu/core/device_attributes.h"
#include "virtual_gpu/core/process_gpu.h"
#include "virtual_gpu/core/process_gpu_account.h"
#include "virtual_gpu/core/thread_state.h"
#include "virtual_gpu/core/visible_devices.h"

namespace vrank::gpu {

ProcessGpu::ProcessGpu(Channel* channel)
    : channel_(channel),
      activity_(channel, [this] { Introduce(); }),
      lanes_(channel),
      contents_(channel),
      obligations_(channel,
                   [this](unsigned char* to, uint64_t bytes) {
                     contents_.WriteComputed(Origin::Computed(""), to, bytes);
                   }),
      host_functions_(channel, &obligations_) {
  if (channel == nullptr)
    return;
  const protocol::Settings& settings = channel->settings();
  contexts_.resize(settings.devices);
  for (uint32_t i = 0; i < settings.devices; ++i)
    contents_.AddDevice(
        std::make_unique<DeviceMemory>(static_cast<int>(i), settings.gpu.memory_bytes));
}

ProcessGpu::~ProcessGpu() = default;

void ProcessGpu::SetValuePolicy(ValuePolicy policy) {
  Lock lock(mutex_);
  contents_.SetValuePolicy(std::move(policy));
}

Error ProcessGpu::Reachable() {
  if (channel_ == nullptr) {
    static std::atomic<bool> said;
    if (!said.exchange(true))
      RawLog(
          "virtual_gpu", "%s",
          getenv("VRANK_LAUNCHER") != nullptr
              ? "a launcher needs no GPU, and this process, which looks for one, has "
                "none: were it a rank, its environment would have said which when it "
                "started (RANK, SLURM_PROCID, PMI_RANK). Ranks that are arguments of "
                "a function (torch.multiprocessing.spawn) have to be started one by "
                "one, without --launcher"
              : "this process does not run under vrank, so there is no GPU; start "
                "it with `vrank emulate ... -- COMMAND`");
    return Error::kNoDevice;
  }
  return channel_->detached() ? Error::kNotInitialized : Error::kSuccess;
}

Error ProcessGpu::Ready() {
  VRANK_RETURN_IF_FAILED(Reachable());
  LetWokenRun(channel_);
  if (faulted_.load(std::memory_order_acquire)) [[unlikely]]
    return Error::kIllegalAddress;
  return DeviceCount() == 0 ? Error::kNoDevice : Error::kSuccess;
}

const std::vector<int>& ProcessGpu::visible() {
  if (!visible_read_.load(std::memory_order_acquire)) [[unlikely]] {
    Lock lock(mutex_);
    if (channel_ != nullptr && !visible_read_.load(std::memory_order_relaxed))
      visible_ = VisibleDevices(channel_->settings(), getenv("CUDA_VISIBLE_DEVICES"));
    visible_read_.store(true, std::memory_order_release);
  }
  return visible_;
}

int ProcessGpu::DeviceCount() {
  return static_cast<int>(visible().size());
}

int ProcessGpu::NodeDevice(int device) {
  return device < 0 || device >= DeviceCount() ? -1
                                               : visible()[static_cast<size_t>(device)];
}

int ProcessGpu::FindNodeDeviceInUse(int node_device) {
  Lock lock(mutex_);
  if (!claimed_)
    return -1;
  for (int device = 0; device < DeviceCount(); ++device)
    if (NodeDevice(device) == node_device && context(device).active)
      return device;
  return -1;
}

int ProcessGpu::CurrentDevice() {
  return ThisThread().device;
}

Error ProcessGpu::SetCurrentDevice(int device) {
  if (device != -1) {
    VRANK_RETURN_IF_FAILED(Ready());
    if (device < 0 || device >= DeviceCount())
      return Error::kInvalidDevice;
    channel_->Spend(HostCost::kAttribute);
  }
  ThisThread().device = device;
  return Error::kSuccess;
}

Error ProcessGpu::GetDeviceAttribute(int device, int attribute, int* value) {
  VRANK_RETURN_IF_FAILED(Ready());
  if (device < 0 || device >= DeviceCount())
    return Error::kInvalidDevice;
  const auto found =
      DeviceAttribute(channel_->settings().gpu, NodeDevice(device), attribute);
  if (!found || value == nullptr)
    return Error::kInvalidValue;
  channel_->Spend(HostCost::kAttribute);
  *value = *found;
  return Error::kSuccess;
}

Error ProcessGpu::EnsureContext(int device) {
  VRANK_RETURN_IF_FAILED(Ready());
  if (device < 0 || device >= DeviceCount())
    return Error::kInvalidDevice;
  Lock lock(mutex_);
  return context(device).active ? Error::kSuccess : StartContext(device);
}

bool ProcessGpu::ContextIsActive(int device) {
  Lock lock(mutex_);
  return device >= 0 && device < DeviceCount() && context(device).active;
}

Error ProcessGpu::Begin(int* device) {
  VRANK_RETURN_IF_FAILED(Ready());
  int& current = ThisThread().device;
  if (current < 0)
    current = 0;
  *device = current;
  return context(current).active ? Error::kSuccess : StartContext(current);
}

Error ProcessGpu::StartContext(int device) {
  if (!claimed_ && !channel_->ClaimRank()) {
    static std::atomic<bool> said;
    if (!said.exchange(true))
      RawLog(
          "virtual_gpu",
          "another process of this rank uses the GPU already; one process per rank "
          "can. Let worker processes stay on the CPU; and start the program once per "
          "rank (not by torch.multiprocessing.spawn: vrank sets RANK, WORLD_SIZE and "
          "LOCAL_RANK)");
    return Error::kDevicesUnavailable;
  }
  if (!claimed_)
    activity_.RankClaimed();
  claimed_ = true;
  ThisThread().issues = true;
  DeviceMemory& memory = contents_.memory(device);
  const protocol::Settings& settings = channel_->settings();
  const uint64_t bytes = settings.gpu.context_bytes;
  channel_->Spend(HostCost::kContext);
  // A process of a node that has one process per GPU has the one of its own number.
  const bool is_own = NodeDevice(device) == static_cast<int>(settings.local_rank);
  if (settings.local_world_size > 1 && !is_own)
    memory.SetHeldByOthers(AskMemory(NodeDevice(device), bytes, true));
  else
    LookAtOthers(device, bytes, nullptr);
  if (!memory.TakeHidden(bytes)) {
    channel_->Count(LossId::kNoMemoryLeft, 1);
    return Error::kOutOfMemory;
  }
  EmitMemory(device, static_cast<int64_t>(bytes), protocol::MemoryOwner::kContext);
  if (activity_.listening()) [[unlikely]]
    NoteContext(device, static_cast<int64_t>(bytes));
  WithPools(device).active = true;
  return Error::kSuccess;
}

Error ProcessGpu::DestroyContext(int device) {
  VRANK_RETURN_IF_FAILED(Ready());
  if (device < 0 || device >= DeviceCount())
    return Error::kInvalidDevice;
  Lock lock(mutex_);
  channel_->Spend(HostCost::kMalloc);
  if (!context(device).active)
    return Error::kSuccess;
  PendingWait wait = WaitForDevice(device);
  (void)PerformForDevice(&wait, &lock, device);  // its work goes with it
  DropMappings(device);
  DropImported(device);
  DeviceMemory& memory = contents_.memory(device);
  while (!memory.allocations().empty()) {
    Allocation* allocation = memory.Find(memory.allocations().begin()->first);
    Release(allocation, device, nullptr);
  }
  std::vector<void*> gone;
  pools_.ForEach([&](void* handle, Pool& pool) {
    if (pool.device != device)
      return;
    Account(device, protocol::MemoryOwner::kProgram, [&] { pool.Clear(); });
    if (activity_.listening()) [[unlikely]]
      NoteChange(device, protocol::MemoryOwner::kProgram);
    gone.push_back(handle);
  });
  for (void* handle : gone)
    pools_.Remove(handle);
  gone.clear();
  events_.ForEach([&](void* handle, Event& event) {
    if (event.device != device)
      return;
    if (event.token.id != 0)
      lanes_.GiveBackToken(event.token);
    gone.push_back(handle);
  });
  for (void* handle : gone)
    events_.Remove(handle);
  if (activity_.listening()) [[unlikely]] {
    for (Stream* stream : lanes_.OfDevice(device))
      NoteStream(stream, true);
  }
  graphs_.ForgetDevice(device);
  lanes_.DestroyAll(device);
  const uint64_t bytes = channel_->settings().gpu.context_bytes;
  memory.GiveBackHidden(bytes);
  EmitMemory(device, -static_cast<int64_t>(bytes), protocol::MemoryOwner::kContext);
  if (activity_.listening()) [[unlikely]]
    NoteContext(device, -static_cast<int64_t>(bytes));
  context(device) = {};
  return Error::kSuccess;
}

void ProcessGpu::EmitMemory(int device, int64_t delta, protocol::MemoryOwner owner) {
  protocol::Memory record{};
  record.record.kind = protocol::RecordKind::kMemory;
  record.delta_bytes = delta;
  record.device = static_cast<uint32_t>(NodeDevice(device));
  record.owner = owner;
  channel_->Emit(record);
  if (owner == protocol::MemoryOwner::kProgram)
    program_bytes_ += static_cast<uint64_t>(delta);
}

Error ProcessGpu::EnablePeerAccess(int peer) {
  Lock lock(mutex_);
  int device = 0;
  VRANK_RETURN_IF_FAILED(Begin(&device));
  if (peer < 0 || peer >= DeviceCount() || peer == device)
    return Error::kInvalidDevice;
  channel_->Spend(HostCost::kAttribute);
  return context(device).peers.insert(peer).second ? Error::kSuccess
                                                   : Error::kPeerAccessAlreadyEnabled;
}

Error ProcessGpu::DisablePeerAccess(int peer) {
  Lock lock(mutex_);
  int device = 0;
  VRANK_RETURN_IF_FAILED(Begin(&device));
  if (peer < 0 || peer >= DeviceCount())
    return Error::kInvalidDevice;
  channel_->Spend(HostCost::kAttribute);
  return context(device).peers.erase(peer) == 1 ? Error::kSuccess
                                                : Error::kPeerAccessNotEnabled;
}

}  // namespace vrank::gpu
