// Carries news between holds and the emulator: that one has begun, and when it may end.
//
// On a real GPU nobody but the device knows when a stream gets to a collective. So the
// operation's record is not written when the program calls, but when its hold has begun
// on the device: then the engine sees the operations of a rank in the order in which
// they begin, each at the time of that. The record of a token follows, whose end the
// engine publishes once all members have come; at that time the hold is released.
//
//   Expect(ring, operation)    before the hold is launched
//   Arrived(ring, arrival)     the hold has begun
//     -> host time up to now, the operation, the token; the emulator is woken
//     -> the end is published -> at that time: HoldService::Release
//
// Holds in a CUDA graph begin at each of its launches, which nobody sees but the
// device. Their operation is kept under a number, which the hold says when it begins.
//
// The device keeps the order of streams, so the engine need not: each ring has a lane
// of its own there, and what is aborted on one holds up nothing else.
//
// Time. The rank's host clock is the wall clock here, counted for all ranks from the
// same origin: an end that the engine states is a point of that clock. An end in the
// past (the last member came late) releases at once.
//
// Thread rule: as each method says; the courier's own thread makes no CUDA call.

#ifndef VRANK_GPU_HOLD_HOLD_COURIER_H_
#define VRANK_GPU_HOLD_HOLD_COURIER_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/guest/channel.h"
#include "gpu_hold/device_clock.h"
#include "gpu_hold/hold_service.h"

namespace vrank::hold {

// An operation as it will be told to the emulator.
struct HeldOperation {
  // Of kind kCollective or kPointToPoint; the other one is not looked at.
  protocol::Collective collective{};
  protocol::PointToPoint transfers{};
  std::vector<protocol::Transfer> each;  // kPointToPoint
};

class HoldCourier {
 public:
  // The channel outlives the courier, and has been claimed.
  // `time_origin_ns`: CLOCK_MONOTONIC at virtual time 0, the same for all ranks.
  HoldCourier(Channel* channel, int64_t time_origin_ns);
  ~HoldCourier();
  HoldCourier(const HoldCourier&) = delete;
  HoldCourier& operator=(const HoldCourier&) = delete;

  // From any thread. `token`: for this ring alone, as is the lane of that number; and
  // recorded `generation` times so far.
  void Add(HoldRing* ring, HoldService* service, uint32_t token, uint32_t generation);
  // What is expected of the ring, or under way, is forgotten. Returns how often the
  // token has been recorded.
  uint32_t Remove(HoldRing* ring);
  // The next call of a ring. What has been removed expects nothing.
  void Expect(HoldRing* ring, HeldOperation operation);
  // The latest one will not be launched.
  void Withdraw(HoldRing* ring);
  // One that graphs launch: returns HoldParameters::work, from 1. Kept until the ring
  // is removed.
  uint32_t Keep(HoldRing* ring, HeldOperation operation);
  // From a service's thread.
  void Arrived(HoldRing* ring, const HoldArrival& arrival);

  // Brings the rank's host clock to the wall clock, before a question whose time
  // counts. The calling thread counts as an issuing one from here on.
  void AdvanceHostClock();
  // Waits until the wall clock has come to where the rank's host clock is: what the
  // engine says that a call took is what it takes.
  void AwaitHostClock();

  // Waits until nothing of the ring is expected or under way, or `give_up` says so.
  template <typename GiveUp>
  void AwaitIdle(HoldRing* ring, GiveUp give_up);

 private:
  struct Ring {
    HoldService* service = nullptr;
    uint32_t token = 0;
    uint32_t generation = 0;  // recordings of the token
    std::deque<HeldOperation> expected;
    std::vector<HeldOperation> kept;
    bool told = false;   // of an operation that has not been released
    uint32_t epoch = 0;  // ... its hold
  };
  struct Arrival {
    HoldRing* ring;
    uint32_t epoch;
    uint32_t work;
    int64_t at_ns;  // wall clock
  };

  int64_t WallNs() const;
  void CountAsIssuing();
  void AdvanceHostClockTo(int64_t wall_ns);
  void Serve();
  // Returns the wall time of the next release, or -1 where none is known.
  int64_t ReleaseDue();
  void Tell(const Arrival& arrival);

  Channel* const channel_;
  const int64_t time_origin_ns_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::map<HoldRing*, Ring> rings_;
  std::deque<Arrival> arrivals_;
  std::map<HoldService*, DeviceClock> clocks_;  // a device's each
  size_t under_way_ = 0;                        // rings with `told`
  bool stop_ = false;
  std::thread thread_;
};

template <typename GiveUp>
void HoldCourier::AwaitIdle(HoldRing* ring, GiveUp give_up) {
  constexpr std::chrono::milliseconds kLook{1};
  std::unique_lock lock(mutex_);
  while (!give_up()) {
    const auto found = rings_.find(ring);
    if (found == rings_.end() ||
        (found->second.expected.empty() && !found->second.told))
      return;
    changed_.wait_for(lock, kLook);
  }
}

}  // namespace vrank::hold

#endif  // VRANK_GPU_HOLD_HOLD_COURIER_H_
