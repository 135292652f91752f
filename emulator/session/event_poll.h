// The descriptors on which the session waits for events.
//
// Thread rule: one thread (the session's).

#ifndef VRANK_EMULATOR_SESSION_EVENT_POLL_H_
#define VRANK_EMULATOR_SESSION_EVENT_POLL_H_

#include <chrono>
#include <vector>

#include <absl/status/status.h>

namespace vrank::emulator {

class EventPoll {
 public:
  EventPoll();
  ~EventPoll();
  EventPoll(const EventPoll&) = delete;
  EventPoll& operator=(const EventPoll&) = delete;

  absl::Status Add(int fd);
  // Readable descriptors, in the order of their events. Waits for the first one, at
  // most `limit`.
  std::vector<int> Wait(std::chrono::milliseconds limit);
  // Whether a descriptor is readable.
  bool AnyReadable() const;

 private:
  const int epoll_;
};

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_SESSION_EVENT_POLL_H_
