// Time and size as types.
//
// One integer tick for the whole program: the nanosecond. Integers, because the promise
// that a hybrid run equals the fully real run to the nanosecond cannot be kept with
// rounding that depends on the order of additions. Only this file knows the tick.
//
// Thread rule: plain values, no state.

#ifndef VRANK_BASE_GUEST_UNITS_H_
#define VRANK_BASE_GUEST_UNITS_H_

#include <compare>
#include <cstdint>
#include <limits>

namespace vrank {

// A length of time. Signed, so that differences are representable.
class Duration {
 public:
  constexpr Duration() = default;
  static constexpr Duration Nanoseconds(int64_t n) { return Duration(n); }
  static constexpr Duration Microseconds(int64_t n) { return Duration(n * 1'000); }
  static constexpr Duration Milliseconds(int64_t n) { return Duration(n * 1'000'000); }
  static constexpr Duration Seconds(int64_t n) { return Duration(n * 1'000'000'000); }
  constexpr int64_t nanoseconds() const { return ns_; }
  constexpr double seconds() const { return static_cast<double>(ns_) * 1e-9; }

  friend constexpr auto operator<=>(Duration, Duration) = default;
  friend constexpr Duration operator+(Duration a, Duration b) {
    return Duration(a.ns_ + b.ns_);
  }
  friend constexpr Duration operator-(Duration a, Duration b) {
    return Duration(a.ns_ - b.ns_);
  }
  constexpr Duration& operator+=(Duration d) {
    ns_ += d.ns_;
    return *this;
  }

 private:
  explicit constexpr Duration(int64_t ns) : ns_(ns) {}
  int64_t ns_ = 0;
};

// A point on the virtual clock; zero is the start of the job.
class TimePoint {
 public:
  constexpr TimePoint() = default;
  static constexpr TimePoint FromNanoseconds(int64_t ns) { return TimePoint(ns); }
  // Later than every time that a replay can reach.
  static constexpr TimePoint Max() {
    return TimePoint(std::numeric_limits<int64_t>::max());
  }
  constexpr int64_t nanoseconds() const { return ns_; }

  friend constexpr auto operator<=>(TimePoint, TimePoint) = default;
  friend constexpr TimePoint operator+(TimePoint t, Duration d) {
    return TimePoint(t.ns_ + d.nanoseconds());
  }
  friend constexpr Duration operator-(TimePoint a, TimePoint b) {
    return Duration::Nanoseconds(a.ns_ - b.ns_);
  }
  constexpr TimePoint& operator+=(Duration d) {
    ns_ += d.nanoseconds();
    return *this;
  }

 private:
  explicit constexpr TimePoint(int64_t ns) : ns_(ns) {}
  int64_t ns_ = 0;
};

constexpr TimePoint Later(TimePoint a, TimePoint b) {
  return a < b ? b : a;
}

// A number of bytes.
enum class Bytes : uint64_t {};
constexpr uint64_t Count(Bytes b) {
  return static_cast<uint64_t>(b);
}

}  // namespace vrank

#endif  // VRANK_BASE_GUEST_UNITS_H_
