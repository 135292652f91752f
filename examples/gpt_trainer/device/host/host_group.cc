// One mutex per group: tests have eight ranks, not a thousand.

#include "examples/gpt_trainer/device/host/host_group.h"

#include <chrono>
#include <cstring>

#include "examples/gpt_trainer/device/checks.h"

namespace gpt {

HostGroup::HostGroup(int size, std::string name)
    : name_(std::move(name)), contributions_(size) {}

void HostGroup::Wait(std::unique_lock<std::mutex>& lock, const char* what,
                     const std::function<bool()>& done) {
  constexpr std::chrono::minutes kPatience{1};
  if (!changed_.wait_for(lock, kPatience, done)) {
    Fail(__FILE__, __LINE__, (what + (" of " + name_)).c_str(),
         "a member has not come for a minute");
  }
}

void HostGroup::Arrive(std::unique_lock<std::mutex>& lock) {
  const uint64_t round = round_;
  if (++arrived_ == size()) {
    arrived_ = 0;
    ++round_;
    changed_.notify_all();
    return;
  }
  Wait(lock, "collective", [&] { return round_ != round; });
}

void HostGroup::Meet(
    int rank, const void* contribution,
    const std::function<void(const std::vector<const void*>&)>& compute) {
  std::unique_lock lock(mutex_);
  contributions_[rank] = contribution;
  Arrive(lock);
  const std::vector<const void*> contributions = contributions_;
  lock.unlock();
  compute(contributions);
  lock.lock();
  Arrive(lock);
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
    child = std::make_shared<HostGroup>(size, name);
  }
  return child;
}

}  // namespace gpt
