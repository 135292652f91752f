#include "gpu_hold/hold_service.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "gpu_hold/prompt_thread.h"

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

constexpr std::chrono::milliseconds kLivesEvery{5};
// Between two looks of the service thread while a hold is expected.
constexpr std::chrono::microseconds kSoon{10};

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
    if (IsIdle(*ring) && !ring->in_graph)
      driver_->FreeRing(ring->memory);
}

// Frees what has been closed and left, on a thread that may make CUDA calls.
void HoldService::FreeClosed() {
  std::vector<std::unique_ptr<Ring>> closed;
  {
    const std::lock_guard lock(mutex_);
    const auto kept =
        std::partition(rings_.begin(), rings_.end(), [this](const auto& ring) {
          return !ring->closed || ring->in_graph || !IsIdle(*ring);
        });
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
  const std::lock_guard lock(mutex_);
  if (aborted_)
    Store(memory->host.aborted, 1);
  rings_.push_back(std::make_unique<Ring>(Ring{.memory = memory}));
  return memory;
}

void HoldService::Abort(HoldRing* ring) {
  const std::lock_guard lock(mutex_);
  if (Ring* const found = Find(ring)) {
    Store(ring->host.aborted, 1);
    found->aborted = true;
  }
}

void HoldService::Close(HoldRing* ring) {
  Abort(ring);
  const std::lock_guard lock(mutex_);
  if (Ring* const found = Find(ring))
    found->closed = true;
}

HoldService::Ring* HoldService::Find(HoldRing* ring) {
  const auto found =
      std::find_if(rings_.begin(), rings_.end(),
                   [ring](const auto& each) { return each->memory == ring; });
  return found == rings_.end() ? nullptr : found->get();
}

// False: refused.
bool HoldService::Count(HoldRing* ring, const HoldLaunch& launch, std::string* error) {
  const std::lock_guard lock(mutex_);
  Ring* const found = Find(ring);
  if (found == nullptr || found->aborted || aborted_) {
    *error = !health_.empty()   ? health_
             : found == nullptr ? "the communicator's holds are closed"
                                : "holds have been aborted";
    return false;
  }
  if (launch.parameters.work == 0)
    ++found->called;
  else
    found->in_graph = true;
  return true;
}

bool HoldService::Begin(HoldRing* ring, const HoldLaunch& launch, std::string* error) {
  if (!Count(ring, launch, error))
    return false;
  HoldLaunch patient = launch;
  patient.parameters.patience_ns =
      static_cast<uint64_t>(options_.patience.nanoseconds());
  // Without the lock: a launch may wait for the device, and the device for the service.
  if (driver_->Launch(ring, patient, error))
    return true;
  const std::lock_guard lock(mutex_);
  if (Ring* const found = Find(ring); found != nullptr && launch.parameters.work == 0)
    --found->called;  // the device will not count it
  return false;
}

void HoldService::Release(HoldRing* ring, uint32_t epoch) {
  std::atomic_ref<uint32_t> released(ring->host.released);
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
    Store(ring->memory->host.aborted, 1);
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
    Store(ring->memory->host.aborted, 1);
}

// REQUIRES: the lock, or that nobody else is left.
bool HoldService::IsIdle(const Ring& ring) const {
  return !ring.telling && HasReached(Load(ring.memory->ended_calls), ring.called);
}

// REQUIRES: the lock.
void HoldService::Look(HoldRing* ring, std::vector<HoldArrival>* arrivals) {
  Store(ring->host.heartbeat, ring->host.heartbeat + 1);
  const uint32_t arrived = Load(ring->arrived);
  uint32_t looked = ring->host.looked;
  while (looked != arrived) {
    const HoldEntry& entry = ring->entries[++looked % kHoldEntries];
    arrivals->push_back({looked, entry.work, entry.arrived_at_ns});
  }
  Store(ring->host.looked, looked);
  if (Load(ring->lost) != 0)
    Fail("a hold of a communicator ended by itself: the process did not serve it for " +
         std::to_string(options_.patience.nanoseconds() / 1'000'000) + " ms");
}

void HoldService::Serve() {
  NapOnTime();
  auto lives_at = Clock::now();
  std::vector<HoldArrival> arrivals;
  std::unique_lock lock(mutex_);
  while (!stop_) {
    for (size_t i = 0; i < rings_.size(); ++i) {
      Ring* const ring = rings_[i].get();
      HoldRing* const memory = ring->memory;
      arrivals.clear();
      Look(memory, &arrivals);
      if (arrivals.empty() || !options_.on_arrival)
        continue;
      ring->telling = true;
      lock.unlock();
      for (const HoldArrival& arrival : arrivals)
        options_.on_arrival(memory, arrival);
      lock.lock();
      ring->telling = false;
    }
    if (const auto now = Clock::now(); now >= lives_at && options_.emulator_lives) {
      lives_at = now + kLivesEvery;
      if (health_.empty() && !options_.emulator_lives())
        Fail("the emulator is gone; no collective can end any more");
    }
    const bool expects = std::any_of(
        rings_.begin(), rings_.end(),
        [this](const auto& ring) { return ring->in_graph || !IsIdle(*ring); });
    stopping_.wait_for(
        lock, expects ? std::chrono::nanoseconds(kSoon) : Real(options_.look_every));
  }
}

}  // namespace vrank::hold
