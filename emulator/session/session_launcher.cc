// Real ranks that a launcher starts, or does not.

#include <chrono>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/rank_list.h"
#include "emulator/session/rank_exit.h"
#include "emulator/session/session.h"

namespace vrank::emulator {
namespace {

// Launchers of several machines wait for each other.
constexpr char kWayOut[] =
    "let it start the real ranks, all on this machine, and no others "
    "(--nproc-per-node, -n), or leave it out: without it vrank starts the program once "
    "per real rank";
constexpr char kWhyUnseen[] =
    "is the program linked statically, or started with a cleared environment?";

std::string RanksText(const std::vector<int32_t>& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", FormatRanks(ranks));
}

}  // namespace

std::vector<int32_t> Session::NotStarted() const {
  std::vector<int32_t> ranks;
  for (const int32_t rank : options_.real_ranks)
    if (!options_.launch.launcher.empty() && came_.count(rank) == 0)
      ranks.push_back(rank);
  return ranks;
}

absl::Status Session::NotStartedError(const std::vector<int32_t>& ranks) const {
  return absl::DeadlineExceededError(fmt::format(
      "the launcher '{}' has not started {}, and nothing has used the CPU for {} s; "
      "{}; --hang-after SECONDS changes the limit, 0 switches it off{}",
      options_.launch.launcher,
      ranks.size() == options_.real_ranks.size() ? "any rank" : RanksText(ranks),
      std::chrono::duration<double>(options_.hang_after).count(), kWayOut,
      MeanwhileOrRefused()));
}

absl::Status Session::NeverCameError(int32_t rank) const {
  if (options_.launch.launcher.empty())
    return absl::FailedPreconditionError(
        fmt::format("rank {} exited with 0 without loading vrank's libraries; {}", rank,
                    kWhyUnseen));
  const std::vector<int32_t> missing = NotStarted();
  std::string unseen = "its ranks were";
  if (missing.size() != options_.real_ranks.size())
    unseen = RanksText(missing) + (missing.size() == 1 ? " was" : " were");
  return absl::FailedPreconditionError(fmt::format(
      "the launcher '{}' has ended, but {} not started, or without vrank's libraries; "
      "{}; {}",
      options_.launch.launcher, unseen, kWayOut, kWhyUnseen));
}

absl::Status Session::RefusedError(const GuestEvent& event) const {
  if (!options_.launch.launcher.empty() &&
      RealSet().count(static_cast<int32_t>(event.rank)) == 0)
    return absl::FailedPreconditionError(fmt::format(
        "the launcher '{}' has started rank {}, which is not real here (real: {}); {}",
        options_.launch.launcher, event.rank, FormatRanks(options_.real_ranks),
        kWayOut));
  return absl::FailedPreconditionError(fmt::format(
      "rank {}: process {} was refused: {}", event.rank, event.pid, event.text));
}

}  // namespace vrank::emulator
