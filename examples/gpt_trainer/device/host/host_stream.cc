// A mutex and a condition variable each: what is queued is large compared with that.

#include "examples/gpt_trainer/device/host/host_stream.h"

#include <exception>
#include <utility>

#include "examples/gpt_trainer/kernels/element_math.h"

namespace gpt {

HostStream::HostStream(uint64_t jitter, std::shared_ptr<HostFailure> failure)
    : jitter_(jitter), failure_(std::move(failure)), thread_([this] { Run(); }) {}

HostStream::~HostStream() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void HostStream::Enqueue(std::function<void()> work) {
  Push({std::move(work), false});
}

void HostStream::EnqueueAlways(std::function<void()> work) {
  Push({std::move(work), true});
}

void HostStream::Push(Work work) {
  {
    const std::lock_guard lock(mutex_);
    queue_.push(std::move(work));
  }
  changed_.notify_all();
}

void HostStream::Synchronize() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return queue_.empty(); });
}

void HostStream::Run() {
  constexpr uint64_t kMostMicroseconds = 128;
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ending_ || !queue_.empty(); });
    if (queue_.empty()) {
      return;
    }
    const Work work = std::move(queue_.front());
    lock.unlock();
    if (jitter_ != 0) {
      jitter_ = Mix(jitter_);
      std::this_thread::sleep_for(
          std::chrono::microseconds(jitter_ % kMostMicroseconds));
    }
    if (work.always || !failure_->happened()) {
      try {
        work.run();
      } catch (...) {
        failure_->Set(std::current_exception());
      }
    }
    lock.lock();
    queue_.pop();
    changed_.notify_all();
  }
}

void HostEvent::State::WaitFor(uint64_t recording) {
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return reached >= recording; });
}

void HostEvent::Record(HostStream& stream) {
  const uint64_t recording = ++recordings_;
  stream.EnqueueAlways([state = state_, recording] {
    {
      const std::lock_guard lock(state->mutex);
      state->reached = recording;
      state->time = Clock::now();
    }
    state->changed.notify_all();
  });
}

void HostEvent::Await(HostStream& stream) const {
  stream.Enqueue(
      [state = state_, recording = recordings_] { state->WaitFor(recording); });
}

void HostEvent::Synchronize() const {
  state_->WaitFor(recordings_);
}

HostEvent::Clock::time_point HostEvent::last_recording() const {
  const std::lock_guard lock(state_->mutex);
  return state_->time;
}

}  // namespace gpt
