// A rank that fails while others run, where the job goes on without it
// (SessionOptions::survive_failures, docs/decisions/0026-lost-ranks.md).
//
// Its last records are read first: what it had called by then, it had called. Then the
// world is told, and by it the members of its communicators. Whether the others can go
// on is up to them: where all wait for the lost rank, the job is stuck.

#include <algorithm>

#include <fmt/format.h>

#include "base/rank_list.h"
#include "base/status_macros.h"
#include "emulator/session/rank_exit.h"
#include "emulator/session/session.h"

namespace vrank::emulator {

bool Session::IsLost(int32_t rank) const {
  return std::find(lost_.begin(), lost_.end(), rank) != lost_.end();
}

bool Session::Survives(int32_t rank) {
  if (IsLost(rank))
    return true;
  const auto follows = [rank](const VirtualRank& other) {
    return other.part == VirtualRank::Part::kFollower && other.leader == rank;
  };
  const auto runs = [this](int32_t other) { return exits_.count(other) == 0; };
  if (!options_.survive_failures || came_.count(rank) == 0 ||
      std::any_of(options_.virtual_ranks.begin(), options_.virtual_ranks.end(),
                  follows) ||
      std::none_of(options_.real_ranks.begin(), options_.real_ranks.end(), runs))
    return false;
  lost_.push_back(rank);
  if (options_.on_note)
    options_.on_note(
        fmt::format("rank {} {}; the others go on without it (--survive-failures)",
                    rank, DescribeExit(exits_.at(rank))));
  return true;
}

absl::StatusOr<bool> Session::LoseClosedRanks() {
  bool any = false;
  for (; taken_out_ < lost_.size(); ++taken_out_) {
    const RealRank* const rank = RankOf(lost_[taken_out_]);
    if (!rank->closed())
      break;
    RETURN_IF_ERROR(world_->LoseRank(*rank, DescribeExit(exits_.at(rank->rank()))));
    any = true;
  }
  return any;
}

std::string Session::LostBefore(int32_t rank) const {
  std::string text;
  std::vector<int32_t> followers;
  for (const VirtualRank& other : options_.virtual_ranks)
    if (other.part == VirtualRank::Part::kFollower && other.leader == rank)
      followers.push_back(other.rank);
  if (options_.survive_failures && !followers.empty())
    text = fmt::format(
        ", and virtual ranks ({}) follow it, so that the job cannot go on without it: "
        "make the ranks that follow it real (--real)",
        FormatRanks(followers));
  for (const int32_t lost : lost_)
    text += fmt::format(", after rank {} {}", lost, DescribeExit(exits_.at(lost)));
  return text;
}

}  // namespace vrank::emulator
