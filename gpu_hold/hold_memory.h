// What the host and a hold kernel share: pinned host memory that the device has mapped.
//
// A hold is a kernel that occupies a stream, and the SMs that NCCL's kernel would
// occupy, until the emulator says that the collective has ended. One ring belongs to
// one communicator, whose operations follow each other, and so do its holds: the device
// counts them from 1 (their *epoch*). The host does not count them: it does not see the
// launches of a CUDA graph, which repeat a captured hold as it is. So what a hold
// stands for is a parameter of its kernel, and the device says who has begun.
//
//   host    launches the kernel with HoldParameters, by itself or in a graph
//   device  entries[epoch % n] := parameters' work, the time (CTA 0)
//   device  arrived := epoch (CTA 0), then polls HostWords and the time (CTA 0 alone)
//   host    looked := epoch, once it has read the entry
//   host    released := epoch, once it has learnt when the operation ends
//   device  counters.over := epoch (CTA 0), for which its other CTAs wait
//   device  ended_calls := ... (the last CTA to leave)
//
// One CTA asks the host, and all it asks for lies in 16 bytes: a look is one read over
// the bus, of about a microsecond. (16 CTAs that read four words each took 43 us from a
// release to the stream's progress, on an H100.)
//
// Every word has one writer at a time; what it announces was written before it
// (release), and is read after it (acquire). Host memory sees no atomic addition, which
// not every bus carries out: CTAs count in device memory. They may be of another number
// in each launch, and the last one may begin after the first has left; so the epoch is
// read from counters that change once all have left. Entry e is written again for epoch
// e + n once the host has looked at it, for which the device waits, the host never.
//
// Thread rule: one thread reads the entries, one or more release; the words are atomic.

#ifndef VRANK_GPU_HOLD_HOLD_MEMORY_H_
#define VRANK_GPU_HOLD_HOLD_MEMORY_H_

#include <stdint.h>

#include "base/guest/held_result.h"

namespace vrank::hold {

// As many holds that end by themselves may be ahead of the host's look at them.
inline constexpr uint32_t kHoldEntries = 64;
// NCCL's limit (MAXCHANNELS): a CTA per channel.
inline constexpr uint32_t kMaxCtas = 64;

enum class HoldMode : uint32_t {
  kUntilReleased = 0,  // a real peer decides when it ends
  kTimed = 1,      // all peers are played: it ends by itself, `duration_ns` after it
                   // began, or when it is released, should that come first
  kFootprint = 2,  // of no launch: see hold_kernel.cu
};

enum class HoldOutcome : uint32_t {
  kNone = 0,
  kReleased = 1,
  kTimeOver = 2,
  kAborted = 3,
  kHostLost = 4,  // the heartbeat stood still for HoldParameters::patience_ns
};

// Of the kernel; those of a captured launch never change.
struct HoldParameters {
  uint32_t work = 0;  // 0: the oldest call that has not begun; else a captured one's
                      // number, which the host chose
  HoldMode mode = HoldMode::kUntilReleased;
  uint64_t duration_ns = 0;  // kTimed
  uint64_t patience_ns = 0;  // without a heartbeat; by the service
  HeldResult result;         // that the operation leaves behind
};

struct HoldEntry {
  uint32_t work;
  uint64_t arrived_at_ns;  // by the device's clock
};

// By the device alone.
struct HoldCounters {
  uint32_t epoch;    // that all CTAs have left
  uint32_t left;     // CTAs that have left the one after it
  uint32_t calls;    // holds whose work is 0, among those
  uint32_t over;     // the epoch whose end CTA 0 has seen
  uint32_t outcome;  // ... and how it ended, a HoldOutcome
};

// By the host: all that a hold polls.
struct alignas(16) HostWords {
  uint32_t released;
  uint32_t looked;
  uint32_t aborted;    // 1: every hold ends, now and from now on
  uint32_t heartbeat;  // bumped by a thread that makes no CUDA calls
};

struct HoldRing {
  alignas(128) HostWords host;
  // By the device.
  alignas(128) uint32_t arrived;
  uint32_t ended_calls;    // HoldCounters::calls
  uint32_t lost;           // 1: a hold left for HoldOutcome::kHostLost
  HoldCounters* counters;  // in device memory; by the driver
  alignas(128) HoldEntry entries[kHoldEntries];
};

// Epochs wrap around; no two that are compared are 2^31 apart.
#ifdef __CUDACC__
__host__ __device__
#endif
    inline constexpr bool
    HasReached(uint32_t word, uint32_t epoch) {
  return static_cast<int32_t>(word - epoch) >= 0;
}

}  // namespace vrank::hold

#endif  // VRANK_GPU_HOLD_HOLD_MEMORY_H_
