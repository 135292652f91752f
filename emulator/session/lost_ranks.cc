#include "emulator/session/lost_ranks.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/rank_list.h"
#include "base/status_macros.h"
#include "emulator/session/rank_exit.h"
#include "emulator/session/rank_waits.h"

namespace vrank::emulator {

bool LostRanks::Contains(int32_t rank) const {
  return std::find(ranks_.begin(), ranks_.end(), rank) != ranks_.end();
}

std::vector<int32_t> LostRanks::FollowersOf(int32_t rank) const {
  std::vector<int32_t> followers;
  for (const VirtualRank& other : virtual_ranks_)
    if (other.part == VirtualRank::Part::kFollower && other.leader == rank)
      followers.push_back(other.rank);
  return followers;
}

bool LostRanks::Add(int32_t rank) {
  const std::vector<int32_t>& real = processes_->real_ranks();
  const auto runs = [this](int32_t other) { return !processes_->has_exited(other); };
  if (!survive_failures_ || !processes_->has_connected(rank) ||
      !FollowersOf(rank).empty() || std::none_of(real.begin(), real.end(), runs))
    return false;
  ranks_.push_back(rank);
  return true;
}

absl::StatusOr<bool> LostRanks::TakeOut(World* world) {
  bool any = false;
  for (; taken_out_ < ranks_.size(); ++taken_out_) {
    const RealRank& rank = RealRankOf(*world, ranks_[taken_out_]);
    if (!rank.closed())
      break;
    RETURN_IF_ERROR(
        world->LoseRank(rank, DescribeExit(processes_->exits().at(rank.rank()))));
    any = true;
  }
  return any;
}

std::string LostRanks::DescribeBefore(int32_t rank) const {
  std::string text;
  const std::vector<int32_t> followers = FollowersOf(rank);
  if (survive_failures_ && !followers.empty())
    text = fmt::format(
        ", and virtual ranks ({}) follow it, so that the job cannot go on without it: "
        "make the ranks that follow it real (--real)",
        FormatRanks(followers));
  for (const int32_t lost : ranks_)
    text += fmt::format(", after rank {} {}", lost,
                        DescribeExit(processes_->exits().at(lost)));
  return text;
}

}  // namespace vrank::emulator
