// How a job on the host ends before its time: with the first failure of any rank.
//
// A rank that fails leaves the others waiting for it. Each wait looks here now and
// then, and ends where another rank has failed, so that all of them end at once and the
// one message that is shown is that of the rank that failed first.
//
// Thread rule: any thread.

#ifndef EXAMPLES_GPT_TRAINER_DEVICE_HOST_HOST_FAILURE_H_
#define EXAMPLES_GPT_TRAINER_DEVICE_HOST_HOST_FAILURE_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <utility>

namespace gpt {

// Thrown where a rank does not go on because another one has failed.
class JobEnded : public std::runtime_error {
 public:
  JobEnded() : std::runtime_error("another rank has failed") {}
};

class HostFailure {
 public:
  // Keeps the first.
  void Set(std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    if (first_ == nullptr) {
      first_ = std::move(error);
      happened_ = true;
    }
  }
  bool happened() const { return happened_; }
  void ThrowIfHappened() const {
    if (happened_) {
      throw JobEnded();
    }
  }
  // The first failure, thrown again; nothing where there was none.
  void Rethrow() const {
    const std::lock_guard lock(mutex_);
    if (first_ != nullptr) {
      std::rethrow_exception(first_);
    }
  }

  // Waits until `done`, or throws JobEnded. False: `patience` is over.
  // REQUIRES: `lock` is held, and guards what `done` reads.
  template <typename Done>
  bool Wait(std::unique_lock<std::mutex>& lock, std::condition_variable& changed,
            std::chrono::milliseconds patience, Done done) const {
    constexpr std::chrono::milliseconds kLook{20};
    const auto give_up = std::chrono::steady_clock::now() + patience;
    while (!done()) {
      ThrowIfHappened();
      if (std::chrono::steady_clock::now() >= give_up) {
        return false;
      }
      changed.wait_for(lock, kLook);
    }
    return true;
  }

 private:
  mutable std::mutex mutex_;
  std::exception_ptr first_;
  std::atomic<bool> happened_{false};
};

}  // namespace gpt

#endif  // EXAMPLES_GPT_TRAINER_DEVICE_HOST_HOST_FAILURE_H_
