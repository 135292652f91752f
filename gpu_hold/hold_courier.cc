#include "gpu_hold/hold_courier.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "gpu_hold/prompt_thread.h"

namespace vrank::hold {
namespace {

// Between looks while an end is awaited.
constexpr std::chrono::microseconds kLook{5};
// A release is waited for awake from so long before: no nap ends that exactly.
constexpr int64_t kAwakeNs = 20'000;

int64_t MonotonicNs() {
  return std::chrono::steady_clock::now().time_since_epoch().count();
}

}  // namespace

HoldCourier::HoldCourier(Channel* channel, int64_t time_origin_ns)
    : channel_(channel),
      time_origin_ns_(time_origin_ns),
      thread_([this] { Serve(); }) {}

HoldCourier::~HoldCourier() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

int64_t HoldCourier::WallNs() const {
  return MonotonicNs() - time_origin_ns_;
}

void HoldCourier::AdvanceHostClock() {
  CountAsIssuing();
  AdvanceHostClockTo(WallNs());
}

// Only a thread that has issued something asks for the rank: nothing, in bytes.
void HoldCourier::CountAsIssuing() {
  protocol::Memory nothing{};
  nothing.record.kind = protocol::RecordKind::kMemory;
  channel_->Emit(nothing);
}

void HoldCourier::AdvanceHostClockTo(int64_t wall_ns) {
  channel_->FollowWallClock(TimePoint::FromNanoseconds(wall_ns));
}

void HoldCourier::AwaitHostClock() {
  int64_t left = 0;
  while (!channel_->aborting() && (left = channel_->Now().nanoseconds() - WallNs()) > 0)
    std::this_thread::sleep_for(std::chrono::nanoseconds(
        std::min<int64_t>(left, Duration::Milliseconds(100).nanoseconds())));
}

void HoldCourier::Add(HoldRing* ring, HoldService* service, uint32_t token,
                      uint32_t generation) {
  const std::lock_guard lock(mutex_);
  Ring& added = rings_[ring];
  added.service = service;
  added.token = token;
  added.generation = generation;
}

uint32_t HoldCourier::Remove(HoldRing* ring) {
  const std::lock_guard lock(mutex_);
  const auto found = rings_.find(ring);
  if (found == rings_.end())
    return 0;
  const uint32_t generation = found->second.generation;
  under_way_ -= found->second.told ? 1 : 0;
  rings_.erase(found);
  std::erase_if(arrivals_, [ring](const Arrival& each) { return each.ring == ring; });
  changed_.notify_all();
  return generation;
}

void HoldCourier::Expect(HoldRing* ring, HeldOperation operation) {
  const std::lock_guard lock(mutex_);
  if (const auto found = rings_.find(ring); found != rings_.end())
    found->second.expected.push_back(std::move(operation));
}

void HoldCourier::Withdraw(HoldRing* ring) {
  const std::lock_guard lock(mutex_);
  if (const auto found = rings_.find(ring); found != rings_.end())
    found->second.expected.pop_back();
}

uint32_t HoldCourier::Keep(HoldRing* ring, HeldOperation operation) {
  const std::lock_guard lock(mutex_);
  const auto found = rings_.find(ring);
  if (found == rings_.end())
    return 1;  // nobody will look for it
  found->second.kept.push_back(std::move(operation));
  return static_cast<uint32_t>(found->second.kept.size());
}

void HoldCourier::Arrived(HoldRing* ring, const HoldArrival& arrival) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = rings_.find(ring);
    if (found == rings_.end())
      return;  // it was removed while its holds ended
    const int64_t at_ns =
        clocks_[found->second.service].HostTime(arrival.device_ns, WallNs());
    arrivals_.push_back({ring, arrival.epoch, arrival.work, at_ns});
  }
  changed_.notify_all();
}

// REQUIRES: the lock held. Records are written without it.
void HoldCourier::Tell(const Arrival& arrival) {
  Ring& ring = rings_.at(arrival.ring);
  HeldOperation operation;
  if (arrival.work == 0) {
    operation = std::move(ring.expected.front());
    ring.expected.pop_front();
  } else {
    operation = ring.kept[arrival.work - 1];
  }
  // The stream went on, so the one before has been released.
  under_way_ += ring.told ? 0 : 1;
  ring.told = true;
  ring.epoch = arrival.epoch;
  ++ring.generation;
  const uint32_t token = ring.token;
  mutex_.unlock();
  AdvanceHostClockTo(arrival.at_ns);
  protocol::TokenOnLane record{};
  record.record.kind = protocol::RecordKind::kRecordToken;
  record.token = token;
  record.lane = token;
  if (operation.each.empty()) {
    operation.collective.lane = token;
    channel_->Emit(operation.collective);
  } else {
    operation.transfers.lane = token;
    channel_->Emit(operation.transfers, operation.each.data(),
                   operation.each.size() * sizeof(protocol::Transfer));
  }
  channel_->Emit(record);
  mutex_.lock();
}

// REQUIRES: the lock held.
int64_t HoldCourier::ReleaseDue() {
  int64_t next = -1;
  const int64_t now = WallNs();
  for (auto& [memory, ring] : rings_) {
    if (!ring.told)
      continue;
    const std::optional<TimePoint> end =
        channel_->PublishedEnd(ring.token, ring.generation);
    if (!end.has_value())
      continue;
    if (end->nanoseconds() <= now) {
      ring.service->Release(memory, ring.epoch);
      ring.told = false;
      --under_way_;
      changed_.notify_all();
    } else if (next < 0 || end->nanoseconds() < next) {
      next = end->nanoseconds();
    }
  }
  return next;
}

void HoldCourier::Serve() {
  NapOnTime();
  CountAsIssuing();
  std::unique_lock lock(mutex_);
  while (!stop_) {
    bool told = false;
    while (!arrivals_.empty()) {
      const Arrival arrival = arrivals_.front();
      arrivals_.pop_front();
      Tell(arrival);
      told = true;
    }
    if (told) {
      // A question, so that the emulator reads the records now and not at its next nap.
      lock.unlock();
      protocol::AskClock ask{};
      ask.record.kind = protocol::RecordKind::kAskClock;
      channel_->Ask(ask);
      lock.lock();
    }
    const int64_t next = ReleaseDue();
    if (!arrivals_.empty() || stop_)
      continue;
    if (under_way_ == 0) {
      changed_.wait(lock, [this] { return stop_ || !arrivals_.empty(); });
      continue;
    }
    const int64_t left = next - WallNs();
    if (next < 0) {
      changed_.wait_for(lock, kLook);
    } else if (left > kAwakeNs) {
      changed_.wait_for(lock, std::chrono::nanoseconds(left - kAwakeNs));
    } else {
      lock.unlock();
      std::this_thread::yield();
      lock.lock();
    }
  }
}

}  // namespace vrank::hold
