// The constants of policy.def, as values.
//
// Thread rule: constants.

#ifndef VRANK_SCHEDULE_POLICY_H_
#define VRANK_SCHEDULE_POLICY_H_

#include <chrono>
#include <cstdint>

#include "base/guest/units.h"

namespace vrank::schedule {

#define POLICY(name, value, meaning, counted_as) inline constexpr auto name = value;
#include "schedule/policy.def"
#undef POLICY

// What the waiting calls of C++ and of the kernel take.
constexpr std::chrono::nanoseconds Chrono(Duration duration) {
  return std::chrono::nanoseconds(duration.nanoseconds());
}
constexpr std::chrono::milliseconds Milliseconds(Duration duration) {
  return std::chrono::milliseconds(duration.nanoseconds() / 1'000'000);
}

}  // namespace vrank::schedule

#endif  // VRANK_SCHEDULE_POLICY_H_
