// Interposed: creating a thread, so that it is known before it runs, and joining one.
//
// A thread that issues no work is waited for whenever the clock is about to move
// (thread_scheduler.h); one that nobody had heard of would read whatever the clock has
// come to by the time it gets a core.

#include <pthread.h>

#include <new>

#include "base/guest/export.h"
#include "virtual_host/channel/timed_wait.h"
#include "virtual_host/process/process.h"
#include "virtual_host/system/library_code.h"
#include "virtual_host/system/real_calls.h"
#include "virtual_host/turns/running_threads.h"
#include "virtual_host/turns/thread_state.h"
#include "virtual_host/wait/thread_waits.h"

namespace vrank::host {

constinit RunningThreads running_threads;

namespace {

struct Start {
  void* (*function)(void*);
  void* argument;
  GuestChannel* channel;
  HostThread* helper;  // nullptr: it joins the team
};

// The calling thread's function has ended. Whoever waits for that comes after it, so
// after what is destroyed with the thread.
void End(void* channel) {
  const pthread_t self = pthread_self();
  CallByWord(static_cast<GuestChannel*>(channel), RunningThreads::End(self),
             [self] { running_threads.Remove(self); });
}

// By pthread_exit or a cancellation, too.
void* CallToItsEnd(const Start& start) {
  void* result = nullptr;
  pthread_cleanup_push(End, start.channel);
  result = start.function(start.argument);
  pthread_cleanup_pop(1);
  return result;
}

void* Run(void* argument) {
  const Start start = *static_cast<Start*>(argument);
  delete static_cast<Start*>(argument);
  if (start.helper == nullptr)
    start.channel->scheduler().JoinTeam();
  else
    start.channel->BecomeHelper(start.helper);
  return CallToItsEnd(start);
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
  HostThread* helper = nullptr;
  if (IsTeamCode(__builtin_return_address(0))) {
    channel->scheduler().AnnounceTeam();
  } else {
    channel->SettleReading();
    channel->TakePlace();
    start->helper = helper = channel->scheduler().Announce(channel->Peek());
  }
  const int result = running_threads.Add(thread, [&](pthread_t* made) {
    return Real().pthread_create(made, attributes, Run, start);
  });
  if (result != 0) {
    if (helper != nullptr)
      channel->scheduler().End(helper);
    else
      channel->scheduler().WithdrawTeam();
    delete start;
  } else if (helper != nullptr) {
    channel->AwaitStart(helper);
  }
  return result;
}

extern "C" VRANK_EXPORT int pthread_join(pthread_t thread, void** result) {
  GuestChannel* const channel = thread_state.inside == 0 ? ProcessChannel() : nullptr;
  HostThread* const self =
      channel == nullptr || pthread_equal(thread, pthread_self()) != 0
          ? nullptr
          : channel->WaiterHere();
  const ThreadWaitScope waits(WaitKind::kThreadEnd, RunningThreads::End(thread));
  if (self == nullptr) {
    const int code = Real().pthread_join(thread, result);
    if (channel != nullptr)
      channel->LetHelpersRun();
    return code;
  }
  WaitByWord(channel, self, RunningThreads::End(thread), vrank::TimePoint::Max(),
             [thread] { return !running_threads.Has(thread); });
  // All that is left to wait for is the kernel.
  InsideScope inside;
  return Real().pthread_join(thread, result);
}
