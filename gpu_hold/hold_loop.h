// What one CTA of a hold kernel does. The same code runs on a GPU (hold_kernel.cu) and,
// in tests, on a host thread that plays the device.
//
//   HoldLoop<Device> loop(ring, counters, parameters, cta, ctas);   one thread
//   if (loop.Begin()) FillResult(...)                               all threads
//   outcome = loop.Wait()                                           one thread
//
// `Device` has static functions:
//   uint64_t Now()                            ns, the same clock for all CTAs
//   HostWords Look(const HostWords*)          each word as the host last wrote it
//   void Tell(uint32_t*, uint32_t)            store for the host, after all before it
//   uint32_t Load(const uint32_t*)            acquire, among the CTAs
//   void Store(uint32_t*, uint32_t)           release, among the CTAs
//   uint32_t Add(uint32_t*, uint32_t)         returns what it was; acquire and release,
//                                             among the CTAs
//   void Rest()                               a fraction of a microsecond
//
// Thread rule: one thread per CTA.

#ifndef VRANK_GPU_HOLD_HOLD_LOOP_H_
#define VRANK_GPU_HOLD_HOLD_LOOP_H_

#include "gpu_hold/hold_memory.h"
#include "gpu_hold/hold_result.h"

namespace vrank::hold {

template <typename Device>
class HoldLoop {
 public:
  VRANK_DEVICE HoldLoop(HoldRing* ring, HoldCounters* counters,
                        const HoldParameters& parameters, uint32_t cta, uint32_t ctas)
      : ring_(ring),
        counters_(counters),
        parameters_(parameters),
        cta_(cta),
        ctas_(ctas),
        begin_(Device::Now()),
        // Written by the kernel before this one.
        epoch_(counters->epoch + 1),
        beat_at_(begin_) {}

  // Says that the hold has begun. False: it has been aborted, and its buffers may be
  // gone.
  VRANK_DEVICE bool Begin() {
    if (cta_ != 0 && parameters_.result.times == 0)
      return true;
    const HostWords host = Device::Look(&ring_->host);
    heartbeat_ = host.heartbeat;
    TellBegin(host);
    return host.aborted == 0;
  }

  VRANK_DEVICE HoldOutcome Wait() {
    const HoldOutcome outcome = cta_ == 0 ? WaitForHost() : WaitForFirst();
    if (Device::Add(&counters_->left, 1) == ctas_ - 1) {
      counters_->left = 0;
      counters_->epoch = epoch_;
      if (parameters_.work == 0)
        Device::Tell(&ring_->ended_calls, ++counters_->calls);
    }
    return outcome;
  }

 private:
  VRANK_DEVICE void TellBegin(const HostWords& host) {
    if (cta_ != 0 || told_ || !HasReached(host.looked, epoch_ - kHoldEntries))
      return;
    ring_->entries[epoch_ % kHoldEntries] = {parameters_.work, begin_};
    Device::Tell(&ring_->arrived, epoch_);
    told_ = true;
  }

  VRANK_DEVICE HoldOutcome OutcomeBy(const HostWords& host) {
    const uint64_t now = Device::Now();
    if (host.heartbeat != heartbeat_) {
      heartbeat_ = host.heartbeat;
      beat_at_ = now;
    }
    if (told_ && HasReached(host.released, epoch_))
      return HoldOutcome::kReleased;
    if (told_ && parameters_.mode == HoldMode::kTimed &&
        now - begin_ >= parameters_.duration_ns)
      return HoldOutcome::kTimeOver;
    if (host.aborted != 0)
      return HoldOutcome::kAborted;
    if (now - beat_at_ > parameters_.patience_ns)
      return HoldOutcome::kHostLost;
    return HoldOutcome::kNone;
  }

  VRANK_DEVICE HoldOutcome WaitForHost() {
    HoldOutcome outcome = HoldOutcome::kNone;
    while (outcome == HoldOutcome::kNone) {
      const HostWords host = Device::Look(&ring_->host);
      TellBegin(host);
      outcome = OutcomeBy(host);
      if (outcome == HoldOutcome::kNone)
        Device::Rest();
    }
    if (outcome == HoldOutcome::kHostLost)
      Device::Tell(&ring_->lost, 1);
    counters_->outcome = static_cast<uint32_t>(outcome);
    Device::Store(&counters_->over, epoch_);
    return outcome;
  }

  VRANK_DEVICE HoldOutcome WaitForFirst() {
    while (Device::Load(&counters_->over) != epoch_)
      Device::Rest();
    return static_cast<HoldOutcome>(counters_->outcome);
  }

  HoldRing* const ring_;
  HoldCounters* const counters_;
  const HoldParameters& parameters_;
  const uint32_t cta_, ctas_;
  const uint64_t begin_;
  const uint32_t epoch_;
  uint64_t beat_at_;
  uint32_t heartbeat_ = 0;
  bool told_ = false;
};

}  // namespace vrank::hold

#endif  // VRANK_GPU_HOLD_HOLD_LOOP_H_
