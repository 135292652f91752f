// See layout.h.

#include "graph/sweep/layout.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "graph/fold/view.h"
#include "graph/sweep/channels.h"
#include "graph/sweep/classes.h"
#include "graph/sweep/shape.h"

namespace vrank::graph {
namespace {

// Numbers in 64 bytes.
constexpr size_t kAligned = 8;

// The first address from `from` on that is aligned to 64 bytes.
int64_t* Aligned(int64_t* from) {
  const auto off = reinterpret_cast<uintptr_t>(from) / sizeof(int64_t) % kAligned;
  return from + (off == 0 ? 0 : kAligned - off);
}

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
    if (absl::Status status = MakeBlocks(); !status.ok())
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

  // Blocks.
  absl::Status MakeBlocks() {
    absl::StatusOr<std::vector<SweepClass>> classes =
        SweepClasses(job_.job, options_, layout_.ledgers, layout_.unit, &layout_.codes);
    if (!classes.ok())
      return classes.status();
    layout_.seats.resize(job_.job.ranks.size());
    for (const SweepClass& one : *classes) {
      for (size_t i = 0; i < one.size(); i += kBlockRanks) {
        const size_t end = std::min(one.size(), i + kBlockRanks);
        AddBlock({one.begin() + static_cast<std::ptrdiff_t>(i),
                  one.begin() + static_cast<std::ptrdiff_t>(end)});
        layout_.blocks.back()->home = static_cast<uint32_t>(i / kBlockRanks);
      }
    }
    if (layout_.bytes > options_.max_bytes) {
      return absl::ResourceExhaustedError(fmt::format(
          "playing {} ranks takes {:.1f} GiB of memory, {:.1f} GiB are "
          "allowed; play fewer ranks, or store no ends",
          job_.job.ranks.size(), static_cast<double>(layout_.bytes) / (1 << 30),
          static_cast<double>(options_.max_bytes) / (1 << 30)));
    }
    FindFourKeys();
    for (auto& block : layout_.blocks)
      Allocate(*block);
    DropSparedCodes();
    return absl::OkStatus();
  }

  void FindFourKeys() {
    uint64_t works = 0;
    for (const SweepCode& code : layout_.codes)
      works = std::max(works, code.works);
    for (uint64_t four = 0; four <= works / 4; ++four)
      layout_.four_keys.push_back(Jitter::FourKey(four));
  }

  // Codes that no block runs: their ranks have rows of costs.
  void DropSparedCodes() {
    std::set<const SweepCode*> run;
    for (const auto& block : layout_.blocks)
      run.insert(block->code);
    for (SweepCode& code : layout_.codes)
      if (!run.contains(&code))
        KeepResultsOnly(&code);
  }

  void AddBlock(SweepClass parts) {
    auto block = std::make_unique<SweepBlock>();
    const SweepCode* const code = parts[0].code;
    block->code = code;
    const auto n = static_cast<uint32_t>(parts.size());
    std::vector<uint32_t> ranks;
    for (const SweepPart& part : parts)
      ranks.push_back(part.rank);
    // Members of the communicator that is used most come to lie in columns.
    const uint32_t size = MembersInOrder(*code, ranks);
    const uint32_t columns = n / size;
    block->lanes.column_count = columns;
    const bool own =
        std::any_of(parts.begin(), parts.end(),
                    [&](const SweepPart& part) { return part.code != code; });
    block->own_codes.resize(own ? n : 0);
    for (uint32_t i = 0; i < n; ++i) {
      const uint32_t lane = i % size * columns + i / size;
      ranks[lane] = parts[i].rank;
      if (own)
        block->own_codes[lane] = parts[i].code;
    }
    for (uint32_t lane = 0; lane < n; ++lane)
      layout_.seats[ranks[lane]] = {static_cast<uint32_t>(layout_.blocks.size()), lane};
    // A few ranks are faster one by one than in a vector that they do not fill.
    const uint32_t whole = VectorWidth(layout_.unit);
    const bool vector = 2 * n > whole;
    block->lanes.ops = code->ops.data();
    block->lanes.ledgers = code->ledgers.data();
    block->lanes.places = code->places.data();
    block->lanes.meetings = code->meeting_slots.data();
    block->lanes.runs = code->runs.data();
    block->lanes.ranks = n;
    block->vector_width = vector ? whole : 1;
    block->lanes.width = vector ? (n + whole - 1) / whole * whole : n;
    const ReplayJob::Rank& first = job_.job.ranks[ranks[0]];
    block->kernel = FindSweepKernel(
        vector ? layout_.unit : VectorUnit::kScalar,
        {layout_.ledgers.count(), first.options.jitter.on(), options_.store_ends, own});
    block->stride =
        static_cast<size_t>(1 + layout_.ledgers.count()) * block->lanes.width;
    block->ranks = std::move(ranks);
    layout_.bytes += sizeof(int64_t) * (code->slots * block->stride +
                                        code->observations.size() * block->stride +
                                        7 * size_t{block->lanes.width});
    if (options_.store_ends)
      layout_.bytes += sizeof(int64_t) * code->program->size() * block->lanes.width;
    if (own)
      layout_.bytes +=
          sizeof(uint32_t) * code->ops.size() * block->lanes.width *
          (SweepLanes::kOwnCosts + static_cast<size_t>(layout_.ledgers.count()));
    layout_.blocks.push_back(std::move(block));
  }

  // How many ranks that follow each other make up each instance of the communicator
  // with the most collectives; 1: it has others, too.
  uint32_t MembersInOrder(const SweepCode& code, const std::vector<uint32_t>& ranks) {
    std::map<uint32_t, uint32_t> uses;
    for (const SweepCode::Meeting& meeting : code.meetings)
      uses[code.communicators[meeting.communicator].number] +=
          meeting.kind == OpKind::kCollective ? meeting.times : 0;
    const auto most = std::max_element(
        uses.begin(), uses.end(),
        [](const auto& a, const auto& b) { return a.second < b.second; });
    if (most == uses.end() || most->second == 0)
      return 1;
    size_t size = 0;
    for (size_t i = 0; i < ranks.size(); ++i) {
      const CommunicatorBinding* own = BindingOf(ranks[i], most->first);
      if (own == nullptr)
        return 1;
      const CommunicatorInstance& instance = job_.instances[own->instance];
      if (i == 0)
        size = instance.members.size();
      if (instance.members.size() != size || ranks.size() % size != 0 ||
          own->index != i % size || instance.members[0] != ranks[i / size * size])
        return 1;
    }
    return static_cast<uint32_t>(size);
  }

  void Allocate(SweepBlock& block) {
    const SweepCode& code = *block.code;
    const size_t width = block.lanes.width;
    block.state.resize(code.slots * block.stride);
    for (StampLanes* numbers : {&block.bits, &block.busy, &block.waited, &block.met,
                                &block.divergences, &block.communicated})
      numbers->resize(width);
    block.rank_keys.resize(width);
    for (uint32_t lane = 0; lane < block.ranks.size(); ++lane) {
      const ReplayJob::Rank& rank = job_.job.ranks[block.ranks[lane]];
      block.rank_keys[lane] = rank.options.jitter.RankKey(rank.world_rank);
    }
    if (options_.store_ends)
      block.ends.resize(code.program->size() * width + kAligned);
    block.observations.resize(code.observations.size(), StampLanes(block.stride));
    block.bindings.resize(code.meetings.size());
    block.columns.resize(code.meetings.size());
    block.decided.resize(code.communicators.size());
    block.meeting.resize(code.communicators.size());
    block.pending = std::make_unique<std::atomic<int32_t>[]>(code.communicators.size());
    if (!block.own_codes.empty())
      block.own_costs = OwnCosts(block.own_codes, block.lanes.width,
                                 static_cast<uint32_t>(layout_.ledgers.count()));
    SweepLanes& lanes = block.lanes;
    lanes.own = block.own_costs.empty() ? nullptr : block.own_costs.data();
    lanes.four_keys = layout_.four_keys.data();
    lanes.state = block.state.data();
    lanes.rank_keys = block.rank_keys.data();
    lanes.bits = block.bits.data();
    lanes.busy = block.busy.data();
    lanes.waited = block.waited.data();
    lanes.met = block.met.data();
    lanes.ends = options_.store_ends ? Aligned(block.ends.data()) : nullptr;
    lanes.columns = block.columns.data();
    lanes.decided = block.decided.data();
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

  // nullptr: the rank is no member.
  const CommunicatorBinding* BindingOf(uint32_t rank, uint32_t number) const {
    const auto at = job_.bindings[rank].find(number);
    return at == job_.bindings[rank].end() ? nullptr : &at->second;
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
      const CommunicatorBinding* own = BindingOf(block.ranks[lane], made);
      if (own == nullptr && parent == 0)
        return absl::UnimplementedError("a rank uses a communicator that it has not");
      if (own == nullptr || BindingOf(block.ranks[lane], where) == nullptr)
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
