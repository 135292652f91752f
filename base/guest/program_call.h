// A call that the program makes into one of our libraries: what runs inside is ours,
// and no host time of the program's.
//
// The outermost call of a thread counts. One with a name is an *anchor*: the gap before
// it is over, and another one begins when it returns (base/guest/anchor_history.h).
// Without a meter this is a load and a branch.
//
// Thread rule: on the stack of one thread; legal in a signal handler.

#ifndef VRANK_BASE_GUEST_PROGRAM_CALL_H_
#define VRANK_BASE_GUEST_PROGRAM_CALL_H_

#include "base/guest/channel.h"

namespace vrank {

class ProgramCall {
 public:
  // `function` lives as long as the process; nullptr: it is no anchor, or becomes one
  // (NameIt).
  explicit ProgramCall(Channel* channel, const char* function = nullptr)
      : channel_(channel != nullptr && channel->follows_program() ? channel : nullptr) {
    if (channel_ != nullptr) [[unlikely]]
      channel_->EnterCall(function);
  }
  ~ProgramCall() {
    if (channel_ != nullptr) [[unlikely]]
      channel_->LeaveCall();
  }
  ProgramCall(const ProgramCall&) = delete;
  ProgramCall& operator=(const ProgramCall&) = delete;

  void NameIt(const char* function) {
    if (channel_ != nullptr) [[unlikely]]
      channel_->NameCall(function);
  }

 private:
  Channel* const channel_;
};

}  // namespace vrank

#endif  // VRANK_BASE_GUEST_PROGRAM_CALL_H_
