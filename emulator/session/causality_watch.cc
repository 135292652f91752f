#include "emulator/session/causality_watch.h"

#include <fmt/format.h>

namespace vrank::emulator {

absl::Status CausalityWatch::Check(const World& world) const {
  for (const auto& [rank, asked_ns] : asked_ns_) {
    if (world.engine().result(rank).divergences == 0)
      continue;
    return absl::FailedPreconditionError(fmt::format(
        "causality violation: rank {} asked whether its work had ended, last at {:.6f} "
        "s, and was told \"not yet\" because another rank sat in something that vrank "
        "does not see (a pipe, a socket, a lock); that rank's work then showed that it "
        "had ended, so the result would depend on real time. Let rank {} wait for its "
        "work (cudaEventSynchronize) before it lets the other one go on, instead of "
        "polling",
        rank, static_cast<double>(asked_ns) * 1e-9, rank));
  }
  return absl::OkStatus();
}

}  // namespace vrank::emulator
