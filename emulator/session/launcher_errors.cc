#include "emulator/session/launcher_errors.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "base/rank_list.h"

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

std::string DescribeNotStarted(const LaunchOptions& launch,
                               const RankProcesses& processes,
                               std::chrono::milliseconds hang_after) {
  const std::vector<int32_t> missing = processes.NotStarted();
  return fmt::format(
      "the launcher '{}' has not started {}, and nothing has used the CPU for {} s; "
      "{}; --hang-after SECONDS changes the limit, 0 switches it off",
      launch.launcher,
      missing.size() == processes.real_ranks().size() ? "any rank" : RanksText(missing),
      std::chrono::duration<double>(hang_after).count(), kWayOut);
}

absl::Status NeverConnectedError(const LaunchOptions& launch,
                                 const RankProcesses& processes, int32_t rank) {
  if (launch.launcher.empty())
    return absl::FailedPreconditionError(
        fmt::format("rank {} exited with 0 without loading vrank's libraries; {}", rank,
                    kWhyUnseen));
  const std::vector<int32_t> missing = processes.NotStarted();
  std::string unseen = "its ranks were";
  if (missing.size() != processes.real_ranks().size())
    unseen = RanksText(missing) + (missing.size() == 1 ? " was" : " were");
  return absl::FailedPreconditionError(fmt::format(
      "the launcher '{}' has ended, but {} not started, or without vrank's libraries; "
      "{}; {}",
      launch.launcher, unseen, kWayOut, kWhyUnseen));
}

absl::Status RefusedError(const LaunchOptions& launch, const RankProcesses& processes,
                          const GuestEvent& event) {
  const std::vector<int32_t>& real = processes.real_ranks();
  if (!launch.launcher.empty() &&
      std::find(real.begin(), real.end(), static_cast<int32_t>(event.rank)) ==
          real.end())
    return absl::FailedPreconditionError(fmt::format(
        "the launcher '{}' has started rank {}, which is not real here (real: {}); {}",
        launch.launcher, event.rank, FormatRanks(real), kWayOut));
  return absl::FailedPreconditionError(fmt::format(
      "rank {}: process {} was refused: {}", event.rank, event.pid, event.text));
}

}  // namespace vrank::emulator
