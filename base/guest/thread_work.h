// What one thread of a kernel does, as its machine code tells it.

#ifndef VRANK_BASE_GUEST_THREAD_WORK_H_
#define VRANK_BASE_GUEST_THREAD_WORK_H_

#include <cstdint>

namespace vrank {

struct ThreadWork {
  uint32_t instructions = 0;  // 0: the code does not tell
  uint32_t bytes = 0;         // of global memory, read and written

  bool known() const { return instructions > 0; }
  friend bool operator==(const ThreadWork&, const ThreadWork&) = default;
};

}  // namespace vrank

#endif  // VRANK_BASE_GUEST_THREAD_WORK_H_
