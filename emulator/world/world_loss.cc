// A real rank is lost while the job goes on (emulator/session/lost_ranks.h).
//
// The engine needs little for it: who waits for the rank waits, until somebody aborts.
// What changes is what the other members are told of their communicators, and that
// bytes which the rank did not contribute are not waited for.

#include <algorithm>

#include <fmt/format.h>

#include "emulator/world/world.h"

namespace vrank::emulator {

void World::NoteBroken(int32_t rank, uint32_t number, const Place& place) {
  RealRank* const told = Find(rank);
  if (told == nullptr || lost_.count(rank) != 0)
    return;
  const std::vector<int32_t>& members = place.group->members;
  const auto gone =
      std::find_if(members.begin(), members.end(),
                   [this](int32_t member) { return lost_.count(member) != 0; });
  if (gone == members.end())
    return;
  // What it has called until then; nothing where it has released the communicator.
  uint64_t calls = 0;
  for (const auto& [key, other] : places_)
    if (key.first == *gone && other.group == place.group)
      calls = other.calls;
  const std::string reason =
      fmt::format("rank {} {} before collective #{} of communicator '{}'", *gone,
                  lost_.at(*gone), calls, place.group->identity);
  if (!told->link().Break(number, reason))
    untold_ = absl::UnimplementedError(fmt::format(
        "rank {} has more than {} communicators with lost members, more than vrank "
        "tells it of",
        rank, protocol::kMaxBrokenCommunicators));
}

absl::Status World::LoseRank(const RealRank& rank, const std::string& how) {
  const int32_t number = rank.rank();
  lost_[number] = how;
  engine_->LoseRank(number);
  payloads_->LoseRank(number);
  for (const auto& [key, place] : places_) {
    const std::vector<int32_t>& members = place.group->members;
    if (std::find(members.begin(), members.end(), number) != members.end())
      NoteBroken(key.first, key.second, place);
  }
  return untold_;
}

}  // namespace vrank::emulator
