// What the virtual GPU keeps per thread of the program.
//
// Thread rule: each thread sees its own.

#ifndef VRANK_VIRTUAL_GPU_CORE_THREAD_STATE_H_
#define VRANK_VIRTUAL_GPU_CORE_THREAD_STATE_H_

#include <cstdint>

namespace vrank::gpu {

// Questions of a thread that issues no work, between two of its waits, whose targets
// had not ended. Its clock stands meanwhile, and it may ask about several targets in
// turns: one of them is counted.
struct PollingTurn {
  int64_t clock_ns = 0;
  uint32_t target = 0;
  uint32_t generation = 0;
  uint32_t misses = 0;  // 0: no target
  uint32_t others = 0;  // misses of other targets since
};

struct ThreadState {
  int device = -1;
  // Work was issued by this thread. Others (watchdogs, loggers) only ask, and must not
  // move the clock of the process.
  bool issues = false;
  // Calls of this thread that hold the lock, one inside the other.
  int calls = 0;
  PollingTurn turn;
  // CaptureMode: which calls a capture forbids this thread.
  int capture_mode = 0;
  // Between BeginWork and EndWork of a library that is in no CUDA call of its own.
  bool launches_alone = false;
};

inline ThreadState& ThisThread() {
  thread_local ThreadState state;
  return state;
}

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_THREAD_STATE_H_
