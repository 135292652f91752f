// When something happened by the host's clock that the device dates by its own.
//
// The device says when a hold began; the host sees it later, by the way over the bus
// and by however long it did not look. What is least of (seen - dated) lately is the
// distance of the clocks plus the least delay, of about a microsecond; the rest of the
// delay is taken out. Crystals drift by parts in a million, so "lately" is short.
//
// Thread rule: one thread.

#ifndef VRANK_GPU_HOLD_DEVICE_CLOCK_H_
#define VRANK_GPU_HOLD_DEVICE_CLOCK_H_

#include <algorithm>
#include <cstdint>
#include <limits>

namespace vrank::hold {

class DeviceClock {
 public:
  // Nanoseconds of both clocks; `seen_ns` never goes back. At most `seen_ns`.
  int64_t HostTime(uint64_t device_ns, int64_t seen_ns) {
    if (seen_ns - begun_ns_ >= kSpanNs) {
      const bool follows = seen_ns - begun_ns_ < 2 * kSpanNs;
      before_ = follows ? now_ : kNone;
      now_ = kNone;
      begun_ns_ = seen_ns;
    }
    now_ = std::min(now_, seen_ns - static_cast<int64_t>(device_ns));
    return static_cast<int64_t>(device_ns) + std::min(before_, now_);
  }

 private:
  static constexpr int64_t kSpanNs = 100'000'000;
  static constexpr int64_t kNone = std::numeric_limits<int64_t>::max();

  int64_t begun_ns_ = std::numeric_limits<int64_t>::min() / 2;
  int64_t before_ = kNone;  // in the span before this one
  int64_t now_ = kNone;
};

}  // namespace vrank::hold

#endif  // VRANK_GPU_HOLD_DEVICE_CLOCK_H_
