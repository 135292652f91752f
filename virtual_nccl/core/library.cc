// The process's communicators and the device memory that they take.

#include "virtual_nccl/core/library.h"

#include <algorithm>
#include <utility>

#include "base/guest/communicator_memory.h"
#include "base/guest/nccl_trace.h"
#include "base/guest/raw_log.h"
#include "virtual_nccl/core/creation.h"
#include "virtual_nccl/core/error.h"
#include "virtual_nccl/core/unique_id.h"

namespace vrank::nccl {
namespace {

CommunicatorMemory MemoryModel(const protocol::Settings& settings) {
  return {.first_bytes = settings.communicator_bytes,
          .peer_bytes = settings.communicator_peer_bytes,
          .single_bytes = settings.communicator_single_bytes,
          .tree_bytes = settings.communicator_tree_bytes,
          .nvls_bytes = settings.communicator_nvls_bytes,
          .nvls_members = settings.communicator_nvls_members};
}

}  // namespace
int Library::CurrentDevice() {
  MakeContext(kCurrentDevice);
  return std::max(gpu_->CurrentDevice(), 0);
}

void Library::MakeContext(int device) {
  VirtualGpu::Stream stream;
  gpu_->FindStream(nullptr, device, &stream);
}

ncclUniqueId Library::NewUniqueId(const char* comm_id) {
  return MakeUniqueId(comm_id, channel_->settings().rank, unique_ids_++);
}

ncclResult_t Library::FailRemotely(const char* function,
                                   const Communicator* communicator) {
  const char* const reason = channel_->aborting() || communicator == nullptr
                                 ? channel_->failure()
                                 : channel_->BrokenBy(communicator->number);
  return Fail(ncclRemoteError, "%s : another rank has failed: %s", function,
              reason != nullptr ? reason : "");
}

bool Library::HasLostMember(const Communicator& communicator) const {
  return channel_->aborting() || channel_->BrokenBy(communicator.number) != nullptr;
}

Communicator* Library::Add(std::unique_ptr<Communicator> communicator) {
  std::lock_guard lock(mutex_);
  Communicator* const added = communicator.get();
  communicators_.emplace(added, std::move(communicator));
  return added;
}

// On a real GPU CUPTI tells of it, as of any other.
NcclTrace* Library::TraceOfMemory() {
  return gpu_->HoldsStreams() ? nullptr : FindNcclTrace();
}

ncclResult_t Library::ReserveMemory(Communicator* communicator) {
  const CommunicatorMemory memory = MemoryModel(channel_->settings());
  const uint64_t bytes = memory.Bytes(communicator->ranks);
  if (bytes == 0)
    return ncclSuccess;
  uint64_t address =
      gpu_->Reserve(communicator->device, bytes, protocol::MemoryOwner::kCommunicator);
  if (address == 0) {
    void* stream = nullptr;
    VirtualGpu::Stream found;
    int error = 0;
    if (!gpu_->FindStream(stream, communicator->device, &found, &error))
      return Fail(
          ncclUnhandledCudaError,
          "CUDA error %d: device %d takes no more work, since an earlier call or "
          "kernel has failed",
          error, communicator->device);
    RawLog(
        kLibrary,
        "out of memory: device %d has no room for the %llu bytes that NCCL takes for "
        "a communicator of %u ranks",
        communicator->device, static_cast<unsigned long long>(bytes),
        communicator->ranks);
    return Fail(
        ncclUnhandledCudaError,
        "out of memory on device %d: a communicator of %u ranks takes %llu bytes",
        communicator->device, communicator->ranks,
        static_cast<unsigned long long>(bytes));
  }
  if (NcclTrace* trace = TraceOfMemory())
    trace->Reserve(communicator->number, memory.OnDevice(communicator->ranks));
  std::lock_guard lock(communicator->mutex);
  communicator->reserved_memory = address;
  return ncclSuccess;
}

uint64_t Library::ReservedBytes(Communicator* communicator) {
  std::lock_guard lock(communicator->mutex);
  return communicator->reserved_memory == 0
             ? 0
             : MemoryModel(channel_->settings()).Bytes(communicator->ranks);
}

void Library::GiveMemoryBack(Communicator* communicator) {
  uint64_t address = 0;
  {
    std::lock_guard lock(communicator->mutex);
    address = std::exchange(communicator->reserved_memory, 0);
  }
  if (address == 0)
    return;
  gpu_->GiveBack(communicator->device, address);
  if (NcclTrace* trace = TraceOfMemory())
    trace->Reserve(communicator->number,
                   -MemoryModel(channel_->settings()).OnDevice(communicator->ranks));
}

void Library::KeepFailed(Communicator* communicator, ncclResult_t failure) {
  if (communicator->state() == CommunicatorState::kGone)
    return;
  communicator->failure.store(failure, std::memory_order_release);
  communicator->set_state(CommunicatorState::kFailed);
  GiveMemoryBack(communicator);
}

void Library::PromiseOwnPart(const OwnPart& part) {
  std::lock_guard lock(own_parts_mutex_);
  own_parts_.push_back(part);
  has_own_parts_.store(true, std::memory_order_release);
}

std::vector<OwnPart> Library::TakeOwnParts() {
  std::vector<OwnPart> parts;
  if (!has_own_parts_.load(std::memory_order_acquire))
    return parts;
  std::lock_guard lock(own_parts_mutex_);
  parts.swap(own_parts_);
  has_own_parts_.store(false, std::memory_order_release);
  return parts;
}

void Library::Retire(Communicator* communicator) {
  if (communicator->Die() == CommunicatorState::kGone)
    return;
  GiveMemoryBack(communicator);
  {
    std::lock_guard lock(communicator->mutex);
    communicator->sent = {};
    communicator->received = {};
    communicator->reductions = {};
  }
  std::lock_guard lock(mutex_);
  dead_.push_back(communicator);
  if (dead_.size() <= kDeadOnesKept)
    return;
  if (dead_.front()->CapturedOperations() == 0)
    communicators_.erase(dead_.front());
  dead_.pop_front();
}

size_t Library::communicators() {
  std::lock_guard lock(mutex_);
  return communicators_.size();
}

bool Library::HasOtherMember(const Communicator& communicator) {
  std::lock_guard lock(mutex_);
  return std::any_of(
      communicators_.begin(), communicators_.end(), [&](const auto& entry) {
        const Communicator* const other = entry.first;
        return other->passed_hash == communicator.passed_hash &&
               other->rank != communicator.rank && other->ranks == communicator.ranks &&
               other->state() != CommunicatorState::kFailed &&
               other->state() != CommunicatorState::kGone;
      });
}

const Communicator* Library::FindOnSameGpu(std::span<const Creation> members) {
  for (auto member = members.begin(); member != members.end(); ++member)
    for (auto other = members.begin(); other != member; ++other)
      if (other->joining->device == member->joining->device)
        return member->joining;
  return nullptr;
}

}  // namespace vrank::nccl
