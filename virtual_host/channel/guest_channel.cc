#include "virtual_host/channel/guest_channel.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "schedule/policy.h"
#include "schedule/processes.h"
#include "virtual_host/channel/timed_wait.h"
#include "virtual_host/system/raw_syscall.h"
#include "virtual_host/turns/thread_state.h"

namespace vrank::host {

constinit thread_local ThreadState thread_state;

namespace {

using protocol::RecordKind;

// Forgets a thread that ends, be it by pthread_exit or a cancellation. A destructor of
// C++ would do so for the main thread where the process exits, too, whose exit handlers
// may yet wait for the GPU; and to register one takes the loader's lock, which a
// constructor of a library holds that waits for the thread.
pthread_key_t ThreadEnd() {
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
      scheduler_(connection.segment, &answers_),
      others_(connection.segment),
      issuing_(&scheduler_, own_time) {
  follows_program_ = header_.settings.host_time != protocol::HostTime::kModelled ||
                     header_.settings.records_gaps != 0;
}

// --- Owner and issuing threads
// ---------------------------------------------------------

void GuestChannel::AwaitThreadEnd() {
  pthread_setspecific(ThreadEnd(), this);
}

bool GuestChannel::ClaimRank() {
  if (detached())
    return false;
  if (owner_.load())
    return true;
  InsideScope inside;
  // What processes of this one compute before the claim takes no time. They have to
  // wait by then: which of their acts come later must not depend on the machine's load.
  if (follows_program() && header_.owner_pid.load() == 0)
    others_.Settle(/*in_turn=*/true);
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
  HostThread* const helper = std::exchange(thread_state.helper, nullptr);
  thread_state.issuer = issuing_.Add(helper != nullptr ? helper : thread_state.turn);
  thread_state.turn = thread_state.issuer->turn;
  AwaitThreadEnd();
  header_.running_issuers.fetch_add(1);
  FollowProgram();
}

void GuestChannel::BecomeHelper(HostThread* helper) {
  scheduler_.Begin(helper);
  thread_state.helper = helper;
  AwaitThreadEnd();
}

HostThread* GuestChannel::HelperHere() {
  // Where another process of the rank moves the clock, nobody here would let it run.
  if (!MovesClock() || thread_state.inside != 0 || DrivesClock())
    return nullptr;
  InsideScope inside;
  if (thread_state.turn != nullptr) {
    thread_state.helper = std::exchange(thread_state.turn, nullptr);
    scheduler_.BecomeHelper(thread_state.helper, ProcessNow());
  } else if (thread_state.helper == nullptr) {
    BecomeHelper(scheduler_.Announce(ProcessNow()));
  }
  return thread_state.helper;
}

void GuestChannel::TakePlace() {
  if (Turn() != nullptr || issuing_.own_time() || !DrivesClock())
    return;
  InsideScope inside;
  thread_state.turn = scheduler_.BeginIssuing(nullptr);
  AwaitThreadEnd();
}

void GuestChannel::AwaitStart(HostThread* thread) {
  HostThread* const self =
      thread_state.helper != nullptr ? thread_state.helper : Turn();
  if (self == nullptr)
    return;
  bool has_run = false;
  {
    InsideScope inside;
    has_run = scheduler_.AwaitStart(thread, self);
  }
  if (has_run)
    Stop(ThreadScheduler::TurnEnd::kGoesOn);
}

void GuestChannel::LetHelpersRun() {
  Stop(ThreadScheduler::TurnEnd::kOver);
}

void GuestChannel::Stop(ThreadScheduler::TurnEnd end) {
  thread_state.owes_stop = false;
  if (end == ThreadScheduler::TurnEnd::kOver)
    thread_state.readings = 0;
  if (issuing_.any_uncounted()) [[unlikely]]
    CountIssuers();
  const TimePoint now = ProcessNow();
  const bool owner = owner_.load(std::memory_order_relaxed);
  HostThread* const self = Turn();
  // Others may have gone on without it, or wait for it to stop.
  const bool awaited =
      self != nullptr &&
      (self->owes_stop.load(std::memory_order_relaxed) ||
       self->state.load(std::memory_order_relaxed) != HostThread::State::kRunning);
  const bool due = awaited || scheduler_.Due(now) || (owner && others_.Due(now));
  if (!due || !DrivesClock())
    return;
  // In the child of vfork, which is about to become another program, all is its
  // parent's.
  if (owner && RawSyscall(SYS_getpid) != header_.owner_pid.load())
    return;
  const int saved_errno = errno;
  const LeftBehind left = StopFor(now, self, end);
  if (left.helpers > 0)
    Count(LossId::kHelpersLeftBehind, static_cast<uint64_t>(left.helpers));
  if (left.processes > 0)
    Count(LossId::kProcessesLeftBehind, static_cast<uint64_t>(left.processes));
  errno = saved_errno;
}

GuestChannel::LeftBehind GuestChannel::StopFor(TimePoint now, HostThread* self,
                                               ThreadScheduler::TurnEnd end) {
  InsideScope inside;
  if (self != nullptr)
    scheduler_.BeginStop(self, end);
  ThreadScheduler::StopScope stops(&scheduler_, self);
  return LetAllRun(now, self);
}

// Whoever takes turns finds the clock where others have moved it meanwhile.
GuestChannel::LeftBehind GuestChannel::LetAllRun(TimePoint now, HostThread* self) {
  LeftBehind left;
  const bool owner = owner_.load(std::memory_order_relaxed);
  for (;;) {
    bool others = owner && others_.Due(now);
    if (!others) {
      left.helpers += scheduler_.RunUntil(now, self, /*others_first=*/owner);
      others = owner && others_.Due(now);
    }
    if (others)
      LetOthersRun(now, self, &left);
    const TimePoint later = ProcessNow();
    if (self == nullptr || later == now || !scheduler_.SeveralIssue())
      return left;
    now = later;
  }
}

// Helpers and other processes may wake each other.
void GuestChannel::LetOthersRun(TimePoint now, HostThread* self, LeftBehind* left) {
  using Outcome = OtherProcesses::Outcome;
  using Step = schedule::StopStep;
  const bool in_turn = self != nullptr;
  schedule::OwnerStop stop{.now_ns = now.nanoseconds()};
  bool any = ProcessTree::HasChildren();
  Duration cpu;
  Outcome outcome = Outcome::kNothing;
  Step step = Step::kSettleProcesses;
  for (int in_vain = 0; in_vain < schedule::kMostTurns && outcome != Outcome::kBusy &&
                        step != Step::kGoOn;
       ++in_vain) {
    stop.processes_may_run |= others_.stirred();
    stop.helper_limit_ns = scheduler_.NextLimit();
    stop.process_limit_ns = others_.NextLimit(in_turn);
    step = schedule::NextStopStep(stop);
    switch (step) {
      case Step::kSettleProcesses:
        outcome = others_.Settle(in_turn);
        left->processes += outcome == Outcome::kLeftBehind ? 1 : 0;
        any |= outcome != Outcome::kNobody && outcome != Outcome::kBusy;
        stop.processes_may_run = false;
        if (any && (scheduler_.SignalWoken(OthersNow()) || scheduler_.CpuUsed() != cpu))
          stop.helpers_may_run = true;
        if (outcome == Outcome::kRan)
          in_vain = 0;
        break;
      case Step::kRunHelpers:
        left->helpers += scheduler_.RunUntil(now, self, /*others_first=*/true);
        cpu = any ? scheduler_.CpuUsed() : Duration();
        stop.helpers_may_run = false;
        if (scheduler_.NextLimit() > stop.helper_limit_ns)
          in_vain = 0;
        break;
      case Step::kExpireProcess:
        others_.ExpireNext(in_turn);
        stop.processes_may_run = true;
        in_vain = 0;
        break;
      case Step::kGoOn:
        break;
    }
  }
  if (outcome != Outcome::kBusy)
    others_.EndTurn();
  left->helpers += scheduler_.RunUntil(now, self, /*others_first=*/false);
}

// Whether there is data for it, and who is woken first, must not depend on how fast
// the other process runs.
void GuestChannel::SettleOthersAsHelper() {
  HostThread* const helper = thread_state.helper;
  if (helper == nullptr || thread_state.inside != 0 || !owner_.load() ||
      !others_.MayRun() || RawSyscall(SYS_getpid) != header_.owner_pid.load())
    return;
  const int saved_errno = errno;
  OtherProcesses::Outcome outcome;
  {
    InsideScope inside;
    const ThreadScheduler::StopScope stops(&scheduler_, helper);
    outcome = others_.SettleIfStirred();
    if (outcome != OtherProcesses::Outcome::kNobody)
      scheduler_.SignalWoken(OthersNow());
  }
  if (outcome == OtherProcesses::Outcome::kLeftBehind)
    Count(LossId::kProcessesLeftBehind, 1);
  errno = saved_errno;
}

// What a helper starts or wakes sees the helper's clock, while that of the process may
// be ahead.
void GuestChannel::Stir() {
  bound_.until_ns.store(0, std::memory_order_relaxed);
  const HostThread* const helper = thread_state.helper;
  if (helper != nullptr && owner_.load(std::memory_order_relaxed)) {
    const int64_t now_ns = helper->clock_ns.load() - own_ns_.load();
    const bool is_later =
        header_.others_reached_turn.load() != header_.others_turn.load() + 1 ||
        header_.others_reached_ns.load() < now_ns;
    if (is_later)
      protocol::ReachForOthers(&header_, now_ns);
  }
  OtherProcesses::Stir(&header_);
}

void GuestChannel::CountIssuers() {
  if (thread_state.inside != 0)
    return;
  int at_the_same_time = 0;
  {
    InsideScope inside;
    LockGuard guard(&lock_);
    at_the_same_time = issuing_.TakeUncounted();
  }
  if (at_the_same_time > 0)
    Count(LossId::kThreadsIssue, static_cast<uint64_t>(at_the_same_time));
}

void GuestChannel::SetThreadClock(TimePoint time) {
  if (HostThread* const helper = HelperHere())
    helper->clock_ns = time.nanoseconds();
}

void GuestChannel::ForgetThread() {
  if (thread_state.helper != nullptr && !detached())
    scheduler_.End(std::exchange(thread_state.helper, nullptr));
  if (!thread_state.issuing()) {
    ForgetProgram();
    if (HostThread* const place = std::exchange(thread_state.turn, nullptr))
      scheduler_.End(place);
    return;
  }
  ForgetProgram();
  Issuer* const issuer = std::exchange(thread_state.issuer, nullptr);
  thread_state.turn = nullptr;
  if (detached())
    return;
  {
    InsideScope inside;
    LockGuard guard(&lock_);
    issuing_.Remove(issuer);
  }
  header_.running_issuers.fetch_sub(1);
}

void GuestChannel::BecomeForkChild() {
  lock_.ResetAfterFork();
  bounce_lock_.ResetAfterFork();
  blocks_.ResetAfterFork();
  // A parent that had not begun to issue work leaves the child as free as an exec
  // would.
  if (owner_.load())
    detached_.store(true, std::memory_order_relaxed);
  owner_.store(false);
  scheduler_.ForgetAll();
  others_.ForgetAll();
  Stir();
  issuing_.ForgetAll();
  thread_state = ThreadState{};
  if (follows_program() && FollowsClock())
    BecomeFollower();
}

}  // namespace vrank::host
