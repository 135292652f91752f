#include "graph/build/trial.h"

#include <algorithm>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/status_macros.h"
#include "graph/fold/replay.h"
#include "graph/membership/leader.h"
#include "graph/membership/membership_inference.h"
#include "graph/replay/free_network.h"
#include "graph/replay/silent_observer.h"

namespace vrank::graph {
namespace {

class CommunicatorCollector : public SilentObserver {
 public:
  void OnCommunicator(int32_t rank, uint32_t number, const std::string& identity,
                      std::span<const int32_t> members, uint32_t index) override {
    members_.try_emplace(identity, members.begin(), members.end());
    views_[{rank, number}] = {identity, {static_cast<uint32_t>(members.size()), index}};
  }

  struct View {
    std::string identity;
    Told told;
  };
  const std::map<std::string, std::vector<int32_t>>& members() const {
    return members_;
  }
  const std::map<std::pair<int32_t, uint32_t>, View>& views() const { return views_; }

 private:
  std::map<std::string, std::vector<int32_t>> members_;
  std::map<std::pair<int32_t, uint32_t>, View> views_;
};

absl::Status CheckTold(const Layout& layout, const std::vector<TracedProgram>& traced,
                       const ToldByRank& told, const CommunicatorCollector& seen) {
  for (const auto& [key, stated] : told) {
    const auto& [rank, number] = key;
    const auto view = seen.views().find(key);
    const Told found = view == seen.views().end() ? Told{} : view->second.told;
    if (found == stated)
      continue;
    const auto slice =
        std::find_if(traced.begin(), traced.end(),
                     [rank = rank](const TracedProgram& t) { return t.rank == rank; });
    auto words = [](const Told& t) {
      return t.size == 0 ? std::string("no member")
                         : fmt::format("index {} of {}", t.index, t.size);
    };
    return absl::InvalidArgumentError(fmt::format(
        "communicator {} of rank {} ('{}'): the slice was told that it is {}, the "
        "layout {} makes it {}; correct --layout",
        number, rank, slice == traced.end() ? "" : slice->file, words(stated),
        layout.ToString(), words(found)));
  }
  return absl::OkStatus();
}

TrialResult Collect(const CommunicatorCollector& seen,
                    const std::vector<TracedProgram>& traced,
                    const std::map<int32_t, int32_t>& leaders, const Layout& layout) {
  TrialResult result;
  std::map<std::string, size_t> place;
  for (const auto& [identity, members] : seen.members()) {
    place[identity] = result.communicators.size();
    result.communicators.push_back({identity, {}, members});
  }
  std::map<int32_t, Program*> programs;
  for (const TracedProgram& t : traced)
    programs[t.rank] = t.program;
  // Names come from the creations of those who have calls of their own.
  for (const TracedProgram& t : traced) {
    for (uint64_t i = 0; i < t.program->size(); ++i) {
      const Op& op = t.program->op(i);
      if (op.kind != OpKind::kCreateCommunicator)
        continue;
      const auto view = seen.views().find({t.rank, op.a});
      if (view != seen.views().end())
        result.communicators[place[view->second.identity]].name =
            t.program->details().creations[op.b].name;
    }
  }
  for (const auto& [key, view] : seen.views())
    result.by_number[key] = place[view.identity];
  // A communicator of followers alone has its leaders' name.
  for (const auto& [key, view] : seen.views()) {
    ExecutionGraph::Communicator& row = result.communicators[place[view.identity]];
    const auto leader = leaders.find(layout.ClassOf(key.first));
    if (!row.name.empty() || leader == leaders.end())
      continue;
    const auto of_leader = seen.views().find({leader->second, key.second});
    if (of_leader != seen.views().end())
      row.name = result.communicators[place[of_leader->second.identity]].name;
  }
  return result;
}

}  // namespace

std::map<int32_t, int32_t> LeadersByClass(const Layout& layout,
                                          const std::vector<TracedProgram>& traced) {
  std::map<int32_t, int32_t> leaders;
  for (const TracedProgram& t : traced) {
    const auto [leader, is_new] = leaders.emplace(layout.ClassOf(t.rank), t.rank);
    TakeLead(&leader->second, t.rank);
  }
  return leaders;
}

std::unique_ptr<Program> CreationsOf(const Program& program) {
  auto creations = std::make_unique<Program>(/*retain=*/true);
  for (uint64_t i = 0; i < program.size(); ++i) {
    Op op = program.op(i);
    if (op.kind != OpKind::kCreateCommunicator)
      continue;
    op.host_ns = 0;
    op.b = creations->AddCreation(program.details().creations[op.b]);
    creations->Append(op);
  }
  creations->Close();
  return creations;
}

namespace {

// Plays one rank of each colour and notes the communicators of all. False: the job does
// not fold, or something is wrong, which playing every rank tells.
bool FitsTogetherFolded(const ReplayJob& job, Membership* membership,
                        CommunicatorCollector* seen) {
  const absl::StatusOr<ResolvedJob> resolved = ResolveCommunicators(job, membership);
  if (!resolved.ok() || !resolved->foldable)
    return false;
  const FreeNetwork network;
  FoldedReplay replay(&*resolved, RefineColours(*resolved, network), &network, {});
  if (!replay.Run().ok())
    return false;
  for (const CommunicatorInstance& instance : resolved->instances) {
    std::vector<int32_t> members;
    for (const uint32_t place : instance.members)
      members.push_back(job.ranks[place].world_rank);
    for (uint32_t i = 0; i < members.size(); ++i)
      seen->OnCommunicator(members[i], instance.numbers[i], instance.identity, members,
                           i);
  }
  return true;
}

absl::Status FitsTogether(const ReplayJob& job, Membership* membership,
                          CommunicatorCollector* seen) {
  constexpr size_t kLines = 4;
  const FreeNetwork network;
  EngineOptions options;
  options.fold = true;
  Engine engine(options, &network, membership, seen);
  for (const ReplayJob::Rank& rank : job.ranks)
    engine.AddRank(rank.world_rank, rank.program, rank.options);
  RETURN_IF_ERROR(engine.Run());
  if (!engine.Finished())
    return absl::FailedPreconditionError(
        fmt::format("the slices do not fit together, the job comes to a halt: {}",
                    fmt::join(engine.DescribeBlocked(kLines), "; ")));
  if (const absl::Status status = engine.CheckTransfersMatched(); !status.ok())
    return absl::Status(status.code(), fmt::format("the slices do not fit together: {}",
                                                   std::string(status.message())));
  return absl::OkStatus();
}

// Nothing where the job's communicators do not fit together, which playing it tells.
RootedPrograms ProgramsForFollowersOfRoots(const Layout& layout, Membership* membership,
                                           ReplayJob* job) {
  const absl::StatusOr<ResolvedJob> resolved = ResolveCommunicators(*job, membership);
  if (!resolved.ok())
    return {};
  std::vector<int32_t> classes;
  for (int32_t rank = 0; rank < layout.world_size(); ++rank)
    classes.push_back(layout.ClassOf(rank));
  RootedPrograms rooted = RootedProgramsOf(*resolved, classes);
  for (const auto& [rank, program] : rooted.of_rank)
    job->ranks[static_cast<size_t>(rank)].program = rooted.programs[program].get();
  return rooted;
}

}  // namespace

absl::StatusOr<TrialResult> PlayTrial(const Layout& layout,
                                      const std::vector<GroupHint>& hints,
                                      const std::vector<TracedProgram>& traced,
                                      const ToldByRank& told) {
  // Shorter programs are played sooner than they are folded.
  constexpr uint64_t kLongProgram = 1000;
  std::vector<int32_t> own_calls;
  std::map<int32_t, Program*> programs;
  uint64_t longest = 0;
  for (const TracedProgram& t : traced) {
    own_calls.push_back(t.rank);
    programs[t.rank] = t.program;
    longest = std::max(longest, t.program->size());
  }
  const std::map<int32_t, int32_t> leaders = LeadersByClass(layout, traced);
  ReplayJob job;
  for (int32_t rank = 0; rank < layout.world_size(); ++rank) {
    const auto own = programs.find(rank);
    RankOptions options;
    options.follower = own == programs.end();
    const int32_t leader = leaders.at(layout.ClassOf(rank));
    options.leader = options.follower ? leader : -1;
    job.ranks.push_back(
        {rank, options.follower ? programs.at(leader) : own->second, options});
  }
  // Each play begins with one that has seen no calls.
  const auto new_membership = [&] {
    return MembershipInference(layout, own_calls, hints, CallSource::kTraced);
  };
  RootedPrograms rooted;
  if (MayNeedRootedPrograms(job)) {
    MembershipInference membership = new_membership();
    rooted = ProgramsForFollowersOfRoots(layout, &membership, &job);
  }
  CommunicatorCollector seen;
  MembershipInference folded = new_membership();
  if (longest < kLongProgram || !FitsTogetherFolded(job, &folded, &seen)) {
    MembershipInference membership = new_membership();
    RETURN_IF_ERROR(FitsTogether(job, &membership, &seen));
  }
  RETURN_IF_ERROR(CheckTold(layout, traced, told, seen));
  TrialResult result = Collect(seen, traced, leaders, layout);
  result.rooted = std::move(rooted);
  return result;
}

}  // namespace vrank::graph
