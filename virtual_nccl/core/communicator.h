// One member of one communicator: what an ncclComm_t points to.
//
// The object outlives its communicator: a watchdog thread may ask for the state of one
// that the main thread is destroying, and finds a dead magic number instead of freed
// memory. A training job makes some hundred communicators; of a program that makes and
// destroys millions the library remembers the latest 1,024 dead ones (library.h).
//
// Thread rule: the first group of members is fixed before the program gets the handle;
// the atomic ones may be used by any thread; `mutex` guards the rest.

#ifndef VRANK_VIRTUAL_NCCL_CORE_COMMUNICATOR_H_
#define VRANK_VIRTUAL_NCCL_CORE_COMMUNICATOR_H_

#include <nccl.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "virtual_nccl/core/config.h"

namespace vrank::nccl {

enum class CommunicatorState : uint32_t {
  kJoining,  // its init is in an open group, or waits for the other members
  kReady,
  kRevoked,    // no operations; may be split, shrunk, destroyed
  kFinalized,  // nothing but destroy and abort
  kFailed,     // its init has failed: nothing but abort
  kGone,       // destroyed or aborted
};

// A reduction made by ncclRedOpCreatePreMulSum.
struct UserReduction {
  ncclDataType_t type;
  bool exists;
  // Where the scalar lies, if on the device; else its bytes.
  const void* device_scalar;
  std::array<unsigned char, 8> scalar;
};

struct PendingMeeting;  // meeting.cc

class Communicator {
 public:
  Communicator(uint32_t number, uint32_t ranks, uint32_t rank, int device,
               uint64_t hash, uint64_t passed_hash, Config config)
      : number(number),
        ranks(ranks),
        rank(rank),
        device(device),
        hash(hash),
        passed_hash(passed_hash),
        config(std::move(config)) {}

  // The object behind a program's handle; nullptr if there is none (any more).
  static Communicator* From(ncclComm_t handle) {
    auto* communicator = reinterpret_cast<Communicator*>(handle);
    return communicator != nullptr && communicator->magic_ == kMagic ? communicator
                                                                     : nullptr;
  }
  ncclComm_t handle() { return reinterpret_cast<ncclComm_t>(this); }

  CommunicatorState state() const { return state_.load(std::memory_order_acquire); }
  // REQUIRES: not kGone, see Die().
  void set_state(CommunicatorState state) {
    state_.store(state, std::memory_order_release);
  }

  // Returns the state before.
  CommunicatorState Die() {
    magic_ = 0;
    return state_.exchange(CommunicatorState::kGone, std::memory_order_acq_rel);
  }

  // How many of its operations are in CUDA graphs that exist. It outlives them.
  uint32_t CapturedOperations() const {
    return static_cast<uint32_t>(captured.use_count() - 1);
  }

  const uint32_t number;  // of protocol.h: 1, 2, 3, ... in the process
  const uint32_t ranks;
  const uint32_t rank;
  const int device;
  const uint64_t hash;  // equal for all members, see unique_id.h
  // Equal for those of this process, and tells communicators of equal hash apart.
  const uint64_t passed_hash;
  const Config config;

  std::mutex mutex;
  uint64_t reserved_memory = 0;  // address from VirtualGpu::Reserve, 0: none
  uint32_t splits = 0;           // made of this communicator so far
  uint32_t collectives = 0;      // emitted so far: the next one's PayloadKey::sequence
  uint32_t groups = 0;           // fused launches so far
  uint32_t grows = 0;            // made of this communicator so far
  bool grow_id_is_out = false;   // ncclCommGetUniqueId's, until the grow that takes it
  bool suspended = false;        // its memory is given back until ncclCommResume
  // Transfers so far, by peer; empty until the first one.
  std::vector<uint32_t> sent, received;
  std::vector<UserReduction> reductions;
  // Its operations in CUDA graphs share it for as long as they exist.
  const std::shared_ptr<const char> captured = std::make_shared<const char>('\0');
  // Handles given out and not taken back, and the buffers that they stand for.
  std::map<uint64_t, void*> registrations;
  uint64_t next_registration = 1;

  // Members of this process that joined without waiting, oldest first: of this
  // communicator's init, or of its splits.
  std::mutex meetings_mutex;
  std::vector<std::shared_ptr<PendingMeeting>> meetings;
  std::atomic<bool> in_progress = false;  // there are some
  // Why its init, or a split that nobody waited for, has failed. It stays so.
  std::atomic<ncclResult_t> failure = ncclSuccess;
  // ncclGetLastError has been told that a member is lost.
  std::atomic<bool> noted_broken = false;

 private:
  static constexpr uint64_t kMagic = 0x6d6f636b6e617276;  // "vrankcom"

  std::atomic<uint64_t> magic_ = kMagic;
  std::atomic<CommunicatorState> state_ = CommunicatorState::kJoining;
};

// The communicator behind `handle`: *found is set, or InvalidArgument returned for a
// null or dead handle. `function`: the entry point, for the message. Most calls want
// one that is ready, too: see meeting.h.
ncclResult_t FindCommunicator(ncclComm_t handle, const char* function,
                              Communicator** found);

inline bool IsSuspended(Communicator* communicator) {
  std::lock_guard lock(communicator->mutex);
  return communicator->suspended;
}

// InvalidArgument, with the function's and the argument's name, for a null pointer.
ncclResult_t RequirePointer(const void* pointer, const char* function,
                            const char* argument);

// User reductions. A handle says which communicator made it and which of its operations
// it is: number << kReductionIndexBits | ncclNumOps + index.
inline constexpr int kReductionIndexBits = 12;
ncclResult_t CreateReduction(Communicator* communicator, const UserReduction& reduction,
                             ncclRedOp_t* made);
ncclResult_t DestroyReduction(Communicator* communicator, int operation);
// nullptr where this communicator has no such operation (any more).
// REQUIRES: communicator.mutex held.
const UserReduction* FindReduction(const Communicator& communicator, int operation);

}  // namespace vrank::nccl

#endif  // VRANK_VIRTUAL_NCCL_CORE_COMMUNICATOR_H_
