// How the NCCL stand-in tells the tracer what it was asked to do.
//
// CUPTI sees an NCCL kernel but not its communicator, operation or size. The stand-in
// knows, and the tracer lives in the same process, so it is told directly. An operation
// is joined to its launch by an external correlation id, which the tracer pushes while
// the launch is made.
//
// Thread rule: every method from any thread; Begin and End of one operation or call on
// the same thread. Never blocks on the emulator except for a reading of the clock.

#ifndef VRANK_BASE_GUEST_NCCL_TRACE_H_
#define VRANK_BASE_GUEST_NCCL_TRACE_H_

#include <dlfcn.h>

#include <cstdint>

#include "base/guest/protocol.h"

namespace vrank {

class NcclTrace {
 public:
  // Bumped with any change of this class; FindNcclTrace compares.
  static constexpr uint32_t kAbi = 3;

  // Around the launch of a collective, or of a fused group of sends and receives
  // (`transfers` has group.count entries). Fields of the record's header mean nothing
  // here; `lane` is the stream as the virtual GPU numbers it, 0 on a real one.
  // `captured`: the stream is captured, and what is made until EndOperation is no
  // launch but nodes of a graph, which do the operation at each launch.
  virtual void BeginCollective(const protocol::Collective& call, bool captured) = 0;
  virtual void BeginTransfers(const protocol::PointToPoint& group,
                              const protocol::Transfer* transfers, bool captured) = 0;
  virtual void EndOperation() = 0;

  // Around host calls in which other members have a part, or that wait. `name`:
  // ncclConfig_t::commName or "". `size`: 0 where this rank is no member (kNoColor).
  virtual void BeginHostCall() = 0;
  virtual void EndInit(const protocol::CommInit& call, const char* name) = 0;
  virtual void EndSplit(const protocol::CommSplit& call, const char* name,
                        uint32_t size, uint32_t index) = 0;
  virtual void EndRelease(const protocol::CommRelease& call) = 0;

  // Device memory that NCCL takes for a communicator (negative: gives back), where
  // CUPTI does not see it. On the thread of the creation or release that it belongs to.
  virtual void Reserve(uint32_t communicator, int64_t delta_bytes) = 0;

 protected:
  ~NcclTrace() = default;
};

// The process's tracer, or nullptr where it is not traced.
inline NcclTrace* FindNcclTrace() {
  using Find = NcclTrace* (*)(uint32_t abi);
  static NcclTrace* const found = []() -> NcclTrace* {
    auto find = reinterpret_cast<Find>(dlsym(RTLD_DEFAULT, "vrank_nccl_trace"));
    return find == nullptr ? nullptr : find(NcclTrace::kAbi);
  }();
  return found;
}

}  // namespace vrank

#endif  // VRANK_BASE_GUEST_NCCL_TRACE_H_
