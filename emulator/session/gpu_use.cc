#include "emulator/session/gpu_use.h"

#include <algorithm>

#include <fmt/format.h>

namespace vrank::emulator {
namespace {

constexpr char kNoWork[] = "(no kernel, no copy, no communicator)";

std::string NoResult(size_t ranks) {
  return fmt::format(
      "{} ended without giving {} any work {}, so there is no result. Where the "
      "program only asks about the GPU, that is all; if it should have worked, does it "
      "start another program that is linked statically or gets a cleared environment?",
      ranks == 1 ? "the real rank has" : "all real ranks have",
      ranks == 1 ? "its GPU" : "their GPUs", kNoWork);
}

}  // namespace

bool GpuUse::AnyWorked() const {
  const auto& real = world_->real();
  return std::any_of(real.begin(), real.end(), [this](const auto& rank) {
    return world_->engine().result(rank->rank()).ops != 0;
  });
}

void GpuUse::Closing(const RealRank& rank) {
  if (rank.link().owner_pid() == 0)
    unused_.push_back(rank.rank());
  // Before that, all ranks may turn out to be idle, which is an error instead.
  if (AnyWorked())
    NoteUnused();
}

absl::Status GpuUse::CheckResult() {
  const size_t ranks = world_->real().size();
  if (ranks == 0 || AnyWorked())
    return absl::OkStatus();
  unused_.clear();
  return absl::FailedPreconditionError(NoResult(ranks));
}

void GpuUse::NoteUnused() {
  for (const int32_t rank : unused_)
    on_note_(fmt::format(
        "rank {} has ended without giving its GPU any work {}, as a program that only "
        "asks about the GPU does",
        rank, kNoWork));
  unused_.clear();
}

}  // namespace vrank::emulator
