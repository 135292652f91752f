// Where the members of a host communicator meet.
//
// A collective is a rendezvous: all members show where their contribution lies, each
// computes its own result, and nobody goes on before all are done. A transfer is one,
// too: a send ends when the receiver has taken the data, so that a schedule which needs
// buffering gets stuck here. Whoever waits for a minute, or while a rank of the job has
// failed, throws.
//
// Thread rule: any thread; one operation per member at a time.

#ifndef EXAMPLES_GPT_TRAINER_DEVICE_HOST_HOST_GROUP_H_
#define EXAMPLES_GPT_TRAINER_DEVICE_HOST_HOST_GROUP_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "examples/gpt_trainer/device/host/host_failure.h"

namespace gpt {

class HostGroup {
 public:
  HostGroup(int size, std::string name, std::shared_ptr<HostFailure> failure);

  int size() const { return static_cast<int>(contributions_.size()); }
  const std::string& name() const { return name_; }
  // Of the job, the same for all its groups.
  const std::shared_ptr<HostFailure>& failure() const { return failure_; }

  // Calls compute(contributions of all members, by rank) and returns when all members
  // have done so.
  void Meet(int rank, const void* contribution,
            const std::function<void(const std::vector<const void*>&)>& compute);

  // One message; returns when it was taken.
  struct Message {
    int from;
    int to;
    const void* data;
    size_t bytes;
    bool taken = false;
  };
  void Post(Message* message);
  void Take(int from, int to, void* data, size_t bytes);
  void AwaitTaken(const Message& message);

  // The child of this number and color: the same object for all its members.
  std::shared_ptr<HostGroup> Child(int number, int color, int size, const char* name);

 private:
  void Wait(std::unique_lock<std::mutex>& lock, const char* what,
            const std::function<bool()>& done);
  // Counts an arrival. True: all have come, and are told.
  bool IsLast();
  void Arrive(std::unique_lock<std::mutex>& lock);
  void Leave(std::unique_lock<std::mutex>& lock);

  std::string name_;
  std::shared_ptr<HostFailure> failure_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<const void*> contributions_;
  int arrived_ = 0;
  uint64_t round_ = 0;
  std::map<std::pair<int, int>, std::deque<Message*>> mail_;  // by sender, receiver
  std::map<std::pair<int, int>, std::shared_ptr<HostGroup>> children_;
};

}  // namespace gpt

#endif  // EXAMPLES_GPT_TRAINER_DEVICE_HOST_HOST_GROUP_H_
