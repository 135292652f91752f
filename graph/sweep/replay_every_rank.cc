// See replay_every_rank.h.

#include "graph/sweep/replay_every_rank.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "graph/fold/replay.h"
#include "graph/fold/view.h"
#include "graph/replay/silent_observer.h"

namespace vrank::graph {
namespace {

// What the sweep adds up, from what the engine tells.
class Activities : public TimelineObserver {
 public:
  Activities(const ResolvedJob* job, const NetworkModel* network,
             const SweepOptions* options, EveryRank* every)
      : job_(job), network_(network), options_(options), every_(every) {}

  void OnOpPassed(int32_t rank, uint64_t op, const Stamp& reached,
                  const Stamp&) override {
    const uint32_t place = job_->place_of.at(rank);
    const Op& range = OpAt(place, op);
    if (range.kind != OpKind::kRangeBegin && range.kind != OpKind::kRangeEnd)
      return;
    const Details& details = job_->job.ranks[place].program->details();
    if (options_->observe && options_->observe(details.names[range.a]))
      every_->marks[place].push_back({static_cast<uint32_t>(op), reached});
  }

  void OnOpEnded(int32_t rank, uint64_t index, const Stamp& begin,
                 const Stamp& end) override {
    const uint32_t place = job_->place_of.at(rank);
    const Op& op = OpAt(place, index);
    RankActivity& activity = every_->activities[place];
    const int64_t ns = end.ns - begin.ns;
    if (op.kind == OpKind::kWork || op.kind == OpKind::kHostFunc) {
      activity.busy_ns += ns;
    } else if (op.kind == OpKind::kCollective || op.kind == OpKind::kTransfers) {
      activity.communication_ns += ns;
      activity.communication_waited_ns += ns - CostOf(place, op);
    }
  }

 private:
  const Op& OpAt(uint32_t place, uint64_t op) const {
    return job_->job.ranks[place].program->op(op);
  }

  int64_t CostOf(uint32_t place, const Op& op) {
    const auto [at, added] = costs_.try_emplace({place, op.kind, op.a, op.b});
    if (added)
      at->second = AskCost(place, op);
    return at->second;
  }
  int64_t AskCost(uint32_t place, const Op& op) const {
    const Details& details = job_->job.ranks[place].program->details();
    const CommunicatorInstance& instance = job_->InstanceOf(place, op.a);
    const auto world_rank = [this](uint32_t of) {
      return job_->job.ranks[of].world_rank;
    };
    if (op.kind == OpKind::kCollective) {
      std::vector<int32_t> ranks;
      for (const uint32_t member : instance.members)
        ranks.push_back(world_rank(member));
      return network_->Collective(details.collectives[op.b], ranks)
          .duration.nanoseconds();
    }
    int64_t dearest = 0;
    for (const Transfer& transfer : details.transfer_groups[op.b]) {
      const int32_t own = world_rank(place);
      const int32_t peer =
          world_rank(instance.members[PeerOf(*job_, place, op.a, transfer)]);
      const Cost cost = transfer.is_send != 0
                            ? network_->Transfer(transfer.bytes, own, peer)
                            : network_->Transfer(transfer.bytes, peer, own);
      dearest = std::max(dearest, cost.duration.nanoseconds());
    }
    return dearest;
  }

  const ResolvedJob* job_;
  const NetworkModel* network_;
  const SweepOptions* options_;
  EveryRank* every_;
  std::map<std::tuple<uint32_t, OpKind, uint32_t, uint32_t>, int64_t> costs_;
};

// Those of a colour have what the one of them has that was played.
void CopyToColours(const Quotient& quotient, EveryRank* every) {
  for (uint32_t place = 0; place < every->activities.size(); ++place) {
    const uint32_t played =
        quotient.representatives()[quotient.colouring().colour[place]];
    every->activities[place] = every->activities[played];
    every->marks[place] = every->marks[played];
  }
}

// What the incremental engine keeps of a rank. Measured on gpt_trainer with 16
// micro-batches in a pipeline of 16: 55 KB with 1,024 ranks, 57 KB with 8,192.
constexpr uint64_t kBytesPerRank = uint64_t{64} << 10;

absl::Status CheckMemory(const ResolvedJob& job, const SweepOptions& options) {
  const uint64_t bytes = job.job.ranks.size() * kBytesPerRank;
  if (options.max_bytes == 0 || bytes <= options.max_bytes)
    return absl::OkStatus();
  return absl::ResourceExhaustedError(fmt::format(
      "playing {} ranks one by one takes some {:.1f} GiB of memory, {:.1f} GiB are "
      "allowed; play fewer ranks, or leave that to the default executor",
      job.job.ranks.size(), static_cast<double>(bytes) / (1 << 30),
      static_cast<double>(options.max_bytes) / (1 << 30)));
}

absl::StatusOr<EveryRank> PlayOneByOne(const ResolvedJob& job,
                                       const NetworkModel& network,
                                       const SweepOptions& options, bool folded) {
  if (const absl::Status room = CheckMemory(job, options); !folded && !room.ok())
    return room;
  EveryRank every;
  every.executor = job.job.options.contention != nullptr ? "event executor"
                   : folded ? "incremental engine, one rank of each colour"
                            : "incremental engine";
  every.activities.resize(job.job.ranks.size());
  every.marks.resize(job.job.ranks.size());
  Activities activities(&job, &network, &options, &every);
  FoldedReplay replay(&job,
                      folded ? RefineColours(job, network) : SeparateColours(job.job),
                      &network, {nullptr, nullptr, &activities});
  if (absl::Status status = replay.Run(); !status.ok())
    return status;
  CopyToColours(replay.quotient(), &every);
  for (const ReplayJob::Rank& rank : job.job.ranks) {
    every.results.push_back(replay.result(rank.world_rank));
    if (!options.ledgers)
      every.results.back().end = Stamp{every.results.back().end.ns, 0, 0, 0, 0};
  }
  return every;
}

}  // namespace

absl::StatusOr<EveryRank> ReplayEveryRank(const ResolvedJob& job,
                                          const NetworkModel& network,
                                          SweepOptions options,
                                          ReplayExecutor executor) {
  const bool folded = executor == ReplayExecutor::kFolded;
  if (job.job.options.contention != nullptr || folded ||
      executor == ReplayExecutor::kWorklist)
    return PlayOneByOne(job, network, options, folded);
  options.store_ends = false;
  auto sweep = Sweep::Prepare(job, network, options);
  const absl::Status status = sweep.ok() ? (*sweep)->Run() : sweep.status();
  if (absl::IsUnimplemented(status) && executor == ReplayExecutor::kFastest)
    return PlayOneByOne(job, network, options, false);
  if (!status.ok())
    return status;
  EveryRank every;
  every.executor = fmt::format("sweep ({})", Name((*sweep)->unit()));
  for (uint32_t place = 0; place < job.job.ranks.size(); ++place) {
    every.results.push_back((*sweep)->result(place));
    every.activities.push_back((*sweep)->activity(place));
    every.marks.push_back((*sweep)->marks(place));
  }
  return every;
}

}  // namespace vrank::graph
