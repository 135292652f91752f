// The way from a guest library to the emulator.
//
// One object per process, owned by the preload library (virtual_host), which connects
// when the process starts. The other guest libraries find it with FindChannel(): they
// share one ring, one host clock and one set of waiting threads, whichever of them a
// program happens to load.
//
// Thread rule: every method may be called from any thread. Emit and Ask take the
// channel's own lock; a caller that needs several records in a row to stay together
// holds its own lock around them (virtual_gpu and virtual_nccl share VirtualGpu's).

#ifndef VRANK_BASE_GUEST_CHANNEL_H_
#define VRANK_BASE_GUEST_CHANNEL_H_

#include <dlfcn.h>

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/guest/protocol.h"
#include "base/guest/units.h"

namespace vrank {

class ActivityChannel;  // base/guest/activity_channel.h

enum class HostCost : uint32_t {
#define VRANK_HOST_COST(id, default_ns, meaning) id,
#include "base/guest/host_costs.def"
#undef VRANK_HOST_COST
  kCount
};
static_assert(static_cast<size_t>(HostCost::kCount) <= protocol::kMaxHostCosts);

enum class LossId : uint32_t {
#define VRANK_LOSS(id, name, meaning) id,
#include "base/guest/losses.def"
#undef VRANK_LOSS
  kCount
};
// Records have the numbers of rows, which the report names.
static_assert(static_cast<size_t>(LossId::kCount) == 18,
              "another row is another protocol::kVersion");

// What the emulator says to a question.
struct Answer {
  TimePoint host;         // the host clock after the call
  TimePoint end;          // of the target; start of a callback
  bool complete = false;  // queries
  uint64_t value = 0;
};

class Channel {
 public:
  // Bumped with any change of this class; FindChannel compares.
  static constexpr uint32_t kAbi = 10;

  virtual const protocol::Settings& settings() const = 0;

  // The host clock. Asks the engine where the launch queue may be full.
  virtual TimePoint Now() = 0;
  // Advances the host clock of this process. Only issuing threads spend time: a helper
  // thread (Emit never called on it) may call this and nothing happens.
  // Time that the program itself stated (a sleep) or that somebody vouches for.
  virtual void Spend(Duration duration) = 0;
  // Time that nobody vouches for; the ledger keeps it apart.
  virtual void SpendAssumed(Duration duration) { Spend(duration); }
  void Spend(HostCost cost, int64_t times = 1) {
    const Duration duration = Duration::Nanoseconds(
        times * settings().host_costs_ns[static_cast<size_t>(cost)]);
    if (IsAssumed(cost))
      SpendAssumed(duration);
    else
      Spend(duration);
  }
  // The cost is a default that nobody vouches for.
  bool IsAssumed(HostCost cost) {
    return (settings().assumed_host_costs >> static_cast<uint32_t>(cost) & 1) != 0;
  }

  // Where the process's time is its own (a real GPU): brings the host clock to this
  // point, unless it has passed it. Any thread; the process has claimed its rank, or
  // nothing happens.
  virtual void FollowWallClock(TimePoint /*wall*/) {}

  // Writes one record; fills in its host_ns. `tail` follows the struct; record->size is
  // set here. Waits for room where the ring is full. The calling thread counts as an
  // issuing one from here on, except for records that watchdogs and loggers write as
  // well (names, losses, ranges, queries, releases). A kHostWaitToken without a slot
  // raises the clock to the token's end where that is published, and leaves it alone
  // otherwise. Before ClaimRank nothing is written.
  template <typename T>
  void Emit(T record, const void* tail = nullptr, size_t tail_bytes = 0) {
    static_assert(offsetof(T, record) == 0 && sizeof(T) % 8 == 0);
    EmitRecord(&record.record, sizeof(T), tail, tail_bytes, nullptr);
  }
  // Writes a question and waits for its answer; fills in `slot`. The host clock of the
  // process becomes the answer's.
  template <typename T>
  Answer Ask(T question, const void* tail = nullptr, size_t tail_bytes = 0) {
    static_assert(offsetof(T, record) == 0 && sizeof(T) % 8 == 0);
    return AskRecord(&question.record, sizeof(T), &question.slot, tail, tail_bytes);
  }
  // Writes a question whose answer is collected later with Collect (a callback's
  // start). The host clock is left alone. Returns the slot.
  template <typename T>
  uint32_t AskLater(T question, const void* tail = nullptr, size_t tail_bytes = 0) {
    EmitRecord(&question.record, sizeof(T), tail, tail_bytes, &question.slot);
    return question.slot;
  }
  virtual Answer Collect(uint32_t slot) = 0;

  // A number for this text, the same for the life of the process; defines it on first
  // use. 0 for the empty text.
  virtual uint32_t Name(std::string_view text) = 0;

  void Count(LossId loss, uint64_t amount, std::string_view name = {}) {
    protocol::Loss record{};
    record.record.kind = protocol::RecordKind::kLoss;
    record.loss = static_cast<uint32_t>(loss);
    record.name = Name(name);
    record.amount = amount;
    Emit(record);
  }

  // The end of the token's generation, where the engine has already told it.
  virtual std::optional<TimePoint> PublishedEnd(uint32_t token,
                                                uint32_t generation) = 0;
  // False while an edge is pending that only the engine knows (launch queue full): then
  // Now() would ask.
  virtual bool ClockIsLocal() = 0;
  // Counts a launch against the launch queue (kernels, GEMMs, copies, memsets,
  // callbacks, collectives, graphs). Emit does it for those kinds; here for
  // documentation.
  virtual uint64_t launches() const = 0;

  // Where FetchPayload answers lie; valid until the next FetchPayload of any thread, so
  // hold BounceLock.
  virtual const unsigned char* bounce() const = 0;
  virtual void LockBounce() = 0;
  virtual void UnlockBounce() = 0;

  // A safe point: the calling thread holds no lock that a watchdog may want. Where it
  // moves the clock, helper threads run now whose waits end before the clock, and those
  // that run are waited for. One load where there is nothing to do.
  virtual void LetHelpersRun() {}
  // From here on the calling thread, which issues no work, reads this time: a callback
  // runs at its virtual start, wherever the process is by then.
  virtual void SetThreadClock(TimePoint) {}

  // For a profiler of this process; nullptr where there is no emulator to ask.
  virtual ActivityChannel* activity() { return nullptr; }

  // From here on threads of this process issue work side by side, a GPU each. They
  // still share one host clock, but a wait of one of them does not hold up the others'
  // work.
  virtual void IssueSideBySide() {}

  // The calling thread enters and leaves one of our libraries, as ProgramCall says.
  // REQUIRES: follows_program().
  virtual void EnterCall(const char* /*function*/) {}
  virtual void NameCall(const char* /*function*/) {}
  virtual void LeaveCall() {}
  // Host time of the program between its calls is metered or played.
  bool follows_program() const { return follows_program_; }

  // True in a child after fork: records and questions are dropped; CUDA calls return
  // what CUDA returns there (cudaErrorInitializationError).
  virtual bool detached() const = 0;

  // True once the emulator has called the session off (SegmentHeader::session_state):
  // no question will be answered any more. A load; a channel without an emulator never
  // is. Until the process is ended records are dropped, and questions return at once:
  // not `complete` as long as the process has a communicator of several ranks, whose
  // work never ends.
  virtual bool aborting() const { return false; }
  // REQUIRES: aborting(). Why: "rank 1 exited with 3".
  virtual const char* failure() const { return ""; }

  // Why the communicator's work cannot end any more, though the job goes on: a member
  // is lost. nullptr: none is. Valid as long as the channel.
  virtual const char* BrokenBy(uint32_t /*communicator*/) const { return nullptr; }

  // Makes this process the one that issues work for its rank. False if another live
  // process of the same rank already does.
  virtual bool ClaimRank() = 0;

 protected:
  bool follows_program_ = false;  // constant once the channel is made

  ~Channel() = default;
  virtual void EmitRecord(protocol::Record* record, size_t struct_bytes,
                          const void* tail, size_t tail_bytes, uint32_t* slot) = 0;
  virtual Answer AskRecord(protocol::Record* record, size_t struct_bytes,
                           uint32_t* slot, const void* tail, size_t tail_bytes) = 0;

 public:
  // Other processes of the node may hold memory of its GPU `node_device`
  // (SegmentHeader::shared_gpus).
  virtual bool SharesGpu(uint32_t /*node_device*/) const { return false; }

  // CPU time of the calling thread, and some of it that went into a GPU's work: a
  // kernel that was interpreted. It does not count as the program's.
  virtual int64_t ThreadCpuNs() const { return 0; }
  virtual void NoteGpuWork(int64_t /*cpu_ns*/) {}
};

// The process's channel, or nullptr where the process does not run under vrank. `abi`
// guards against libraries of different builds.
inline Channel* FindChannel() {
  using Find = Channel* (*)(uint32_t abi);
  static Channel* const channel = [] {
    auto find = reinterpret_cast<Find>(dlsym(RTLD_DEFAULT, "vrank_guest_channel"));
    return find == nullptr ? nullptr : find(Channel::kAbi);
  }();
  return channel;
}

}  // namespace vrank

#endif  // VRANK_BASE_GUEST_CHANNEL_H_
