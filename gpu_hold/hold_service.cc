#include "gpu_hold/hold_service.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

namespace vrank::hold {
namespace {

using Clock = std::chrono::steady_clock;

std::chrono::nanoseconds Real(Duration duration) {
  return std::chrono::nanoseconds(duration.nanoseconds());
}

uint32_t Load(uint32_t& word) {
  return std::atomic_ref<uint32_t>(word).load(std::memory_order_acquire);
}
void Store(uint32_t& word, uint32_t value) {
  std::atomic_ref<uint32_t>(word).store(value, std::memory_order_release);
}

// Entry `epoch` may be written: the kernel that read it last is over, and so is the
// next one, and what they wrote has been looked at.
bool HasRoom(uint32_t checked, uint32_t epoch) {
  return epoch < kHoldEntries || HasReached(checked, epoch - kHoldEntries + 1);
}

constexpr std::chrono::milliseconds kLivesEvery{5};

}  // namespace

HoldService::HoldService(HoldDriver* driver, Options options)
    : driver_(driver), options_(std::move(options)), server_([this] { Serve(); }) {}

HoldService::~HoldService() {
  AbortAll();
  const auto until = Clock::now() + Real(options_.patience);
  const auto all_idle = [this] {
    const std::lock_guard lock(mutex_);
    return std::all_of(rings_.begin(), rings_.end(),
                       [this](const auto& ring) { return IsIdle(*ring); });
  };
  while (!all_idle() && Clock::now() < until)
    std::this_thread::sleep_for(Real(options_.look_every));
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stopping_.notify_all();
  server_.join();
  for (const auto& ring : rings_)
    if (IsIdle(*ring))
      driver_->FreeRing(ring->memory);
}

// Frees what has been closed and left, on a thread that may make CUDA calls.
void HoldService::FreeClosed() {
  std::vector<std::unique_ptr<Ring>> closed;
  {
    const std::lock_guard lock(mutex_);
    const auto kept = std::partition(
        rings_.begin(), rings_.end(),
        [this](const auto& ring) { return !ring->closing || !IsIdle(*ring); });
    std::move(kept, rings_.end(), std::back_inserter(closed));
    rings_.erase(kept, rings_.end());
  }
  for (const auto& ring : closed)
    driver_->FreeRing(ring->memory);
}

HoldRing* HoldService::Open() {
  FreeClosed();
  HoldRing* const memory = driver_->NewRing();
  if (memory == nullptr)
    return nullptr;
  memory->patience_ns = static_cast<uint64_t>(options_.patience.nanoseconds());
  const std::lock_guard lock(mutex_);
  if (aborted_)
    Store(memory->aborted, 1);
  rings_.push_back(std::make_unique<Ring>(Ring{.memory = memory}));
  return memory;
}

void HoldService::Close(HoldRing* ring) {
  const std::lock_guard lock(mutex_);
  if (Ring* const found = Find(ring)) {
    Store(ring->aborted, 1);
    found->closing = true;
  }
}

HoldService::Ring* HoldService::Find(HoldRing* ring) {
  const auto found =
      std::find_if(rings_.begin(), rings_.end(),
                   [ring](const auto& each) { return each->memory == ring; });
  return found == rings_.end() ? nullptr : found->get();
}

uint32_t HoldService::Write(HoldRing* ring, const HoldLaunch& launch,
                            std::string* error) {
  const auto until = Clock::now() + Real(options_.patience);
  std::unique_lock lock(mutex_);
  for (;;) {
    Ring* const found = Find(ring);
    if (found == nullptr || found->closing || aborted_) {
      *error = !health_.empty()   ? health_
               : found == nullptr ? "the communicator's holds are closed"
                                  : "holds have been aborted";
      return 0;
    }
    // 0 is never an epoch: 2^32 holds of one communicator are years of them.
    const uint32_t epoch = found->issued + 1;
    if (HasRoom(found->checked, epoch)) {
      HoldEntry& entry = ring->entries[epoch % kHoldEntries];
      entry = {launch.mode, HoldOutcome::kNone,
               static_cast<uint64_t>(launch.duration.nanoseconds()), 0};
      found->issued = epoch;
      return epoch;
    }
    if (Clock::now() >= until) {
      *error = std::to_string(kHoldEntries) +
               " holds of one communicator are queued, and none has ended for " +
               std::to_string(options_.patience.nanoseconds() / 1'000'000) + " ms";
      return 0;
    }
    stopping_.wait_for(lock, Real(options_.look_every));
  }
}

uint32_t HoldService::BeginCaptured(HoldRing* ring, const HoldLaunch& launch,
                                    std::string* error) {
  return Write(ring, launch, error);
}

uint32_t HoldService::Begin(HoldRing* ring, const HoldLaunch& launch,
                            std::string* error) {
  const uint32_t epoch = Write(ring, launch, error);
  // Without the lock: a launch may wait for the device, and the device for the service.
  if (epoch == 0 || driver_->Launch(ring, launch, error))
    return epoch;
  const std::lock_guard lock(mutex_);
  if (Ring* const found = Find(ring))
    --found->issued;  // the device will not count it
  return 0;
}

void HoldService::Release(HoldRing* ring, uint32_t epoch) {
  std::atomic_ref<uint32_t> released(ring->released);
  uint32_t before = released.load(std::memory_order_relaxed);
  while (!HasReached(before, epoch) &&
         !released.compare_exchange_weak(before, epoch, std::memory_order_release,
                                         std::memory_order_relaxed)) {
  }
}

void HoldService::AbortAll() {
  const std::lock_guard lock(mutex_);
  aborted_ = true;
  for (const auto& ring : rings_)
    Store(ring->memory->aborted, 1);
}

std::string HoldService::Health() const {
  const std::lock_guard lock(mutex_);
  return health_;
}

// REQUIRES: the lock.
void HoldService::Fail(const std::string& what) {
  if (health_.empty())
    health_ = what;
  aborted_ = true;
  for (const auto& ring : rings_)
    Store(ring->memory->aborted, 1);
}

// REQUIRES: the lock, or that nobody else is left.
bool HoldService::IsIdle(const Ring& ring) const {
  return !ring.telling && HasReached(Load(ring.memory->finished), ring.issued);
}

// REQUIRES: the lock.
void HoldService::Look(Ring* ring,
                       std::vector<std::pair<uint32_t, uint64_t>>* arrivals) {
  HoldRing& memory = *ring->memory;
  Store(memory.heartbeat, memory.heartbeat + 1);
  const uint32_t finished = Load(memory.finished);
  const uint32_t arrived = Load(memory.arrived);
  while (ring->announced != arrived) {
    const uint32_t epoch = ++ring->announced;
    arrivals->emplace_back(epoch, memory.entries[epoch % kHoldEntries].arrived_at_ns);
  }
  while (ring->checked != finished) {
    const uint32_t epoch = ++ring->checked;
    if (memory.entries[epoch % kHoldEntries].outcome == HoldOutcome::kHostLost)
      Fail("hold " + std::to_string(epoch) +
           " of a communicator ended by itself: the process did not serve it for " +
           std::to_string(memory.patience_ns / 1'000'000) + " ms");
  }
}

void HoldService::Serve() {
  auto lives_at = Clock::now();
  std::vector<std::pair<uint32_t, uint64_t>> arrivals;
  std::unique_lock lock(mutex_);
  while (!stop_) {
    for (size_t i = 0; i < rings_.size(); ++i) {
      HoldRing* const memory = rings_[i]->memory;
      arrivals.clear();
      Look(rings_[i].get(), &arrivals);
      if (arrivals.empty() || !options_.on_arrival)
        continue;
      Ring* const ring = rings_[i].get();
      ring->telling = true;
      lock.unlock();
      for (const auto& [epoch, device_ns] : arrivals)
        options_.on_arrival(memory, epoch, device_ns);
      lock.lock();
      ring->telling = false;
    }
    if (const auto now = Clock::now(); now >= lives_at && options_.emulator_lives) {
      lives_at = now + kLivesEvery;
      if (health_.empty() && !options_.emulator_lives())
        Fail("the emulator is gone; no collective can end any more");
    }
    stopping_.wait_for(lock, Real(options_.look_every));
  }
}

}  // namespace vrank::hold
