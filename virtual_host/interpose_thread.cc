// Interposed: creating a thread, so that it is known before it runs.
//
// A thread that issues no work is waited for whenever the clock is about to move
// (helper_threads.h); one that nobody had heard of would read whatever the clock has
// come to by the time it gets a core.

#include <pthread.h>

#include <new>

#include "base/guest/export.h"
#include "virtual_host/library_code.h"
#include "virtual_host/process.h"
#include "virtual_host/real_calls.h"
#include "virtual_host/thread_state.h"

namespace vrank::host {
namespace {

struct Start {
  void* (*function)(void*);
  void* argument;
  GuestChannel* channel;
  Helper* helper;  // nullptr: it joins the team
};

void* Run(void* argument) {
  const Start start = *static_cast<Start*>(argument);
  delete static_cast<Start*>(argument);
  if (start.helper == nullptr)
    start.channel->helpers().JoinTeam();
  else
    start.channel->BecomeHelper(start.helper);
  return start.function(start.argument);
}

}  // namespace
}  // namespace vrank::host

using namespace vrank::host;

extern "C" VRANK_EXPORT int pthread_create(pthread_t* thread,
                                           const pthread_attr_t* attributes,
                                           void* (*function)(void*),
                                           void* argument) noexcept {
  GuestChannel* const channel = ProcessChannel();
  Start* start = nullptr;
  if (channel != nullptr && channel->MovesClock())
    start = new (std::nothrow) Start{function, argument, channel, nullptr};
  if (start == nullptr)
    return Real().pthread_create(thread, attributes, function, argument);
  Helper* helper = nullptr;
  if (IsTeamCode(__builtin_return_address(0))) {
    channel->helpers().AnnounceTeam();
  } else {
    channel->SettleReading();
    channel->TakePlace();
    start->helper = helper = channel->helpers().Announce(channel->Peek());
  }
  const int result = Real().pthread_create(thread, attributes, Run, start);
  if (result != 0) {
    if (helper != nullptr)
      channel->helpers().End(helper);
    else
      channel->helpers().WithdrawTeam();
    delete start;
  } else if (helper != nullptr) {
    Helper* const self =
        thread_state.helper != nullptr ? thread_state.helper : GuestChannel::Turn();
    InsideScope inside;
    if (self != nullptr)
      channel->helpers().AwaitStart(helper, self);
  }
  return result;
}
