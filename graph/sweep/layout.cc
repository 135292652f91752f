// See layout.h.

#include "graph/sweep/layout.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "graph/fold/view.h"
#include "graph/sweep/blocks.h"
#include "graph/sweep/channels.h"

namespace vrank::graph {
namespace {

class Builder {
 public:
  Builder(const ResolvedJob& job, const NetworkModel& network,
          const SweepOptions& options, SweepLayout* layout)
      : job_(job),
        network_(network),
        options_(options),
        layout_(*layout),
        channels_(job, network, layout) {}

  absl::Status Run() {
    if (!job_.foldable)
      return absl::UnimplementedError(
          "members of a communicator do not call the same operations, or a process "
          "has several of them");
    layout_.unit = options_.unit.value_or(BestVectorUnit());
    if (FindSweepKernel(layout_.unit, {}) == nullptr)
      return absl::UnimplementedError(
          fmt::format("this machine has no {}", Name(layout_.unit)));
    if (options_.ledgers)
      layout_.ledgers = LedgersOf(job_, network_);
    if (absl::Status status = MakeBlocks(job_, options_, &layout_); !status.ok())
      return status;
    FindAssemblies();
    for (auto& block : layout_.blocks) {
      if (absl::Status status = Bind(*block); !status.ok())
        return status;
    }
    return channels_.Make();
  }

 private:
  int32_t WorldRank(uint32_t place) const { return job_.job.ranks[place].world_rank; }
  std::vector<int32_t> WorldRanks(const CommunicatorInstance& instance) const {
    std::vector<int32_t> ranks;
    for (const uint32_t member : instance.members)
      ranks.push_back(WorldRank(member));
    return ranks;
  }

  // Assemblies: blocks that share instances, and those that share blocks with them.
  using Node = std::pair<uint32_t, uint32_t>;  // block, its communicator's number

  Node Root(Node node) {
    while (parent_.at(node) != node)
      node = parent_[node] = parent_.at(parent_.at(node));
    return node;
  }

  void FindAssemblies() {
    for (const CommunicatorInstance& instance : job_.instances) {
      std::optional<Node> first;
      for (size_t i = 0; i < instance.members.size(); ++i) {
        const Node node{layout_.seats[instance.members[i]].block, instance.numbers[i]};
        parent_.try_emplace(node, node);
        if (!first)
          first = Root(node);
        else
          parent_[Root(node)] = *first;
        first = Root(*first);
      }
    }
    for (const CommunicatorInstance& instance : job_.instances) {
      SweepAssembly& assembly =
          AssemblyOf({layout_.seats[instance.members[0]].block, instance.numbers[0]});
      std::vector<SweepAssembly::Place> places;
      for (size_t i = 0; i < instance.members.size(); ++i) {
        const SweepLayout::Seat& seat = layout_.seats[instance.members[i]];
        places.push_back(
            {MemberOf({seat.block, instance.numbers[i]}, assembly), seat.lane});
      }
      assembly.instances.push_back(std::move(places));
    }
    for (SweepAssembly& assembly : layout_.assemblies) {
      assembly.collective.meetings.resize(assembly.members.size());
      assembly.host.meetings.resize(assembly.members.size());
    }
  }

  SweepAssembly& AssemblyOf(const Node& node) {
    SweepAssembly*& assembly = assembly_of_[Root(node)];
    if (assembly == nullptr)
      assembly = &layout_.assemblies.emplace_back();
    return *assembly;
  }
  uint32_t MemberOf(const Node& node, SweepAssembly& assembly) {
    const auto [at, added] =
        member_of_.try_emplace(node, static_cast<uint32_t>(assembly.members.size()));
    if (added)
      assembly.members.push_back(layout_.blocks[node.first].get());
    return at->second;
  }

  // Meetings of one block.
  absl::Status Bind(SweepBlock& block) {
    const SweepCode& code = *block.code;
    for (uint32_t m = 0; m < code.meetings.size(); ++m) {
      const SweepCode::Meeting& meeting = code.meetings[m];
      SweepBinding& binding = block.bindings[m];
      absl::Status status = meeting.kind == OpKind::kTransfers
                                ? channels_.Bind(block, meeting, &binding)
                                : BindMeeting(block, meeting, &binding);
      if (!status.ok())
        return status;
      if (meeting.kind == OpKind::kCollective && IsColumns(block, meeting))
        block.columns[m] = binding.cost->data();
      if (meeting.kind == OpKind::kCreateCommunicator)
        continue;
      for (uint32_t lane = 0; lane < block.ranks.size(); ++lane)
        block.communicated[lane] += meeting.times * (*binding.cost)[lane];
    }
    return absl::OkStatus();
  }

  absl::Status BindMeeting(SweepBlock& block, const SweepCode::Meeting& meeting,
                           SweepBinding* binding) {
    const SweepCode& code = *block.code;
    const Details& details = code.program->details();
    const bool creation = meeting.kind == OpKind::kCreateCommunicator;
    const uint32_t made = code.communicators[meeting.communicator].number;
    const uint32_t parent = creation ? details.creations[meeting.details].parent : 0;
    const uint32_t where = parent == 0 ? made : parent;
    StampLanes cost(block.stride);
    for (uint32_t lane = 0; lane < block.ranks.size(); ++lane) {
      const CommunicatorBinding* own = BindingOf(job_, block.ranks[lane], made);
      if (own == nullptr && parent == 0)
        return absl::UnimplementedError("a rank uses a communicator that it has not");
      if (own == nullptr || BindingOf(job_, block.ranks[lane], where) == nullptr)
        continue;
      const Cost asked = CostOf(
          own->instance, creation ? nullptr : &details.collectives[meeting.details]);
      WriteStamp(StampOf(asked, creation), cost.data(), block.lanes.width, lane,
                 layout_.ledgers);
    }
    const Node node{layout_.seats[block.ranks[0]].block, where};
    if (parent_.count(node) == 0)
      return absl::UnimplementedError("a communicator without members");
    binding->assembly = &AssemblyOf(node);
    binding->member = MemberOf(node, *binding->assembly);
    layout_.costs.push_back(std::move(cost));
    binding->cost = &layout_.costs.back();
    return absl::OkStatus();
  }

  // `call`: nullptr: its creation.
  Cost CostOf(uint32_t instance, const CollectiveCall* call) {
    const auto [at, added] = costs_.try_emplace(
        {instance, call == nullptr ? CollectiveCall{} : *call, call == nullptr});
    if (added) {
      const std::vector<int32_t> ranks = WorldRanks(job_.instances[instance]);
      at->second = call == nullptr ? network_.Creation(ranks)
                                   : network_.Collective(*call, ranks);
    }
    return at->second;
  }

  // Are the members of each instance a column of the block, in order?
  bool IsColumns(const SweepBlock& block, const SweepCode::Meeting& meeting) const {
    const CollectiveCall& call =
        block.code->program->details().collectives[meeting.details];
    const auto n = static_cast<uint32_t>(block.ranks.size());
    const uint32_t columns = block.lanes.column_count;
    if (HasRoot(call.operation) || n != block.lanes.width ||
        columns % block.vector_width != 0)
      return false;
    const uint32_t number = block.code->communicators[meeting.communicator].number;
    for (uint32_t lane = 0; lane < n; ++lane) {
      const CommunicatorBinding& own = job_.bindings[block.ranks[lane]].at(number);
      const CommunicatorInstance& instance = job_.instances[own.instance];
      if (instance.members.size() != n / columns || own.index != lane / columns ||
          instance.members[0] != block.ranks[lane % columns])
        return false;
    }
    return true;
  }

  const ResolvedJob& job_;
  const NetworkModel& network_;
  const SweepOptions& options_;
  SweepLayout& layout_;
  std::map<Node, Node> parent_;
  std::map<Node, SweepAssembly*> assembly_of_;  // by root
  std::map<Node, uint32_t> member_of_;
  std::map<std::tuple<uint32_t, CollectiveCall, bool>, Cost> costs_;
  ChannelMaker channels_;
};

}  // namespace

absl::Status MakeSweepLayout(const ResolvedJob& job, const NetworkModel& network,
                             const SweepOptions& options, SweepLayout* layout) {
  return Builder(job, network, options, layout).Run();
}

}  // namespace vrank::graph
