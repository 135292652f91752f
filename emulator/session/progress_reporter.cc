#include "emulator/session/progress_reporter.h"

#include <algorithm>

#include "schedule/policy.h"

namespace vrank::emulator {

void ProgressReporter::ReportIfDue() {
  if (std::chrono::steady_clock::now() - last_ >=
      schedule::Milliseconds(schedule::kProgress))
    Report();
}

void ProgressReporter::Report() {
  if (!on_progress_)
    return;
  last_ = std::chrono::steady_clock::now();
  Progress progress;
  progress.real_ranks = world_->real().size();
  progress.iterations = world_->results().CompletedIterations();
  progress.ops = world_->engine().ops();
  for (const auto& rank : world_->real()) {
    // A rank that never used its GPU has no owner.
    progress.connected += rank->closed() || rank->link().owner_pid() != 0 ? 1 : 0;
    progress.ended += rank->closed() ? 1 : 0;
    progress.virtual_ns =
        std::max(progress.virtual_ns, world_->engine().result(rank->rank()).end.ns);
  }
  on_progress_(progress);
}

}  // namespace vrank::emulator
