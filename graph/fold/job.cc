// Plays the creations of communicators, and notes what programs do with them.

#include "graph/fold/job.h"

#include <algorithm>
#include <memory>
#include <set>
#include <span>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/replay/free_network.h"
#include "graph/replay/silent_observer.h"

namespace vrank::graph {
namespace {

// Notes every communicator that comes into being.
class Registrar : public SilentObserver {
 public:
  explicit Registrar(ResolvedJob* job) : job_(job) {}

  void OnCommunicator(int32_t rank, uint32_t number, const std::string& identity,
                      std::span<const int32_t> members, uint32_t index) override {
    // The n-th time that a member is told of an identity it is the n-th of that name.
    const uint32_t repeat = told_[{identity, index}]++;
    const auto [at, added] = instance_of_.try_emplace(
        {identity, repeat}, static_cast<uint32_t>(job_->instances.size()));
    if (added)
      Open(identity, members, repeat);
    const uint32_t place = job_->place_of.at(rank);
    job_->instances[at->second].numbers[index] = number;
    job_->bindings[place][number] = {at->second, index};
  }

 private:
  void Open(const std::string& identity, std::span<const int32_t> members,
            uint32_t repeat) {
    CommunicatorInstance instance;
    instance.identity = identity;
    for (const int32_t member : members)
      instance.members.push_back(job_->place_of.at(member));
    instance.numbers.resize(members.size());
    std::vector<uint32_t> sorted = instance.members;
    std::sort(sorted.begin(), sorted.end());
    if (repeat != 0 || std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
      job_->foldable = false;
    job_->instances.push_back(std::move(instance));
  }

  ResolvedJob* job_;
  std::map<std::pair<std::string, uint32_t>, uint32_t> told_;         // by member
  std::map<std::pair<std::string, uint32_t>, uint32_t> instance_of_;  // by repeat
};

// The creations of a program, nothing else.
std::unique_ptr<Program> CreationsOf(const Program& program) {
  auto only = std::make_unique<Program>(true);
  for (const Creation& creation : program.details().creations)
    only->AddCreation(creation);
  for (uint64_t i = 0; i < program.size(); ++i) {
    Op op = program.op(i);
    if (op.kind != OpKind::kCreateCommunicator)
      continue;
    op.host_ns = 0;
    op.launch = 0;
    only->Append(op);
  }
  only->Close();
  return only;
}

template <class T>
void AddOnce(std::vector<T>& list, std::set<std::pair<uint32_t, uint32_t>>& seen,
             const Op& op, const T& value) {
  if (seen.emplace(op.a, op.b).second)
    list.push_back(value);
}

ProgramUse UseOf(const Program& program,
                 std::map<std::vector<CollectiveCall>, uint32_t>& sequences) {
  ProgramUse use;
  std::set<std::pair<uint32_t, uint32_t>> seen_calls, seen_groups;
  std::map<uint32_t, std::vector<CollectiveCall>> sequence_of;
  const Details& details = program.details();
  for (uint64_t i = 0; i < program.size(); ++i) {
    const Op& op = program.op(i);
    if (op.kind == OpKind::kCollective) {
      const CollectiveCall& call = details.collectives[op.b];
      AddOnce(use.communicators[op.a].calls, seen_calls, op, call);
      sequence_of[op.a].push_back(call);
    } else if (op.kind == OpKind::kTransfers) {
      auto& transfers = use.communicators[op.a].transfers;
      if (seen_groups.emplace(op.a, op.b).second) {
        const auto& group = details.transfer_groups[op.b];
        transfers.insert(transfers.end(), group.begin(), group.end());
      }
    } else if (op.kind == OpKind::kCreateCommunicator) {
      use.communicators[op.a];
      const uint32_t parent = details.creations[op.b].parent;
      (parent == 0 ? use.inits : use.splits[parent]).push_back(op.a);
    }
  }
  for (auto& [number, communicator] : use.communicators) {
    communicator.sequence =
        sequences
            .try_emplace(sequence_of[number], static_cast<uint32_t>(sequences.size()))
            .first->second;
  }
  return use;
}

}  // namespace

ReplayJob JobOf(const ExecutionGraph& graph) {
  ReplayJob job;
  job.options.launch_latency = Duration::Nanoseconds(graph.launch_latency_ns);
  job.options.launch_queue_depth = graph.launch_queue_depth;
  for (size_t i = 0; i < graph.ranks.size(); ++i) {
    const ExecutionGraph::Rank& rank = graph.ranks[i];
    ReplayJob::Rank played;
    played.world_rank = static_cast<int32_t>(i);
    played.program = graph.programs[rank.program].get();
    played.options.follower = rank.leader != played.world_rank;
    played.options.leader = played.options.follower ? rank.leader : -1;
    job.ranks.push_back(played);
  }
  return job;
}

uint32_t ResolvedJob::PeerShift(uint32_t rank, uint32_t number) const {
  const RankOptions& options = job.ranks[rank].options;
  if (!options.follower || options.leader < 0)
    return 0;
  const auto leader = place_of.find(options.leader);
  if (leader == place_of.end())
    return 0;
  const auto theirs = bindings[leader->second].find(number);
  const CommunicatorBinding& own = bindings[rank].at(number);
  if (theirs == bindings[leader->second].end())
    return 0;
  const auto size = static_cast<uint32_t>(instances[own.instance].members.size());
  return (own.index + size - theirs->second.index % size) % size;
}

absl::StatusOr<ResolvedJob> ResolveCommunicators(ReplayJob replay_job,
                                                 Membership* membership) {
  ResolvedJob resolved;
  resolved.job = std::move(replay_job);
  const ReplayJob& job = resolved.job;
  resolved.bindings.resize(job.ranks.size());
  std::map<std::vector<CollectiveCall>, uint32_t> sequences;
  std::map<const Program*, std::unique_ptr<Program>> creations;
  const FreeNetwork network;
  Registrar registrar(&resolved);
  Engine engine(job.options, &network, membership, &registrar);
  for (uint32_t place = 0; place < job.ranks.size(); ++place) {
    const ReplayJob::Rank& rank = job.ranks[place];
    resolved.place_of[rank.world_rank] = place;
    if (creations.try_emplace(rank.program).second) {
      creations[rank.program] = CreationsOf(*rank.program);
      resolved.uses[rank.program] = UseOf(*rank.program, sequences);
    }
    engine.AddRank(rank.world_rank, creations[rank.program].get(), rank.options);
  }
  if (absl::Status status = engine.Run(); !status.ok())
    return status;
  if (!engine.Finished()) {
    return absl::FailedPreconditionError(
        fmt::format("communicators are not created by all their members: {}",
                    fmt::join(engine.DescribeBlocked(3), "; ")));
  }
  resolved.sequences.resize(sequences.size());
  for (const auto& [calls, number] : sequences)
    resolved.sequences[number] = calls;
  for (CommunicatorInstance& instance : resolved.instances) {
    for (size_t i = 0; i < instance.members.size(); ++i) {
      const ProgramUse& use = resolved.UseOf(instance.members[i]);
      const uint32_t sequence = use.communicators.at(instance.numbers[i]).sequence;
      if (i == 0)
        instance.sequence = sequence;
      else if (instance.sequence != sequence)
        resolved.foldable = false;
    }
    for (const CollectiveCall& call : resolved.sequences[instance.sequence]) {
      if (call.root >= instance.members.size())
        resolved.foldable = false;
    }
  }
  for (uint32_t rank = 0; rank < job.ranks.size(); ++rank) {
    const RankOptions& options = job.ranks[rank].options;
    if (options.follower && options.leader >= 0 &&
        resolved.place_of.count(options.leader) == 0)
      resolved.foldable = false;
    for (const auto& [number, binding] : resolved.bindings[rank]) {
      for (const Transfer& transfer :
           resolved.UseOf(rank).communicators.at(number).transfers) {
        if ((transfer.peer & ~kAbsolutePeer) >=
            resolved.instances[binding.instance].members.size())
          resolved.foldable = false;
      }
    }
  }
  return resolved;
}

}  // namespace vrank::graph
