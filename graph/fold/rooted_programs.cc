#include "graph/fold/rooted_programs.h"

#include <algorithm>
#include <set>
#include <utility>

#include "graph/program/rooted_transfers.h"

namespace vrank::graph {
namespace {

// Of a program: communicator and group of transfers.
using Use = std::pair<uint32_t, uint32_t>;

bool GoesOneWay(const std::vector<Transfer>& group) {
  return std::all_of(group.begin(), group.end(), [&](const Transfer& transfer) {
    return (transfer.is_send != 0) == (group.front().is_send != 0);
  });
}

std::set<Use> OneWayGroupsOf(const Program& program) {
  const auto& groups = program.details().transfer_groups;
  std::vector<bool> one_way;
  for (const std::vector<Transfer>& group : groups)
    one_way.push_back(GoesOneWay(group));
  std::set<Use> uses;
  if (std::find(one_way.begin(), one_way.end(), true) == one_way.end())
    return uses;
  for (uint64_t i = 0; i < program.size(); ++i) {
    const Op& op = program.op(i);
    if (op.kind == OpKind::kTransfers && one_way[op.b])
      uses.emplace(op.a, op.b);
  }
  return uses;
}

std::unique_ptr<Program> CopyWith(const Program& program,
                                  const std::map<Use, std::vector<Transfer>>& parts) {
  Details details = program.details();
  std::map<Use, uint32_t> groups;
  for (const auto& [use, part] : parts) {
    groups[use] = static_cast<uint32_t>(details.transfer_groups.size());
    details.transfer_groups.push_back(part);
  }
  auto ops = std::make_shared<std::vector<Op>>();
  ops->reserve(program.size());
  for (uint64_t i = 0; i < program.size(); ++i) {
    ops->push_back(program.op(i));
    Op& op = ops->back();
    const auto part =
        op.kind == OpKind::kTransfers ? groups.find({op.a, op.b}) : groups.end();
    if (part != groups.end())
      op.b = part->second;
  }
  const std::span<const Op> all(*ops);
  return std::make_unique<Program>(all, std::move(details), std::move(ops));
}

// What the followers of one rank do.
class Leader {
 public:
  Leader(const ResolvedJob& job, uint32_t place, std::span<const int32_t> classes)
      : job_(job), program_(*job.job.ranks[place].program) {
    for (const Use& use : OneWayGroupsOf(program_)) {
      const auto binding = job.bindings[place].find(use.first);
      if (binding == job.bindings[place].end())
        continue;
      const CommunicatorInstance& instance = job.InstanceOf(place, use.first);
      const auto class_of = [&](uint32_t member) {
        return classes[static_cast<size_t>(job.job.ranks[member].world_rank)];
      };
      if (std::any_of(instance.members.begin(), instance.members.end(),
                      [&](uint32_t m) { return class_of(m) != class_of(place); }))
        continue;
      RootedTransfers rooted = RootedTransfersOf(
          program_.details().transfer_groups[use.second], binding->second.index,
          static_cast<uint32_t>(instance.members.size()));
      if (!rooted.empty())
        rooted_.emplace(use, std::move(rooted));
    }
  }

  bool has_roots() const { return !rooted_.empty(); }

  // Index of the follower's program among `programs`.
  size_t ProgramFor(uint32_t place, std::vector<std::unique_ptr<Program>>* programs) {
    std::vector<bool> is_root;
    std::map<Use, std::vector<Transfer>> parts;
    for (const auto& [use, rooted] : rooted_) {
      const auto own = job_.bindings[place].find(use.first);
      const bool root =
          own != job_.bindings[place].end() && own->second.index == rooted.root_index();
      is_root.push_back(root);
      parts[use] = root ? rooted.root : rooted.others;
    }
    const auto [known, added] = copies_.try_emplace(is_root, programs->size());
    if (added)
      programs->push_back(CopyWith(program_, parts));
    return known->second;
  }

 private:
  const ResolvedJob& job_;
  const Program& program_;
  std::map<Use, RootedTransfers> rooted_;
  std::map<std::vector<bool>, size_t> copies_;  // by where it is the root
};

}  // namespace

bool MayNeedRootedPrograms(const ReplayJob& job) {
  std::set<const Program*> looked_at;
  for (const ReplayJob::Rank& rank : job.ranks) {
    if (!rank.options.follower || !looked_at.insert(rank.program).second)
      continue;
    const auto& groups = rank.program->details().transfer_groups;
    if (std::any_of(groups.begin(), groups.end(), GoesOneWay))
      return true;
  }
  return false;
}

RootedPrograms RootedProgramsOf(const ResolvedJob& job,
                                std::span<const int32_t> classes) {
  RootedPrograms rooted;
  std::map<uint32_t, Leader> leaders;  // by place
  for (uint32_t place = 0; place < job.job.ranks.size(); ++place) {
    const ReplayJob::Rank& rank = job.job.ranks[place];
    const auto leads = rank.options.follower ? job.place_of.find(rank.options.leader)
                                             : job.place_of.end();
    if (leads == job.place_of.end())
      continue;
    const auto [leader, added] =
        leaders.try_emplace(leads->second, job, leads->second, classes);
    if (leader->second.has_roots())
      rooted.of_rank[rank.world_rank] =
          leader->second.ProgramFor(place, &rooted.programs);
  }
  return rooted;
}

void AddPrograms(RootedPrograms rooted, ExecutionGraph* graph) {
  for (const auto& [rank, program] : rooted.of_rank)
    graph->ranks[static_cast<size_t>(rank)].program =
        static_cast<uint32_t>(graph->programs.size() + program);
  for (std::unique_ptr<Program>& program : rooted.programs)
    graph->programs.push_back(std::move(program));
}

}  // namespace vrank::graph
