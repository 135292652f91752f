#include "graph/file/graph_meta.h"

#include <algorithm>
#include <functional>

#include <fmt/format.h>

#include "graph/file/op_check.h"
#include "graph/schema/job_description_proto.h"

namespace vrank::graph {
namespace {

void AddDetails(const Details& details, GraphMeta::Program* program) {
  for (const CollectiveCall& call : details.collectives) {
    auto* row = program->add_collectives();
    row->set_operation(static_cast<uint32_t>(call.operation));
    row->set_type(static_cast<uint32_t>(call.type));
    row->set_reduction(static_cast<uint32_t>(call.reduction));
    row->set_root(call.root);
    row->set_count(call.count);
    row->set_recorded_ns(call.recorded_ns);
  }
  for (const std::vector<Transfer>& group : details.transfer_groups) {
    auto* row = program->add_transfer_groups();
    for (const Transfer& transfer : group) {
      row->add_bytes(transfer.bytes);
      row->add_peers(transfer.peer);
      row->add_is_send(transfer.is_send != 0);
    }
  }
  for (const Creation& creation : details.creations) {
    auto* row = program->add_creations();
    row->set_parent(creation.parent);
    row->set_color(creation.color);
    row->set_key(creation.key);
    row->set_ranks(creation.ranks);
    row->set_rank(creation.rank);
    if (creation.local_members != 1)
      row->set_local_members(creation.local_members);
    for (const uint32_t member : creation.excluded)
      row->add_excluded(member);
    if (creation.parent == 0)
      row->set_unique_id(creation.unique_id.data(), creation.unique_id.size());
    row->set_name(creation.name);
  }
  for (const std::string& name : details.names)
    program->add_names(name);
}

constexpr int32_t kMaxWorldSize = 1 << 20;           // as membership/layout.h
constexpr uint32_t kMaxMembers = 1u << 24;           // as op_check.cc
constexpr int64_t kMaxLatencyNs = int64_t{1} << 40;  // 18 minutes
constexpr uint32_t kMaxQueueDepth = 0xffff;          // as replay/rank_state.h

bool IsTime(int64_t ns) {
  return ns >= 0 && ns <= kMaxNs;
}

absl::Status Broken(const std::string& what) {
  return absl::DataLossError(what);
}

void AddRecordedRanks(const ExecutionGraph& graph, GraphMeta* meta) {
  for (const RecordedRank& rank : graph.recorded_ranks) {
    auto* row = meta->add_recorded_ranks();
    row->set_rank(rank.rank);
    row->set_file(rank.file);
    int64_t before = 0;
    for (const int64_t end : rank.ends_ns) {
      row->add_ends_ns(end - before);
      before = end;
    }
    for (const RecordedRank::Iteration& iteration : rank.iterations) {
      auto* made = row->add_iterations();
      made->set_name(iteration.name);
      made->set_begin_ns(iteration.begin_ns);
      made->set_end_ns(iteration.end_ns);
    }
    for (const RecordedRank::HostTime& time : rank.host) {
      auto* made = row->add_host();
      made->set_name(time.name);
      made->set_time_ns(time.time_ns);
    }
    row->set_unexplained_host_ns(rank.unexplained_host_ns);
    row->set_unexplained_device_ns(rank.unexplained_device_ns);
  }
}

absl::Status ReadRecordedRanks(const GraphMeta& meta, ExecutionGraph* graph) {
  for (const GraphMeta::RecordedRank& row : meta.recorded_ranks()) {
    RecordedRank rank;
    rank.rank = row.rank();
    rank.file = row.file();
    rank.ends_ns.assign(row.ends_ns().begin(), row.ends_ns().end());
    // Stored as differences: ends of neighbours are near each other.
    for (size_t i = 1; i < rank.ends_ns.size(); ++i)
      if (__builtin_add_overflow(rank.ends_ns[i], rank.ends_ns[i - 1],
                                 &rank.ends_ns[i]))
        return Broken("a recorded end is no time");
    for (const GraphMeta::RecordedRank::Iteration& iteration : row.iterations())
      rank.iterations.push_back(
          {iteration.name(), iteration.begin_ns(), iteration.end_ns()});
    for (const GraphMeta::RecordedRank::HostTime& time : row.host())
      rank.host.push_back({time.name(), time.time_ns()});
    rank.unexplained_host_ns = row.unexplained_host_ns();
    rank.unexplained_device_ns = row.unexplained_device_ns();
    const bool times =
        std::all_of(
            rank.ends_ns.begin(), rank.ends_ns.end(),
            [](int64_t end) { return IsTime(end) || end == RecordedRank::kNoEnd; }) &&
        std::all_of(rank.iterations.begin(), rank.iterations.end(),
                    [](const auto& one) {
                      return IsTime(one.begin_ns) && IsTime(one.end_ns);
                    }) &&
        std::all_of(rank.host.begin(), rank.host.end(),
                    [](const auto& one) { return IsTime(one.time_ns); }) &&
        IsTime(rank.unexplained_host_ns) && IsTime(rank.unexplained_device_ns);
    const bool in_order =
        graph->recorded_ranks.empty() || graph->recorded_ranks.back().rank < rank.rank;
    if (!times || !in_order || rank.rank < 0 || rank.rank >= graph->world_size)
      return Broken(fmt::format("what was recorded of rank {} is damaged", rank.rank));
    graph->recorded_ranks.push_back(std::move(rank));
  }
  return absl::OkStatus();
}

}  // namespace

GraphMeta ToMeta(const ExecutionGraph& graph) {
  GraphMeta meta;
  WriteJob(graph, &meta);
  for (const ExecutionGraph::Class& of_graph : graph.classes) {
    auto* row = meta.add_classes();
    row->set_name(of_graph.name);
    row->mutable_ranks()->Assign(of_graph.ranks.begin(), of_graph.ranks.end());
  }
  for (const ExecutionGraph::Rank& rank : graph.ranks) {
    auto* row = meta.add_ranks();
    row->set_rank_class(rank.rank_class);
    row->set_program(rank.program);
    row->set_leader(rank.leader);
  }
  for (const ExecutionGraph::Communicator& communicator : graph.communicators) {
    auto* row = meta.add_communicators();
    row->set_identity(communicator.identity);
    row->set_name(communicator.name);
    row->mutable_members()->Assign(communicator.members.begin(),
                                   communicator.members.end());
  }
  for (const ExecutionGraph::Loss& loss : graph.losses) {
    auto* row = meta.add_losses();
    row->set_name(loss.name);
    row->set_subject(loss.subject);
    row->set_meaning(loss.meaning);
    row->set_count(loss.count);
  }
  AddRecordedRanks(graph, &meta);
  for (const auto& program : graph.programs)
    AddDetails(program->details(), meta.add_programs());
  return meta;
}

absl::Status FromMeta(const GraphMeta& meta, ExecutionGraph* graph) {
  auto is_rank = [&](int32_t rank) { return rank >= 0 && rank < meta.world_size(); };
  if (meta.world_size() <= 0 || meta.world_size() > kMaxWorldSize ||
      meta.ranks_size() != meta.world_size())
    return Broken(fmt::format("{} of {} ranks are described", meta.ranks_size(),
                              meta.world_size()));
  static_cast<JobDescription&>(*graph) = ReadJob(meta);
  if (graph->launch_latency_ns < 0 || graph->launch_latency_ns > kMaxLatencyNs)
    return Broken(fmt::format("launch latency {} ns", graph->launch_latency_ns));
  if (graph->launch_queue_depth == 0 || graph->launch_queue_depth > kMaxQueueDepth)
    return Broken(fmt::format("launch queue depth {}", graph->launch_queue_depth));
  // Every rank is in its class, once.
  std::vector<bool> has_class(static_cast<size_t>(meta.world_size()));
  for (int i = 0; i < meta.classes_size(); ++i) {
    const GraphMeta::Class& row = meta.classes(i);
    for (const int32_t rank : row.ranks()) {
      if (!is_rank(rank) || has_class[static_cast<size_t>(rank)] ||
          meta.ranks(rank).rank_class() != static_cast<uint32_t>(i))
        return Broken(fmt::format(
            "class '{}' has rank {}, which does not exist or is of another class",
            row.name(), rank));
      has_class[static_cast<size_t>(rank)] = true;
    }
    graph->classes.push_back({row.name(), {row.ranks().begin(), row.ranks().end()}});
  }
  for (int32_t rank = 0; rank < meta.ranks_size(); ++rank) {
    const GraphMeta::Rank& row = meta.ranks(rank);
    const bool exists = has_class[static_cast<size_t>(rank)] &&
                        row.program() < static_cast<uint32_t>(meta.programs_size()) &&
                        is_rank(row.leader());
    // A leader leads itself, and its followers play its program, or one with their own
    // part of what it does with them.
    const GraphMeta::Rank& leader = meta.ranks(exists ? row.leader() : rank);
    if (!exists || leader.leader() != row.leader() ||
        leader.program() >= static_cast<uint32_t>(meta.programs_size()) ||
        meta.programs(static_cast<int>(leader.program())).ops() !=
            meta.programs(static_cast<int>(row.program())).ops())
      return Broken(fmt::format("rank {} has class {}, program {} and leader {}", rank,
                                row.rank_class(), row.program(), row.leader()));
    graph->ranks.push_back({row.rank_class(), row.program(), row.leader()});
  }
  for (const GraphMeta::Communicator& row : meta.communicators()) {
    if (row.members().empty() ||
        !std::all_of(row.members().begin(), row.members().end(), is_rank))
      return Broken(
          fmt::format("communicator '{}' has no member, or one that does not exist",
                      row.identity()));
    graph->communicators.push_back(
        {row.identity(), row.name(), {row.members().begin(), row.members().end()}});
  }
  for (const GraphMeta::Loss& row : meta.losses())
    graph->losses.push_back({row.name(), row.subject(), row.meaning(), row.count()});
  return ReadRecordedRanks(meta, graph);
}

absl::StatusOr<Details> DetailsOf(const GraphMeta::Program& program) {
  Details details;
  for (const auto& row : program.collectives()) {
    if (row.operation() > static_cast<uint32_t>(CollectiveKind::kScatter) ||
        row.type() > static_cast<uint32_t>(ElementType::kFloat8E5M2) ||
        row.reduction() > static_cast<uint32_t>(Reduction::kPreMulSum) ||
        row.recorded_ns() > static_cast<uint64_t>(kMaxNs) ||
        row.root() >= kMaxMembers || row.count() > kMaxTransferBytes)
      return Broken(fmt::format("collective {} on type {} with reduction {} in {} ns",
                                row.operation(), row.type(), row.reduction(),
                                row.recorded_ns()));
    details.collectives.push_back({static_cast<CollectiveKind>(row.operation()),
                                   static_cast<ElementType>(row.type()),
                                   static_cast<Reduction>(row.reduction()), row.root(),
                                   row.count(), row.recorded_ns()});
  }
  for (const auto& row : program.transfer_groups()) {
    if (row.bytes_size() != row.peers_size() || row.bytes_size() != row.is_send_size())
      return Broken("a group of transfers has columns of different lengths");
    if (std::any_of(row.bytes().begin(), row.bytes().end(),
                    [](uint64_t bytes) { return bytes > kMaxTransferBytes; }))
      return Broken(fmt::format("a transfer of more than {} bytes", kMaxTransferBytes));
    std::vector<Transfer> group;
    for (int i = 0; i < row.bytes_size(); ++i)
      group.push_back({row.bytes(i), row.peers(i), row.is_send(i) ? 1u : 0u});
    details.transfer_groups.push_back(std::move(group));
  }
  for (const auto& row : program.creations()) {
    Creation creation;
    creation.parent = row.parent();
    creation.color = row.color();
    creation.key = row.key();
    creation.ranks = row.ranks();
    creation.rank = row.rank();
    creation.local_members = row.has_local_members() ? row.local_members() : 1;
    creation.excluded.assign(row.excluded().begin(), row.excluded().end());
    creation.name = row.name();
    if (creation.ranks > kMaxMembers || creation.local_members == 0 ||
        creation.local_members > kMaxMembers || creation.parent >= kMaxMembers ||
        std::adjacent_find(creation.excluded.begin(), creation.excluded.end(),
                           std::greater_equal<>()) != creation.excluded.end())
      return Broken(
          fmt::format("a creation with parent {}, {} ranks, {} members in one process, "
                      "and excluded "
                      "members that must ascend",
                      creation.parent, creation.ranks, creation.local_members));
    const bool is_init = creation.parent == 0;
    if (is_init && (row.unique_id().size() != creation.unique_id.size() ||
                    creation.rank >= creation.ranks))
      return Broken(fmt::format("an init as {} of {}, with an id of {} bytes",
                                creation.rank, creation.ranks, row.unique_id().size()));
    if (is_init)
      std::copy(row.unique_id().begin(), row.unique_id().end(),
                creation.unique_id.begin());
    details.creations.push_back(std::move(creation));
  }
  details.names.assign(program.names().begin(), program.names().end());
  if (details.names.empty() || !details.names.front().empty())
    return Broken("name 0 is not the empty name");
  return details;
}

}  // namespace vrank::graph
