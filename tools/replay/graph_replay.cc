#include "tools/replay/graph_replay.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/communication_kernel.h"
#include "base/status_macros.h"
#include "graph/membership/group_hint.h"
#include "graph/membership/layout.h"
#include "graph/models/alpha_beta_network.h"
#include "graph/models/recorded_network.h"
#include "graph/replay/silent_observer.h"
#include "tools/job/stated_options.h"
#include "tools/replay/graph_cluster.h"
#include "tools/replay/imported_network.h"

namespace vrank::tools {
namespace {

// Hands what is wanted of all ranks to a collector.
class Listener : public graph::SilentObserver {
 public:
  explicit Listener(emulator::ResultCollector* results) : results_(results) {}

  void OnRange(int32_t rank, uint32_t name, bool begin, graph::Stamp host) override {
    results_->OnRange(rank, name, begin, host);
  }
  void OnCollectiveEnd(const std::string& communicator, uint32_t sequence,
                       uint32_t member, int32_t rank, const graph::CollectiveCall& call,
                       graph::Stamp arrival, graph::Stamp end) override {
    results_->OnCollectiveEnd(communicator, sequence, member, rank, call, arrival, end);
  }
  void OnTransferEnd(const std::string& communicator, uint32_t from, uint32_t to,
                     uint32_t sequence, uint64_t bytes, bool is_send, int32_t rank,
                     graph::Stamp arrival, graph::Stamp end) override {
    results_->OnTransferEnd(communicator, from, to, sequence, bytes, is_send, rank,
                            arrival, end);
  }

 private:
  emulator::ResultCollector* const results_;
};

}  // namespace

namespace {

// The names of all NVTX ranges that a rank opens.
std::set<std::string> RangesOf(const graph::ExecutionGraph& graph) {
  std::set<std::string> ranges;
  for (const auto& program : graph.programs) {
    const std::vector<std::string>& names = program->details().names;
    std::vector<bool> seen(names.size());
    for (uint64_t i = 0; i < program->size(); ++i) {
      const graph::Op& op = program->op(i);
      if (op.kind != graph::OpKind::kRangeBegin || seen[op.a])
        continue;
      seen[op.a] = true;
      if (!names[op.a].empty())
        ranges.insert(names[op.a]);
    }
  }
  return ranges;
}

}  // namespace

absl::StatusOr<Pattern> IterationPattern(const graph::ExecutionGraph& graph,
                                         const std::optional<std::string>& flag) {
  const std::string traced_with = ValueOf(graph.cost_options, kIterationRangeOption)
                                      .value_or(emulator::kDefaultIterationRange);
  ASSIGN_OR_RETURN(Pattern pattern,
                   emulator::MakeIterationPattern(flag.value_or(traced_with)));
  if (!flag.has_value())
    return pattern;
  const std::set<std::string> ranges = RangesOf(graph);
  for (const std::string& range : ranges)
    if (pattern.Matches(range))
      return pattern;
  if (ranges.empty())
    return absl::InvalidArgumentError(fmt::format(
        "--iteration-range '{}': the graph has no NVTX ranges; leave it out "
        "to look at the whole run",
        *flag));
  constexpr size_t kListed = 12;
  std::vector<std::string> listed;
  for (const std::string& range : ranges)
    if (listed.size() < kListed)
      listed.push_back(fmt::format("'{}'", range));
  return absl::InvalidArgumentError(fmt::format(
      "--iteration-range '{}': it matches the whole name of no NVTX range of the "
      "graph; "
      "there are: {}{}",
      *flag, fmt::join(listed, ", "),
      ranges.size() > kListed ? fmt::format(" and {} more", ranges.size() - kListed)
                              : ""));
}

std::vector<int32_t> TracedRanks(const graph::ExecutionGraph& graph) {
  std::vector<int32_t> ranks;
  for (size_t rank = 0; rank < graph.ranks.size(); ++rank)
    if (graph.ranks[rank].leader == static_cast<int32_t>(rank))
      ranks.push_back(static_cast<int32_t>(rank));
  return ranks;
}

absl::StatusOr<std::unique_ptr<graph::MembershipInference>> MembershipOf(
    const graph::ExecutionGraph& graph) {
  ASSIGN_OR_RETURN(const graph::Layout layout,
                   graph::Layout::Parse(graph.layout, graph.world_size));
  std::vector<graph::GroupHint> hints;
  for (const std::string& text : graph.group_hints) {
    ASSIGN_OR_RETURN(graph::GroupHint hint, graph::ParseGroupHint(text, layout));
    hints.push_back(std::move(hint));
  }
  return std::make_unique<graph::MembershipInference>(
      layout, TracedRanks(graph), std::move(hints), graph::CallSource::kTraced);
}

namespace {

absl::Status ChooseNetwork(const graph::ExecutionGraph& graph,
                           const Installation& installation, const std::string& cluster,
                           PricedJob* priced) {
  if (cluster.empty() && graph.cluster.empty() && !graph.recorded_ranks.empty()) {
    priced->cluster = "recorded";
    priced->is_as_recorded = true;
    priced->network = std::make_unique<graph::RecordedNetwork>();
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(GraphCluster chosen, ClusterOf(graph, installation, cluster));
  priced->cluster = std::move(chosen.text);
  if (graph.recorded_ranks.empty())
    priced->network = std::make_unique<graph::AlphaBetaNetwork>(chosen.description);
  else
    priced->network = std::make_unique<ImportedNetwork>(chosen.description);
  return absl::OkStatus();
}

}  // namespace

namespace {

bool IsPriced(const graph::Details& details, const graph::Op& op) {
  return op.kind == graph::OpKind::kTransfers &&
         std::any_of(details.transfer_groups[op.b].begin(),
                     details.transfer_groups[op.b].end(),
                     [](const graph::Transfer& transfer) {
                       return ImportedNetwork::IsPriced(transfer.bytes);
                     });
}

// The op at `index` is the recorded time of transfers, which take the cluster's.
bool IsReplaced(const graph::Program& program, uint64_t index) {
  if (index == 0)
    return false;
  const graph::Op &op = program.op(index), &before = program.op(index - 1);
  return op.kind == graph::OpKind::kWork && op.lane == before.lane &&
         IsPriced(program.details(), before);
}

void DropRecordedTransfers(PricedJob* priced, graph::ReplayJob* job) {
  std::map<const graph::Program*, graph::Program*> replaced;
  for (graph::ReplayJob::Rank& rank : job->ranks) {
    const auto [at, fresh] = replaced.try_emplace(rank.program, rank.program);
    const graph::Program& program = *rank.program;
    std::shared_ptr<std::vector<graph::Op>> ops;
    for (uint64_t i = 0; fresh && i < program.size(); ++i) {
      if (!IsReplaced(program, i))
        continue;
      if (ops == nullptr) {
        ops = std::make_shared<std::vector<graph::Op>>();
        for (uint64_t j = 0; j < program.size(); ++j)
          ops->push_back(program.op(j));
      }
      (*ops)[i].value = 0;
      (*ops)[i].b = 0;
    }
    if (ops != nullptr) {
      priced->edited_programs.push_back(std::make_unique<graph::Program>(
          std::span<const graph::Op>(*ops), program.details(), ops));
      at->second = priced->edited_programs.back().get();
    }
    rank.program = at->second;
  }
}

// Edits the job, and puts models of the edits around its network.
absl::Status ApplyWhatIfs(const graph::ExecutionGraph& graph,
                          const GraphReplayOptions& options, PricedJob* priced) {
  const graph::EditableJob editable(
      &priced->job, priced->network.get(),
      [&options](const std::string& name) {
        return options.iteration_pattern.Matches(name);
      },
      AbsentRanks(graph));
  ASSIGN_OR_RETURN(graph::EditedJob edited, editable.Edit(options.what_ifs));
  priced->edited = std::move(edited.nodes);
  std::move(edited.programs.begin(), edited.programs.end(),
            std::back_inserter(priced->edited_programs));
  if (!edited.networks.empty()) {
    priced->inner_networks.push_back(std::move(priced->network));
    for (std::unique_ptr<graph::NetworkModel>& network : edited.networks)
      priced->inner_networks.push_back(std::move(network));
    priced->network = std::move(priced->inner_networks.back());
    priced->inner_networks.pop_back();
  }
  priced->job = std::move(edited.job);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PricedJob> PriceJob(const graph::ExecutionGraph& graph,
                                   const Installation& installation,
                                   const GraphReplayOptions& options) {
  PricedJob priced;
  RETURN_IF_ERROR(ChooseNetwork(graph, installation, options.cluster, &priced));
  ASSIGN_OR_RETURN(const auto membership, MembershipOf(graph));
  graph::ReplayJob job = graph::JobOf(graph);
  for (graph::ReplayJob::Rank& rank : job.ranks) {
    rank.options.jitter = options.jitter;
    const auto factor = options.work_factors.find(rank.world_rank);
    if (factor == options.work_factors.end())
      continue;
    rank.options.work_numerator = factor->second.numerator;
    rank.options.work_denominator = factor->second.denominator;
  }
  if (!graph.recorded_ranks.empty() && !priced.is_as_recorded)
    DropRecordedTransfers(&priced, &job);
  ASSIGN_OR_RETURN(priced.job,
                   graph::ResolveCommunicators(std::move(job), membership.get()));
  if (!options.what_ifs.empty())
    RETURN_IF_ERROR(ApplyWhatIfs(graph, options, &priced));
  return priced;
}

absl::StatusOr<std::unique_ptr<GraphReplay>> GraphReplay::Play(
    const graph::ExecutionGraph& graph, const Installation& installation,
    const GraphReplayOptions& options) {
  std::unique_ptr<GraphReplay> self(new GraphReplay());
  self->graph_ = &graph;
  ASSIGN_OR_RETURN(self->priced_, PriceJob(graph, installation, options));
  const graph::ResolvedJob& job = self->priced_.job;
  self->results_ =
      std::make_unique<emulator::ResultCollector>(emulator::ResultCollector::Options{
          options.iteration_pattern, options.collectives, options.member_ends});
  for (const graph::ReplayJob::Rank& rank : job.job.ranks)
    self->results_->AddRank(rank.world_rank, rank.program, false);
  Listener listener(self->results_.get());
  const graph::ReplayObservers observers =
      self->timeline_.Observers(&listener, options.collectives || options.member_ends);
  if (options.every_rank) {
    self->replay_ = std::make_unique<graph::FoldedReplay>(
        &job, graph::SeparateColours(job.job), self->priced_.network.get(), observers);
    RETURN_IF_ERROR(self->replay_->Run());
  } else {
    ASSIGN_OR_RETURN(self->replay_,
                     graph::ReplayFolded(job, *self->priced_.network, observers));
  }
  self->timeline_.Complete(job, *self->replay_);
  return self;
}

graph::ReplayReport GraphReplay::Report(const Pattern& iteration_pattern,
                                        std::optional<size_t> iteration) const {
  graph::ReportOptions options;
  options.is_iteration = [&](const std::string& name) {
    return iteration_pattern.Matches(name);
  };
  if (iteration)
    options.iteration = *iteration;
  options.absent = AbsentRanks(*graph_);
  return graph::MakeReport(timeline_, options);
}

std::vector<int32_t> GraphReplay::RanksLike(int32_t rank) const {
  const graph::Quotient& quotient = replay_->quotient();
  const uint32_t colour = quotient.ColourOf(rank);
  std::vector<int32_t> ranks;
  for (const graph::ReplayJob::Rank& one : priced_.job.job.ranks)
    if (quotient.ColourOf(one.world_rank) == colour)
      ranks.push_back(one.world_rank);
  return ranks;
}

std::vector<bool> AbsentRanks(const graph::ExecutionGraph& graph) {
  const auto world_size = static_cast<size_t>(graph.world_size);
  if (graph.recorded_ranks.empty() || graph.recorded_ranks.size() == world_size)
    return {};
  std::vector<bool> absent(world_size, true);
  for (const graph::RecordedRank& rank : graph.recorded_ranks)
    absent[static_cast<size_t>(rank.rank)] = false;
  return absent;
}

NetworkUse CountNetworkUse(const graph::ExecutionGraph& graph) {
  NetworkUse use;
  for (const graph::RecordedRank& recorded : graph.recorded_ranks) {
    const graph::Program& program =
        *graph.programs[graph.ranks[static_cast<size_t>(recorded.rank)].program];
    const graph::Details& details = program.details();
    std::vector<bool> communicates;  // by name
    for (const std::string& name : details.names)
      communicates.push_back(CommunicationOperation(name).has_value());
    for (uint64_t i = 0; i < program.size(); ++i) {
      const graph::Op& op = program.op(i);
      if (op.kind == graph::OpKind::kCollective)
        ++(ImportedNetwork::IsPriced(details.collectives[op.b]) ? use.priced
                                                                : use.as_recorded);
      else if (op.kind == graph::OpKind::kTransfers)
        use.priced += IsPriced(details, op);
      else if (op.kind == graph::OpKind::kWork && op.a < communicates.size() &&
               !IsReplaced(program, i))
        use.as_recorded += communicates[op.a];
    }
  }
  return use;
}

std::optional<int64_t> KnownPeak(const graph::ExecutionGraph& graph, int64_t bytes) {
  if (bytes == 0 && !graph.recorded_ranks.empty())
    return std::nullopt;
  return bytes;
}

}  // namespace vrank::tools
