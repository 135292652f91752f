#include "virtual_host/channel/timed_wait.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <utility>

#include "schedule/policy.h"
#include "virtual_host/turns/futex.h"
#include "virtual_host/turns/session_end.h"
#include "virtual_host/turns/thread_state.h"

namespace vrank::host {
namespace {

void KickNothing(HostThread*) {}

bool Sleeps(const Waking& waking) {
  return waking.waits_for == ThreadScheduler::WaitsFor::kLimitOnly;
}

}  // namespace

void KickWord(HostThread* helper) {
  helper->word.fetch_add(1);
  FutexWake(&helper->word, 1, /*shared=*/false);
}

TimedWait::TimedWait(GuestChannel* channel, HostThread* helper, TimePoint deadline,
                     Waking waking)
    : channel_(channel),
      deadline_(deadline),
      helper_(helper),
      who_(helper_ != nullptr        ? Who::kHelper
           : channel->DrivesClock()  ? Who::kDriver
           : channel->FollowsClock() ? Who::kOther
                                     : Who::kAside),
      longest_(who_ != Who::kHelper     ? schedule::kLongestSlice
               : waking.kick == nullptr ? schedule::kFirstSlice
                                        : schedule::kLongestKickable),
      driver_wait_{deadline.nanoseconds(), waking.object, Sleeps(waking)},
      other_limit_(channel->segment()) {
  passed_at_start_ = channel->Peek() >= deadline;
  if (passed_at_start_)
    return;
  if (who_ == Who::kOther) {
    Follow();
    return;
  }
  if (who_ == Who::kAside) {
    needed_ = deadline - channel->Peek();
    return;
  }
  InsideScope inside;
  if (who_ == Who::kHelper)
    channel->scheduler().Park(helper_, deadline.nanoseconds(), waking.object,
                              waking.kick != nullptr ? waking.kick : KickNothing,
                              waking.argument, waking.waits_for);
  else
    channel->scheduler().AddDriverWait(&driver_wait_);
}

// The process that moves the clock is told of the limit. Where there is no room for it
// the wait is one of real time.
void TimedWait::Follow() {
  needed_ = std::max(deadline_ - channel_->Peek(), Duration());
  const int64_t limit_ns =
      (deadline_ - TimePoint() - channel_->own_time()).nanoseconds();
  who_ = other_limit_.Begin(limit_ns, driver_wait_.sleeps) ? Who::kOther : Who::kAside;
}

void TimedWait::Leave() {
  InsideScope inside;
  if (who_ == Who::kHelper)
    channel_->scheduler().Unpark(helper_, channel_->OthersNow());
  else if (who_ == Who::kDriver)
    channel_->scheduler().RemoveDriverWait(&driver_wait_);
}

TimedWait::~TimedWait() {
  if (passed_at_start_)
    return;
  if (other_limit_.Reached())
    channel_->ShowReached(deadline_);
  Leave();
}

Duration TimedWait::NextSlice() {
  if (passed_at_start_)
    return Duration();
  slice_ = slice_ == Duration() ? schedule::kFirstSlice
                                : std::min(slice_ + slice_, longest_);
  if (who_ != Who::kOther && who_ != Who::kAside)
    return slice_;
  slice_began_ = RealNow(CLOCK_MONOTONIC);
  if (who_ == Who::kOther)
    return other_limit_.Reached() ? Duration() : slice_;
  if (channel_->Peek() >= deadline_)
    return Duration();
  return std::min(slice_, std::max(needed_ - counted_, schedule::kShortestSlice));
}

// Whether it has waited for as long in real time.
bool TimedWait::CountedOut() {
  // A slice that took far longer than asked for was held up by a debugger, a signal or
  // the scheduler. That is no time in which anybody could have satisfied the wait.
  counted_ += std::min(RealNow(CLOCK_MONOTONIC) - slice_began_, slice_ + slice_);
  return counted_ >= needed_;
}

TimedWait::Outcome TimedWait::AfterSlice() {
  if (passed_at_start_)
    return Outcome::kExpired;
  if (who_ == Who::kOther) {
    other_limit_.CountTick();
    const bool over =
        other_limit_.Reached() || (CountedOut() && !channel_->OwnerLives());
    return over ? Outcome::kExpired : Outcome::kWaits;
  }
  if (who_ == Who::kAside)
    return CountedOut() || channel_->Peek() >= deadline_ ? Outcome::kExpired
                                                         : Outcome::kWaits;
  if (!channel_->MovesClock()) {
    // From now on another process does.
    Leave();
    Follow();
    return Outcome::kWaits;
  }
  ThreadScheduler& scheduler = channel_->scheduler();
  {
    InsideScope inside;
    scheduler.Publish();
    if (const auto limit = scheduler.TakeGrant())
      channel_->Reach(*limit);
    if (who_ == Who::kHelper)
      return scheduler.Look(helper_);
    if (scheduler.Signalled(driver_wait_))
      return Outcome::kSignalled;
  }
  if (channel_->ProcessNow() < deadline_)
    return Outcome::kWaits;
  channel_->LetHelpersRun();
  return Outcome::kExpired;
}

bool TimedWait::Sleep() {
  if (who_ == Who::kOther && !passed_at_start_) {
    slice_ = schedule::kLongestKickable;
    slice_began_ = RealNow(CLOCK_MONOTONIC);
    return other_limit_.Sleep(slice_);
  }
  if (who_ == Who::kDriver && driver_wait_.sleeps && !passed_at_start_)
    return channel_->AwaitGrant(NextSlice());
  std::atomic<uint32_t> nothing{0};
  return FutexWait(&nothing, 0, NextSlice(), /*shared=*/false) != -EINTR;
}

bool TimedWait::ExpiredMeanwhile() {
  if (who_ != Who::kHelper || passed_at_start_)
    return false;
  InsideScope inside;
  return channel_->scheduler().Look(helper_) == Outcome::kExpired;
}

bool TimedWait::AwaitTurn() {
  if (who_ != Who::kHelper || passed_at_start_)
    return false;
  int left = 0;
  {
    InsideScope inside;
    if (channel_->scheduler().Look(helper_) != Outcome::kSignalled)
      return false;
    left = channel_->scheduler().AwaitTurn(helper_);
  }
  if (left > 0)
    channel_->Count(LossId::kHelpersLeftBehind, static_cast<uint64_t>(left));
  return true;
}

void TimedWait::GotOut() {
  if (who_ != Who::kHelper || passed_at_start_)
    return;
  {
    InsideScope inside;
    channel_->scheduler().GotOut(helper_);
  }
  channel_->SettleOthersAsHelper();
  AwaitTurn();
}

void TimedWait::BeginLook() {
  InsideScope inside;
  if (who_ == Who::kHelper)
    channel_->scheduler().BeginLook(helper_);
}

void TimedWait::GoOn() {
  InsideScope inside;
  if (who_ == Who::kHelper)
    channel_->scheduler().ParkAgain(helper_);
}

namespace {

// In vain where the helper is just about to wait: it goes on at the end of its slice,
// and the rank is not at rest until then (SegmentHeader::nappers).
void KickSleeper(HostThread* helper) {
  auto* const header =
      reinterpret_cast<protocol::SegmentHeader*>(helper->kick_argument);
  header->nappers.fetch_add(1);
  helper->word.fetch_add(1);
  FutexWake(&header->granted_ticket, INT_MAX, /*shared=*/true);
}

}  // namespace

// It waits for the word that the emulator changes when it grants a limit: threads that
// looked again every millisecond would never be seen at rest.
void SleepAsHelper(GuestChannel* channel, HostThread* helper, TimePoint deadline) {
  protocol::SegmentHeader& header = channel->segment()->header;
  uint32_t kicks = helper->word.load(), granted = header.granted_ticket.load();
  const auto count_kicks = [&] {
    const uint32_t before = std::exchange(kicks, helper->word.load());
    header.nappers.fetch_sub(kicks - before);
  };
  {
    TimedWait wait(channel, helper, deadline,
                   {.kick = KickSleeper,
                    .argument = reinterpret_cast<uint64_t>(&header),
                    .waits_for = ThreadScheduler::WaitsFor::kLimitOnly});
    if (thread_state.issuing())
      channel->TellLimit();
    do {
      if (helper->word.load() == kicks)
        FutexWait(&header.granted_ticket, granted, wait.NextSlice(), /*shared=*/true);
      count_kicks();
      granted = header.granted_ticket.load();
    } while (!wait.Expired());
  }
  count_kicks();  // nobody kicks it any more
}

int SleepAsFollower(GuestChannel* channel, TimePoint deadline) {
  channel->NoteUseOfTime();
  TimedWait wait(channel, nullptr, deadline,
                 {.waits_for = ThreadScheduler::WaitsFor::kLimitOnly});
  do {
    if (!wait.Sleep())
      return EINTR;
  } while (!wait.Expired());
  return 0;
}

}  // namespace vrank::host
