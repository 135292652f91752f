// Reports the progress of a job, a few times a second.
//
// Thread rule: one thread (the session's).

#ifndef VRANK_EMULATOR_SESSION_PROGRESS_REPORTER_H_
#define VRANK_EMULATOR_SESSION_PROGRESS_REPORTER_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

#include "emulator/world/world.h"

namespace vrank::emulator {

struct Progress {
  size_t real_ranks = 0;
  size_t connected = 0;    // real ranks that have started to issue work
  size_t ended = 0;        // real ranks whose program is over
  size_t iterations = 0;   // completed by all real ranks
  uint64_t ops = 0;        // executed, over all ranks
  int64_t virtual_ns = 0;  // the furthest host clock of a real rank
};

class ProgressReporter {
 public:
  // `world` outlives it. Without `on_progress` nothing is reported.
  ProgressReporter(const World* world, std::function<void(const Progress&)> on_progress)
      : world_(world), on_progress_(std::move(on_progress)) {}

  // Unless the last report is recent.
  void ReportIfDue();
  void Report();

 private:
  const World* const world_;
  const std::function<void(const Progress&)> on_progress_;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_SESSION_PROGRESS_REPORTER_H_
