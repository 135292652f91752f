// The processor's time stamp counter, which programs read by an instruction: no library
// can answer it in virtual time.
//
// Thread rule: pure function.

#ifndef VRANK_BASE_GUEST_TIME_STAMP_H_
#define VRANK_BASE_GUEST_TIME_STAMP_H_

#include <cstdint>

namespace vrank {

// 0 on processors that have none.
inline uint64_t TimeStampCount() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#else
  return 0;
#endif
}

}  // namespace vrank

#endif  // VRANK_BASE_GUEST_TIME_STAMP_H_
