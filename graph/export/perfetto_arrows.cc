// Who is on the other side of a communication.

#include "graph/export/perfetto_arrows.h"

#include <algorithm>

namespace vrank::graph {

std::vector<PerfettoProcess> ProcessesOf(const Timeline& timeline,
                                         const PerfettoOptions& options) {
  std::vector<PerfettoProcess> processes;
  const std::vector<PlayedRank>& played = timeline.ranks();
  if (options.ranks.empty()) {
    for (uint32_t i = 0; i < played.size(); ++i)
      processes.push_back({played[i].world_rank, played[i].ranks, i});
  }
  for (const int32_t rank : options.ranks) {
    const uint32_t colour = options.quotient->ColourOf(rank);
    const uint32_t place = options.quotient->representatives()[colour];
    processes.push_back(
        {rank, 1, timeline.PlaceOf(options.job->job.ranks[place].world_rank)});
  }
  std::sort(processes.begin(), processes.end(),
            [](const PerfettoProcess& a, const PerfettoProcess& b) {
              return a.world_rank < b.world_rank;
            });
  return processes;
}

PerfettoArrows::PerfettoArrows(const Timeline* timeline,
                               const std::vector<PerfettoProcess>* processes,
                               const PerfettoOptions* options)
    : timeline_(*timeline), processes_(*processes), options_(*options) {
  for (uint32_t i = 0; i < processes_.size(); ++i) {
    by_rank_[processes_[i].world_rank] = i;
    by_played_[processes_[i].played] = i;
  }
  for (uint32_t i = 0; i < processes_.size(); ++i)
    Find(i);
}

const std::vector<uint64_t>& PerfettoArrows::Of(const Ends& ends, Key key) {
  static const std::vector<uint64_t> none;
  const auto at = ends.find(key);
  return at == ends.end() ? none : at->second;
}

bool PerfettoArrows::BeginIsShown(const OpPlace& at) const {
  const OpTimes& times = timeline_.TimesAt(at);
  const PerfettoSpan span = SpanOf(options_, at.rank);
  return times.begin >= span.begin_ns && span.Shows(times.begin, times.end);
}

// Perfetto's flows run forwards in time, so an arrow begins where the earlier side
// begins.
void PerfettoArrows::Find(uint32_t process) {
  const uint32_t place = processes_[process].played;
  const PlayedRank& played = timeline_.ranks()[place];
  for (uint32_t i = 0; i < played.times.size(); ++i) {
    const OpKind kind = played.program->op(i).kind;
    const OpTimes& times = played.times[i];
    if ((kind != OpKind::kCollective && kind != OpKind::kTransfers) ||
        !BeginIsShown({place, i}))
      continue;
    const auto why = Explain(timeline_, {place, i});
    if (!why)
      continue;
    const OpTimes& other = timeline_.TimesAt(why->other);
    if (other.begin == times.begin || !BeginIsShown(why->other))
      continue;
    const auto partner = Partner(process, i, *why);
    if (!partner)
      continue;
    Key from{process, i}, to{*partner, why->other.op};
    if (other.begin < times.begin)
      std::swap(from, to);
    if (!joined_.emplace(from, to).second)
      continue;
    ++arrows_;
    from_[from].push_back(arrows_);
    to_[to].push_back(arrows_);
  }
}

std::optional<uint32_t> PerfettoArrows::Partner(uint32_t process, uint32_t op,
                                                const Communication& why) const {
  if (options_.ranks.empty())
    return by_played_.at(why.other.rank);
  const ResolvedJob& job = *options_.job;
  const uint32_t rank = job.place_of.at(processes_[process].world_rank);
  const Program& program = *job.job.ranks[rank].program;
  const Op& call = program.op(op);
  const CommunicatorInstance& instance = job.InstanceOf(rank, call.a);
  // Ranks of one class have the same times, so any of them is who is waited for.
  const auto shown = [&](uint32_t index) -> std::optional<uint32_t> {
    const auto found = by_rank_.find(job.job.ranks[instance.members[index]].world_rank);
    if (found == by_rank_.end() || processes_[found->second].played != why.other.rank ||
        instance.numbers[index] != timeline_.OpAt(why.other).a)
      return std::nullopt;
    return found->second;
  };
  const auto size = static_cast<uint32_t>(instance.members.size());
  std::optional<uint32_t> found;
  if (!why.is_transfer) {
    for (uint32_t index = 0; index < size && !found; ++index)
      found = shown(index);
    return found;
  }
  const uint32_t shift = job.PeerShift(rank, call.a);
  for (const Transfer& transfer : program.details().transfer_groups[call.b])
    if (!found && (transfer.is_send != 0) == why.is_send)
      found = shown(PeerIndex(transfer, shift, size));
  return found;
}

}  // namespace vrank::graph
