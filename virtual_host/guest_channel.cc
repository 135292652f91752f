#include "virtual_host/guest_channel.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "virtual_host/raw_syscall.h"
#include "virtual_host/thread_state.h"
#include "virtual_host/timed_wait.h"

namespace vrank::host {

constinit thread_local ThreadState thread_state;

namespace {

using protocol::RecordKind;

// Looks at helpers and other processes one after the other, in which nobody but helpers
// has run: those that outsiders keep awake are not waited for for ever.
constexpr int kMostLooks = 1000;

// Its destructor runs when a thread that the channel knows ends.
struct ThreadEnd {
  GuestChannel* channel = nullptr;
  ~ThreadEnd() {
    if (channel != nullptr)
      channel->ForgetThread();
  }
};
thread_local ThreadEnd thread_end;

// The same for a helper thread, without a destructor of C++: to register one takes the
// loader's lock, which a constructor of a library holds that waits for the thread.
pthread_key_t HelperEnd() {
  static const pthread_key_t key = [] {
    pthread_key_t made = 0;
    pthread_key_create(&made, [](void* channel) {
      static_cast<GuestChannel*>(channel)->ForgetThread();
    });
    return made;
  }();
  return key;
}

}  // namespace

GuestChannel::GuestChannel(const Connection& connection, bool own_time)
    : segment_(connection.segment),
      header_(connection.segment->header),
      ring_(&connection.segment->header, connection.ring, connection.doorbell),
      answers_(connection.segment),
      activity_reader_(&connection.segment->activity),
      helpers_(connection.segment, &answers_),
      others_(connection.segment),
      issuing_(&connection.segment->header, own_time) {}

// --- Owner and issuing threads
// ---------------------------------------------------------

bool GuestChannel::ClaimRank() {
  if (detached())
    return false;
  if (owner_.load())
    return true;
  InsideScope inside;
  LockGuard guard(&lock_);
  if (owner_.load())
    return true;
  // Counted before the claim shows: an owner without a running thread looks blocked.
  header_.running_issuers.fetch_add(1);
  uint32_t nobody = 0;
  const auto self = static_cast<uint32_t>(getpid());
  if (!header_.owner_pid.compare_exchange_strong(nobody, self)) {
    header_.running_issuers.fetch_sub(1);
    return false;
  }
  header_.host_now_ns.fetch_add(own_ns_.load());
  own_ns_.store(0);
  spent_ns_ = unsent_ns_ = header_.host_now_ns.load();
  // What passed before is not told apart: it counts as what is less sure.
  unsent_is_assumed_ = header_.settings.assumed_host_costs != 0;
  owner_.store(true);
  MarkIssuing();
  header_.running_issuers.fetch_sub(1);
  return true;
}

// REQUIRES: lock_ held, this process is the owner.
void GuestChannel::MarkIssuing() {
  if (thread_state.issuing())
    return;
  thread_state.issuer = issuing_.Add();
  thread_end.channel = this;
  header_.running_issuers.fetch_add(1);
  if (thread_state.helper != nullptr)
    helpers_.End(std::exchange(thread_state.helper, nullptr));
}

void GuestChannel::BecomeHelper(Helper* helper) {
  helpers_.Begin(helper);
  thread_state.helper = helper;
  pthread_setspecific(HelperEnd(), this);
}

Helper* GuestChannel::HelperHere() {
  // Where another process of the rank moves the clock, nobody here would let it run.
  if (!MovesClock() || thread_state.inside != 0 || DrivesClock())
    return nullptr;
  InsideScope inside;
  if (thread_state.helper == nullptr)
    BecomeHelper(helpers_.Announce(ProcessNow()));
  return thread_state.helper;
}

void GuestChannel::LetHelpersRun() {
  thread_state.owes_stop = false;
  if (thread_state.issuing() && thread_state.issuer->before.issuer != nullptr)
      [[unlikely]]
    CheckTurn();
  const TimePoint now = ProcessNow();
  const bool owner = owner_.load(std::memory_order_relaxed);
  bool others = owner && others_.Due(now);
  if ((!others && !helpers_.Due(now)) || !DrivesClock())
    return;
  // In the child of vfork, which is about to become another program, all is its
  // parent's.
  if (owner && RawSyscall(SYS_getpid) != header_.owner_pid.load())
    return;
  const int saved_errno = errno;
  LeftBehind left;
  {
    InsideScope inside;
    if (!others) {
      left.helpers = helpers_.RunUntil(now);
      others = owner && others_.Due(now);
    }
    if (others)
      LetOthersRun(now, &left);
  }
  if (left.helpers > 0)
    Count(LossId::kHelpersLeftBehind, static_cast<uint64_t>(left.helpers));
  if (left.processes > 0)
    Count(LossId::kProcessesLeftBehind, static_cast<uint64_t>(left.processes));
  errno = saved_errno;
}

// Helpers and other processes may wake up each other, also while one of them is looked
// at.
void GuestChannel::LetOthersRun(TimePoint now, LeftBehind* left) {
  using Outcome = OtherProcesses::Outcome;
  for (int in_vain = 0; in_vain < kMostLooks; ++in_vain) {
    left->helpers += helpers_.RunUntil(std::min(now, others_.Gate()));
    const Duration cpu = ProcessTree::HasChildren() ? helpers_.CpuUsed() : Duration();
    const Outcome outcome = others_.Step(now);
    if (outcome == Outcome::kNobody)
      break;
    if (outcome == Outcome::kLeftBehind)
      ++left->processes;
    const bool woken = helpers_.SignalWoken(now);
    if (outcome != Outcome::kNothing)
      in_vain = 0;
    else if (!woken && helpers_.CpuUsed() == cpu)
      break;
  }
  left->helpers += helpers_.RunUntil(now);
}

// This thread has taken over from another one.
void GuestChannel::CheckTurn() {
  if (thread_state.inside != 0)
    return;
  int at_the_same_time = 0;
  {
    InsideScope inside;
    at_the_same_time = issuing_.Settle(thread_state.issuer);
  }
  if (at_the_same_time > 0)
    Count(LossId::kThreadsIssue, static_cast<uint64_t>(at_the_same_time));
}

void GuestChannel::SetThreadClock(TimePoint time) {
  if (Helper* const helper = HelperHere())
    helper->clock_ns = time.nanoseconds();
}

void GuestChannel::ForgetThread() {
  if (thread_state.helper != nullptr && !detached())
    helpers_.End(std::exchange(thread_state.helper, nullptr));
  if (!thread_state.issuing())
    return;
  IssuingThreads::Remove(std::exchange(thread_state.issuer, nullptr));
  if (detached())
    return;
  header_.running_issuers.fetch_sub(1);
}

void GuestChannel::BecomeForkChild() {
  lock_.ResetAfterFork();
  bounce_lock_.ResetAfterFork();
  // A parent that had not begun to issue work leaves the child as free as an exec
  // would.
  if (owner_.load())
    detached_.store(true, std::memory_order_relaxed);
  owner_.store(false);
  helpers_.ForgetAll();
  others_.ForgetAll();
  Stir();
  issuing_.ForgetAll();
  thread_state = ThreadState{};
}

}  // namespace vrank::host
