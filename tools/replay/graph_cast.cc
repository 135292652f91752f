#include "tools/replay/graph_cast.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "graph/build/slice_agreement.h"
#include "graph/membership/layout.h"
#include "graph/membership/leader.h"
#include "tools/job/hint_collector.h"
#include "tools/replay/graph_replay.h"

namespace vrank::tools {

graph::Seats SeatsIn(const emulator::World& world, int32_t rank) {
  graph::Seats seats;
  const auto served = world.communicators().find(rank);
  if (served == world.communicators().end())
    return seats;
  for (const auto& [number, communicator] : served->second) {
    const auto& members = communicator.members;
    const auto own = std::find(members.begin(), members.end(), rank);
    seats[number] = {static_cast<uint32_t>(own - members.begin()),
                     static_cast<uint32_t>(members.size())};
  }
  return seats;
}

absl::StatusOr<GraphCast> GraphCast::Make(const graph::ExecutionGraph& graph) {
  ASSIGN_OR_RETURN(const auto membership, MembershipOf(graph));
  ASSIGN_OR_RETURN(graph::ResolvedJob job,
                   graph::ResolveCommunicators(graph::JobOf(graph), membership.get()));
  return GraphCast(&graph, std::move(job));
}

const graph::Program& GraphCast::ProgramOf(int32_t traced) const {
  return *graph_->programs[graph_->ranks[static_cast<size_t>(traced)].program];
}

graph::Seats GraphCast::SeatsOf(int32_t traced) const {
  graph::Seats seats;
  for (const auto& [number, binding] : job_.bindings[job_.place_of.at(traced)])
    seats[number] = {
        binding.index,
        static_cast<uint32_t>(job_.instances[binding.instance].members.size())};
  return seats;
}

const std::string& GraphCast::DifferenceBetween(int32_t a, int32_t b) const {
  const auto [known, is_new] = differences_.try_emplace({a, b});
  if (is_new && a != b) {
    const graph::Seats seats_of_a = SeatsOf(a), seats_of_b = SeatsOf(b);
    const std::string name_of_a = fmt::format("rank {}", a),
                      name_of_b = fmt::format("rank {}", b);
    known->second = graph::FirstDifference(
        ProgramOf(a), ProgramOf(b),
        Comparison(seats_of_a, name_of_a, seats_of_b, name_of_b));
  }
  return known->second;
}

graph::ProgramComparison GraphCast::Comparison(const graph::Seats& seats_of_a,
                                               std::string_view name_of_a,
                                               const graph::Seats& seats_of_b,
                                               std::string_view name_of_b) const {
  // No two measurements are equal, on a real GPU or of host time.
  return {.host_times = graph_->virtual_gpu,
          .work_times = graph_->virtual_gpu,
          .answered_queries = false,
          .measured_host_times = false,
          .a_seats = &seats_of_a,
          .b_seats = &seats_of_b,
          .a_name = name_of_a,
          .b_name = name_of_b};
}

std::string GraphCast::DifferenceOf(int32_t rank, const graph::Program& did,
                                    const graph::Seats& seats) const {
  const int32_t traced = TracedFor(rank);
  const std::string first = graph::FirstDifference(
      did, ProgramOf(traced),
      Comparison(seats, "the run", SeatsOf(traced), "the graph"));
  if (first.empty())
    return first;
  const std::string sums = graph::DescribeDifference(
      graph::TotalsOf(did), graph::TotalsOf(ProgramOf(traced)));
  return fmt::format("{}{}{}", sums, sums.empty() ? "" : "; ", first);
}

bool GraphCast::EveryRankWasTraced(uint32_t rank_class) const {
  const std::vector<int32_t>& ranks = graph_->classes[rank_class].ranks;
  return std::all_of(ranks.begin(), ranks.end(),
                     [&](int32_t rank) { return TracedFor(rank) == rank; });
}

bool GraphCast::MayFollow(int32_t rank, int32_t real, bool same_program) const {
  const uint32_t rank_class = graph_->ranks[static_cast<size_t>(rank)].rank_class;
  if (graph_->ranks[static_cast<size_t>(real)].rank_class != rank_class)
    return false;
  const int32_t a = TracedFor(rank), b = TracedFor(real);
  if (same_program)
    return DifferenceBetween(a, b).empty();
  return !EveryRankWasTraced(rank_class) ||
         graph::CommunicationDifference(ProgramOf(a), ProgramOf(b)).empty();
}

std::vector<emulator::VirtualRank> GraphCast::Cast(std::span<const int32_t> real,
                                                   bool same_program) const {
  using Part = emulator::VirtualRank::Part;
  std::vector<int32_t> leaders(real.begin(), real.end());
  std::sort(leaders.begin(), leaders.end(), graph::LeadsBefore);
  const std::set<int32_t> is_real(real.begin(), real.end());
  std::vector<emulator::VirtualRank> cast;
  for (int32_t rank = 0; rank < graph_->world_size; ++rank) {
    if (is_real.contains(rank))
      continue;
    const auto leader = std::find_if(
        leaders.begin(), leaders.end(),
        [&](int32_t candidate) { return MayFollow(rank, candidate, same_program); });
    const int32_t traced = TracedFor(rank);
    const uint32_t program = graph_->ranks[static_cast<size_t>(rank)].program;
    if (leader != leaders.end())
      cast.push_back({rank, Part::kFollower, *leader, nullptr});
    else
      cast.push_back({rank, Part::kRecorded, traced == rank ? -1 : traced,
                      graph_->programs[program].get()});
  }
  return cast;
}

std::vector<GraphCast::Misfit> GraphCast::Misfits(
    std::span<const emulator::VirtualRank> cast) const {
  std::vector<Misfit> misfits;
  for (const emulator::VirtualRank& one : cast) {
    if (one.part != emulator::VirtualRank::Part::kFollower ||
        TracedFor(one.rank) != one.rank)
      continue;
    const int32_t traced = TracedFor(one.leader);
    const std::string& first = DifferenceBetween(one.rank, traced);
    if (first.empty())
      continue;
    const std::string sums = graph::DescribeDifference(
        graph::TotalsOf(ProgramOf(one.rank)), graph::TotalsOf(ProgramOf(traced)));
    misfits.push_back({one.rank, one.leader,
                       fmt::format("{}{}{}", sums, sums.empty() ? "" : "; ", first)});
  }
  return misfits;
}

absl::StatusOr<std::vector<graph::GroupHint>> GraphCast::Hints() const {
  ASSIGN_OR_RETURN(const graph::Layout layout,
                   graph::Layout::Parse(graph_->layout, graph_->world_size));
  HintCollector collector(layout);
  for (const int32_t rank : TracedRanks(*graph_)) {
    graph::SeenRank seen;
    seen.program = &ProgramOf(rank);
    seen.end = seen.program->size();
    for (const auto& [number, binding] : job_.bindings[job_.place_of.at(rank)])
      for (const uint32_t member : job_.instances[binding.instance].members)
        seen.communicators[number].members.push_back(job_.job.ranks[member].world_rank);
    collector.AddRank(rank, seen);
  }
  return collector.Hints();
}

}  // namespace vrank::tools
