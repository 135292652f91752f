// What must have happened on the host before a wait of the program may return.
//
// Virtual time and real bytes move apart: a copy of a collective's result is issued
// before the result exists, and a host function runs when the engine knows its start.
// Each such piece of outstanding host work has an id here; streams and events carry the
// ids that come before them (stream.h), and a wait or a successful query settles those.
//
// Thread rule: every method may be called from any thread, without the GPU's lock.

#ifndef VRANK_VIRTUAL_GPU_CORE_OBLIGATIONS_H_
#define VRANK_VIRTUAL_GPU_CORE_OBLIGATIONS_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/guest/channel.h"
#include "virtual_gpu/core/error.h"
#include "virtual_gpu/core/stream.h"

namespace vrank::gpu {

struct PendingValue;  // virtual_gpu/core/pending_value.h

// Bytes of a collective's result, or of what is computed from one, that the host was
// promised.
struct Landing {
  protocol::PayloadKey key{};
  uint64_t offset = 0;  // in this member's result, or in the value
  uint64_t bytes = 0;
  unsigned char* to = nullptr;
  std::shared_ptr<PendingValue> pending = nullptr;  // null: a result
  // For what a kernel reads: flags of the bytes that are known, 0xff or 0. Null: the
  // bytes go to the host, and what is not known is shown to it.
  unsigned char* known = nullptr;
};

class Obligations {
 public:
  // Writes what stands for bytes that a virtual kernel would have computed.
  using WriteComputed = std::function<void(unsigned char* to, uint64_t bytes)>;

  Obligations(Channel* channel, WriteComputed write_computed)
      : channel_(channel), write_computed_(std::move(write_computed)) {}

  uint64_t AddLanding(const Landing& landing);
  // Host work that somebody else does and reports with Finish.
  uint64_t AddForeign();
  // The arrival of a collective's result: done once a wait has covered the collective.
  // From then on its bytes can be fetched without waiting for other ranks.
  uint64_t AddArrival();
  bool HaveArrived(const ObligationSet& ids);
  // Work of the GPU has failed, which a wait that covers it finds out: then `tell` is
  // called, once.
  uint64_t AddFailure(std::function<void()> tell);
  // Takes out what is done.
  void Prune(ObligationSet* ids);
  void Finish(uint64_t id);

  // Whether one of them is somebody else's and not done.
  bool AnyForeign(const ObligationSet& ids);

  // Returns once all of them are done; fetches bytes where need be. kAssert where a
  // failure is among them.
  Error Settle(const ObligationSet& ids);

  // Landings whose bytes lie in [from, from + bytes), cut to that range: what a copy
  // from there must treat as a result that is not here yet.
  std::vector<Landing> Overlapping(const void* from, uint64_t bytes);

  // Fetches now. False where some bytes do not exist, and zero or a policy's value
  // stands for them (or their flags say so). REQUIRES: the result's operation has
  // ended, or will without help of the calling thread.
  bool Land(const Landing& landing);
  // Called once, by the thread that fetches next, before it asks.
  void BeforeNextFetch(std::function<void()> call);

  bool empty();

 private:
  struct Entry {
    bool foreign = false;
    bool arrival = false;
    bool running = false;
    std::function<void()> failure;
    Landing landing;
  };

  Error SettleOne(uint64_t id);
  bool LandValue(const Landing& landing);
  // So many bytes of the landing, from an offset on, are not known.
  void Miss(const Landing& landing, uint64_t from, uint64_t bytes);

  Channel* const channel_;
  const WriteComputed write_computed_;
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t next_id_ = 1;
  std::map<uint64_t, Entry> entries_;
  std::vector<std::function<void()>> before_fetch_;
};

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_OBLIGATIONS_H_
