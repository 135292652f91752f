// One mutex per group: tests have eight ranks, not a thousand.

#include "examples/gpt_trainer/device/host/host_group.h"

#include <chrono>
#include <cstring>
#include <exception>
#include <stdexcept>

#include "examples/gpt_trainer/device/checks.h"

namespace gpt {

HostGroup::HostGroup(int size, std::string name, std::shared_ptr<HostFailure> failure)
    : name_(std::move(name)), failure_(std::move(failure)), contributions_(size) {}

void HostGroup::Wait(std::unique_lock<std::mutex>& lock, const char* what,
                     const std::function<bool()>& done) {
  constexpr std::chrono::minutes kPatience{1};
  if (!failure_->Wait(lock, changed_, kPatience, done)) {
    throw std::runtime_error(std::string(what) + " of group '" + name_ +
                             "': a member has not come for a minute");
  }
}

bool HostGroup::IsLast() {
  if (++arrived_ != size()) {
    return false;
  }
  arrived_ = 0;
  ++round_;
  changed_.notify_all();
  return true;
}

void HostGroup::Arrive(std::unique_lock<std::mutex>& lock) {
  const uint64_t round = round_;
  if (!IsLast()) {
    Wait(lock, "collective", [&] { return round_ != round; });
  }
}

// All have come and do nothing but compute: even where the job has failed, nobody goes
// before all are done, since others read what it showed.
void HostGroup::Leave(std::unique_lock<std::mutex>& lock) {
  const uint64_t round = round_;
  if (!IsLast()) {
    changed_.wait(lock, [&] { return round_ != round; });
  }
}

void HostGroup::Meet(
    int rank, const void* contribution,
    const std::function<void(const std::vector<const void*>&)>& compute) {
  std::unique_lock lock(mutex_);
  // A member that was waiting here may have left, and what it showed with it.
  failure_->ThrowIfHappened();
  contributions_[rank] = contribution;
  Arrive(lock);
  const std::vector<const void*> contributions = contributions_;
  lock.unlock();
  std::exception_ptr error;  // the others read what this member showed
  try {
    compute(contributions);
  } catch (...) {
    error = std::current_exception();
  }
  lock.lock();
  Leave(lock);
  if (error != nullptr) {
    std::rethrow_exception(error);
  }
}

void HostGroup::Post(Message* message) {
  const std::lock_guard lock(mutex_);
  mail_[{message->from, message->to}].push_back(message);
  changed_.notify_all();
}

void HostGroup::Take(int from, int to, void* data, size_t bytes) {
  std::unique_lock lock(mutex_);
  std::deque<Message*>& box = mail_[{from, to}];
  Wait(lock, "receive", [&] { return !box.empty(); });
  failure_->ThrowIfHappened();  // the sender may have left, and its message with it
  Message* message = box.front();
  box.pop_front();
  GPT_CHECK(message->bytes == bytes);
  std::memcpy(data, message->data, bytes);
  message->taken = true;
  changed_.notify_all();
}

void HostGroup::AwaitTaken(const Message& message) {
  std::unique_lock lock(mutex_);
  Wait(lock, "send", [&] { return message.taken; });
}

std::shared_ptr<HostGroup> HostGroup::Child(int number, int color, int size,
                                            const char* name) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<HostGroup>& child = children_[{number, color}];
  if (child == nullptr) {
    child = std::make_shared<HostGroup>(size, name, failure_);
  }
  return child;
}

}  // namespace gpt
