// What one CTA of a hold kernel does. The same code runs on a GPU (hold_kernel.cu) and,
// in tests, on a host thread that plays the device.
//
// `Device` has static functions:
//   uint64_t Now()                            ns, the same clock for all CTAs
//   uint32_t Load(const uint32_t*)            acquire, at system scope
//   void Store(uint32_t*, uint32_t)           release, at system scope
//   uint32_t Add(uint32_t*, uint32_t)         returns what it was; acquire and release,
//                                             among the CTAs
//   void Rest()                               at most about a microsecond
//
// Thread rule: one thread per CTA.

#ifndef VRANK_GPU_HOLD_HOLD_LOOP_H_
#define VRANK_GPU_HOLD_HOLD_LOOP_H_

#include "gpu_hold/hold_memory.h"

namespace vrank::hold {

template <typename Device>
#ifdef __CUDACC__
__device__
#endif
    HoldOutcome
    HoldLoop(HoldRing* ring, const HoldParameters& parameters, uint32_t cta,
             uint32_t ctas) {
  HoldCounters& counters = *ring->counters;
  // Written by the kernel before this one.
  const uint32_t epoch = counters.epoch + 1;
  const uint64_t begin = Device::Now();
  bool told = cta != 0;
  uint32_t heartbeat = Device::Load(&ring->heartbeat);
  uint64_t beat_at = begin;
  HoldOutcome outcome = HoldOutcome::kNone;
  while (outcome == HoldOutcome::kNone) {
    const uint64_t now = Device::Now();
    if (const uint32_t beat = Device::Load(&ring->heartbeat); beat != heartbeat) {
      heartbeat = beat;
      beat_at = now;
    }
    if (!told && HasReached(Device::Load(&ring->looked), epoch - kHoldEntries)) {
      ring->entries[epoch % kHoldEntries] = {parameters.work, begin};
      Device::Store(&ring->arrived, epoch);
      told = true;
    }
    if (told && HasReached(Device::Load(&ring->released), epoch))
      outcome = HoldOutcome::kReleased;
    else if (told && parameters.mode == HoldMode::kTimed &&
             now - begin >= parameters.duration_ns)
      outcome = HoldOutcome::kTimeOver;
    else if (Device::Load(&ring->aborted) != 0)
      outcome = HoldOutcome::kAborted;
    else if (now - beat_at > ring->patience_ns)
      outcome = HoldOutcome::kHostLost;
    else
      Device::Rest();
  }
  if (outcome == HoldOutcome::kHostLost)
    Device::Store(&ring->lost, 1);
  if (Device::Add(&counters.left, 1) == ctas - 1) {
    counters.left = 0;
    counters.epoch = epoch;
    if (parameters.work == 0)
      Device::Store(&ring->ended_calls, ++counters.calls);
  }
  return outcome;
}

}  // namespace vrank::hold

#endif  // VRANK_GPU_HOLD_HOLD_LOOP_H_
