// Real ranks that a launcher starts, or does not.

#include <vector>

#include <fmt/format.h>

#include "base/rank_list.h"
#include "emulator/session/rank_exit.h"
#include "emulator/session/session.h"

namespace vrank::emulator {
namespace {

// Launchers of several machines wait for each other.
constexpr char kWayOut[] =
    "let it start all real ranks on this machine (--nproc-per-node, -n), or leave it "
    "out: "
    "without it vrank starts the program once per real rank";

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
      "{}; "
      "--hang-after SECONDS changes the limit, 0 switches it off{}",
      options_.launch.launcher,
      ranks.size() == options_.real_ranks.size() ? "any rank" : RanksText(ranks),
      std::chrono::duration<double>(options_.hang_after).count(), kWayOut,
      Meanwhile()));
}

absl::Status Session::NeverCameError(int32_t rank) const {
  constexpr char kWhyUnseen[] =
      "is the program linked statically, or started with a cleared environment?";
  if (options_.launch.launcher.empty())
    return absl::FailedPreconditionError(
        fmt::format("rank {} exited with 0 without loading vrank's libraries; {}", rank,
                    kWhyUnseen));
  const std::vector<int32_t> missing = NotStarted();
  return absl::FailedPreconditionError(
      fmt::format("the launcher '{}' has ended, but {} not started, or without vrank's "
                  "libraries; {}; "
                  "{}",
                  options_.launch.launcher,
                  missing.size() == options_.real_ranks.size()
                      ? "its ranks were"
                      : RanksText(missing) + (missing.size() == 1 ? " was" : " were"),
                  kWayOut, kWhyUnseen));
}

absl::Status Session::RefusedError(const GuestEvent& event) const {
  if (!options_.launch.launcher.empty() &&
      RealSet().count(static_cast<int32_t>(event.rank)) == 0)
    return absl::FailedPreconditionError(fmt::format(
        "the launcher '{}' has started rank {}, which is not real here (real: {}); "
        "name "
        "with --real what it starts, or leave the launcher out: without it vrank "
        "starts "
        "the program once per real rank",
        options_.launch.launcher, event.rank, FormatRanks(options_.real_ranks)));
  return absl::FailedPreconditionError(fmt::format(
      "rank {}: process {} was refused: {}", event.rank, event.pid, event.text));
}

}  // namespace vrank::emulator
