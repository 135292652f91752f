// What the library knows about the calling thread.
//
// Plain data in static thread-local storage (the library is loaded at program start),
// so that reading it allocates nothing and is legal in a signal handler.

#ifndef VRANK_VIRTUAL_HOST_TURNS_THREAD_STATE_H_
#define VRANK_VIRTUAL_HOST_TURNS_THREAD_STATE_H_

#include <atomic>
#include <cstdint>

namespace vrank::host {

struct HostThread;
struct Issuer;
class ProgramTime;

// The program of the calling thread stops for something of ours, or goes on.
void PauseProgram(ProgramTime* program);
void ResumeProgram(ProgramTime* program);

struct ThreadState {
  // Set where it has issued work: its host time is the rank's.
  Issuer* issuer = nullptr;
  bool issuing() const { return issuer != nullptr; }
  // Depth of calls inside the channel. A signal handler that interrupts one must not
  // come in again: the lock is held by the thread it runs on.
  uint8_t inside = 0;
  // Where the program's own time is followed: that of an issuing thread, and the depth
  // of its calls of ours (GuestChannel::EnterCall).
  ProgramTime* program = nullptr;
  uint16_t calls = 0;
  // How often it went in or came out: odd while it is inside. Others look at it.
  uint32_t passages = 0;
  // Set where the thread is known to thread_scheduler.h: as one that issues no work, or
  // by its place among those that do.
  HostThread* helper = nullptr;
  HostThread* turn = nullptr;
  // Whether this is the process's main thread: 0 not looked up yet, 1 yes, 2 no.
  uint8_t main = 0;
  // It has called a thread out of a wait, perhaps with a mutex that the other one
  // wants: once it has given that back, the other one goes first.
  bool owes_stop = false;
  // It has read the clock, and has done nothing since: see GuestChannel::Read.
  bool has_read = false;
  uint32_t unpaid = 0;  // such readings in a row that cost nothing, without a wait
  uint32_t unpaid_library = 0;  // likewise of PyTorch's libraries
  uint32_t readings = 0;        // ... of any kind, since its turn began
  uint64_t last_record = 0;     // number of the record that it wrote last
  int64_t shown_ns = 0;         // by its last reading of the clock
  int64_t stepped_ns = 0;       // ... beyond the one before, for that alone
  int64_t ahead_ns = 0;         // of it, shown to code that polls: GuestChannel::Read
  // Where another process moves the clock: the limit of its last wait, which is its
  // clock until that one goes on (header.others_turn + 1; 0: none).
  int64_t reached_ns = 0;
  uint32_t reached_turn = 0;
  uint32_t shown_again = 0;  // ... by that many since, without a wait in between
};

extern constinit thread_local ThreadState thread_state
    __attribute__((tls_model("initial-exec")));

class InsideScope {
 public:
  InsideScope() {
    if (thread_state.inside++ == 0) {
      Pass();
      if (FollowsProgram()) [[unlikely]]
        PauseProgram(thread_state.program);
    }
  }
  ~InsideScope() {
    if (thread_state.inside == 1 && FollowsProgram()) [[unlikely]]
      ResumeProgram(thread_state.program);
    if (--thread_state.inside == 0)
      Pass();
  }
  InsideScope(const InsideScope&) = delete;
  InsideScope& operator=(const InsideScope&) = delete;

 private:
  // In a call of ours it has stopped already.
  static bool FollowsProgram() {
    return thread_state.program != nullptr && thread_state.calls == 0;
  }
  // Nobody else writes it.
  static void Pass() {
    std::atomic_ref<uint32_t>(thread_state.passages)
        .store(thread_state.passages + 1, std::memory_order_release);
  }
};

}  // namespace vrank::host

#endif  // VRANK_VIRTUAL_HOST_TURNS_THREAD_STATE_H_
