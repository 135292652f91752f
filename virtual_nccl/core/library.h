// What one process knows of NCCL: its way out, and its communicators.
//
// Everything in core/ works on a Library that it is given; the entry points in api/
// keep the one of the process, tests make one from a fake channel and a fake GPU.
//
// Thread rule: every method may be called from any thread.

#ifndef VRANK_VIRTUAL_NCCL_CORE_LIBRARY_H_
#define VRANK_VIRTUAL_NCCL_CORE_LIBRARY_H_

#include <nccl.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>

#include "base/guest/channel.h"
#include "base/guest/nccl_trace.h"
#include "base/guest/virtual_gpu.h"
#include "virtual_nccl/core/communicator.h"

namespace vrank::nccl {

struct Creation;  // creation.h

// A root's own part of a gather, to be deposited later (payload.h).
struct OwnPart {
  protocol::PayloadKey key{};
  const void* address = nullptr;
  uint64_t bytes = 0;
};

class Library {
 public:
  // Both live as long as the library.
  Library(Channel* channel, VirtualGpu* gpu) : channel_(channel), gpu_(gpu) {}

  Channel& channel() { return *channel_; }
  VirtualGpu& gpu() { return *gpu_; }

  // The calling thread's device, as cudaGetDevice says it: 0 where none was chosen.
  int CurrentDevice();
  // Creating a communicator may be the program's first use of a device: NCCL's own
  // first CUDA call makes the context.
  void MakeContext(int device);

  ncclUniqueId NewUniqueId(const char* comm_id);

  // What a call ends with that would need the other members, once the session has been
  // called off, or a member of the communicator is lost. REQUIRES:
  // channel().aborting(), or HasLostMember(*communicator).
  ncclResult_t FailRemotely(const char* function,
                            const Communicator* communicator = nullptr);
  // Some member will not come any more.
  bool HasLostMember(const Communicator& communicator) const;

  // A communicator's number. Taken by the call, in program order, also where the
  // communicator comes into being later or not at all.
  uint32_t NextNumber() { return next_number_++; }
  // Keeps the communicator until it is one of the long dead, see communicator.h.
  Communicator* Add(std::unique_ptr<Communicator> communicator);
  // Who is told what memory communicators take; nullptr: nobody.
  NcclTrace* TraceOfMemory();
  // Takes the device memory that NCCL would take; UnhandledCudaError where the device
  // has no room for it.
  ncclResult_t ReserveMemory(Communicator* communicator);
  // Bytes of it that are taken now.
  uint64_t ReservedBytes(Communicator* communicator);
  // Gives back what ReserveMemory took.
  void GiveMemoryBack(Communicator* communicator);
  // Its init has failed with `failure`. The program keeps the handle and aborts it, as
  // with NCCL; device memory is given back. Nothing if it was gone before.
  void KeepFailed(Communicator* communicator, ncclResult_t failure);
  // Marks it as gone and gives its device memory back. Frees the one that has been gone
  // longest where more than kDeadOnesKept are. Nothing if it was gone before.
  void Retire(Communicator* communicator);

  void PromiseOwnPart(const OwnPart& part);
  std::vector<OwnPart> TakeOwnParts();
  // The GPU will call before the next fetch.
  std::atomic<bool> awaits_fetch = false;

  // Living and dead ones in memory.
  size_t communicators();

  // Whether another member of this one's communicator lives in this process.
  bool HasOtherMember(const Communicator& communicator);
  // One of `members`, which are about to join, that shares its GPU with another one;
  // nullptr: none does.
  const Communicator* FindOnSameGpu(std::span<const Creation> members);

 private:
  static constexpr size_t kDeadOnesKept = 1024;

  Channel* const channel_;
  VirtualGpu* const gpu_;
  std::atomic<uint32_t> next_number_ = 1;
  std::atomic<uint32_t> unique_ids_ = 0;
  std::mutex mutex_;  // guards the two below
  std::unordered_map<Communicator*, std::unique_ptr<Communicator>> communicators_;
  std::deque<Communicator*> dead_;  // oldest first
  std::atomic<bool> has_own_parts_ = false;
  std::mutex own_parts_mutex_;
  std::vector<OwnPart> own_parts_;
};

}  // namespace vrank::nccl

#endif  // VRANK_VIRTUAL_NCCL_CORE_LIBRARY_H_
