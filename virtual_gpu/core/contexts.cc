#include "virtual_gpu/core/contexts.h"

#include <atomic>

#include "base/guest/context_memory.h"
#include "base/guest/raw_log.h"
#include "virtual_gpu/core/api_lock.h"
#include "virtual_gpu/core/thread_state.h"

namespace vrank::gpu {

Contexts::Contexts(Channel* channel, std::recursive_mutex& lock, Devices& devices,
                   Contents& contents, Pools& pools, MemoryAccounting& accounting,
                   ActivityRecorder& recorder, ActivityNotes& notes)
    : channel_(channel),
      mutex_(lock),
      devices_(devices),
      contents_(contents),
      pools_(pools),
      accounting_(accounting),
      recorder_(recorder),
      notes_(notes) {
  if (channel != nullptr)
    contexts_.resize(channel->settings().devices);
}

Error Contexts::Begin(int* device) {
  VRANK_RETURN_IF_FAILED(devices_.Ready());
  int& current = ThisThread().device;
  if (current < 0)
    current = 0;
  *device = current;
  return Of(current).active ? Error::kSuccess : Activate(current);
}

Error Contexts::Ensure(int device) {
  VRANK_RETURN_IF_FAILED(devices_.Ready());
  if (!devices_.Has(device))
    return Error::kInvalidDevice;
  ApiLock lock(mutex_);
  return Of(device).active ? Error::kSuccess : Activate(device);
}

Error Contexts::Activate(int device) {
  if (!claimed_ && !channel_->ClaimRank()) {
    static std::atomic<bool> said;
    if (!said.exchange(true))
      RawLog("virtual_gpu",
             "another process of this rank uses the GPU "
             "already; one process per rank "
             "can. Let worker processes stay on the CPU; and "
             "start the program once per rank, or, if it spawns its "
             "ranks itself (torch.multiprocessing), run it by `vrank "
             "emulate --launcher --world-size N -- ...`");
    return Error::kDevicesUnavailable;
  }
  if (!claimed_)
    recorder_.RankClaimed();
  claimed_ = true;
  ThisThread().issues = true;
  DeviceMemory& memory = contents_.memory(device);
  const protocol::Settings& settings = channel_->settings();
  const uint64_t bytes = settings.gpu.context_bytes + LoadedCodeBytes();
  channel_->Spend(HostCost::kContext);
  // A process of a node that has one process per GPU has the one of its own number.
  const int node_device = devices_.NodeDevice(device);
  const bool is_own = node_device == static_cast<int>(settings.local_rank);
  if (settings.local_world_size > 1 && !is_own)
    memory.SetHeldByOthers(accounting_.AskOthers(node_device, bytes, true));
  else
    accounting_.ReadOthers(device, bytes, nullptr);
  if (!Take(device, bytes))
    return Error::kOutOfMemory;
  if (notes_.listening()) [[unlikely]]
    notes_.Context(device, static_cast<int64_t>(bytes));
  pools_.Of(device);  // its handle is the device's first
  Of(device).active = true;
  return Error::kSuccess;
}

void Contexts::End(int device) {
  const uint64_t bytes = Of(device).bytes;
  GiveBack(device, bytes);
  if (notes_.listening()) [[unlikely]]
    notes_.Context(device, -static_cast<int64_t>(bytes));
  Of(device) = {};
}

bool Contexts::Take(int device, uint64_t bytes) {
  if (!contents_.memory(device).TakeHidden(bytes)) {
    channel_->Count(LossId::kNoMemoryLeft, 1);
    return false;
  }
  Of(device).bytes += bytes;
  accounting_.Emit(device, static_cast<int64_t>(bytes),
                   protocol::MemoryOwner::kContext);
  return true;
}

void Contexts::GiveBack(int device, uint64_t bytes) {
  contents_.memory(device).GiveBackHidden(bytes);
  Of(device).bytes -= bytes;
  accounting_.Emit(device, -static_cast<int64_t>(bytes),
                   protocol::MemoryOwner::kContext);
}

bool Contexts::TakeStream(int device) {
  return Take(device, kStreamBytes);
}

void Contexts::GiveBackStream(int device) {
  GiveBack(device, kStreamBytes);
}

Error Contexts::EnablePeer(int device, int peer) {
  return Of(device).peers.insert(peer).second ? Error::kSuccess
                                              : Error::kPeerAccessAlreadyEnabled;
}

Error Contexts::DisablePeer(int device, int peer) {
  return Of(device).peers.erase(peer) == 1 ? Error::kSuccess
                                           : Error::kPeerAccessNotEnabled;
}

void Contexts::NoteIssuer(int device) {
  Context& mine = Of(device);
  const std::thread::id self = std::this_thread::get_id();
  if (mine.issuer == self) [[likely]]
    return;
  mine.issuer = self;
  for (const Context& other : contexts_)
    if (other.issuer != self && other.issuer != std::thread::id())
      channel_->IssueSideBySide();
}

}  // namespace vrank::gpu
