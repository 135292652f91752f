// Passes what one rank's timeline says to several observers, in the order in which they
// were added.
//
// Thread rule: one thread (the session's).

#ifndef VRANK_EMULATOR_WORLD_TIMELINE_FAN_OUT_H_
#define VRANK_EMULATOR_WORLD_TIMELINE_FAN_OUT_H_

#include <vector>

#include "graph/replay/timeline_observer.h"

namespace vrank::emulator {

class TimelineFanOut final : public graph::TimelineObserver {
 public:
  void Add(graph::TimelineObserver* observer) { observers_.push_back(observer); }

  void OnOpPassed(int32_t rank, uint64_t op, const graph::Stamp& reached,
                  const graph::Stamp& passed) override {
    for (graph::TimelineObserver* observer : observers_)
      observer->OnOpPassed(rank, op, reached, passed);
  }
  void OnOpEnded(int32_t rank, uint64_t op, const graph::Stamp& begin,
                 const graph::Stamp& end) override {
    for (graph::TimelineObserver* observer : observers_)
      observer->OnOpEnded(rank, op, begin, end);
  }

 private:
  std::vector<graph::TimelineObserver*> observers_;
};

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_WORLD_TIMELINE_FAN_OUT_H_
