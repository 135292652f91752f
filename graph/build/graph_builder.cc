#include "graph/build/graph_builder.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/rank_list.h"
#include "base/status_macros.h"
#include "graph/build/class_cast.h"
#include "graph/build/layout_inference.h"
#include "graph/build/program_builder.h"
#include "graph/build/rank_plan.h"
#include "graph/build/slice_agreement.h"
#include "graph/build/trial.h"

namespace vrank::graph {
namespace {

class GraphBuilder {
 public:
  GraphBuilder(std::span<const RankTrace> slices, const GraphBuildOptions& options)
      : slices_(slices), options_(options) {}

  absl::StatusOr<ExecutionGraph> Run() {
    RETURN_IF_ERROR(CheckSlicesAgree(slices_));
    RETURN_IF_ERROR(BuildPrograms());
    CopyFacts();
    ASSIGN_OR_RETURN(const Layout layout, ChooseLayout());
    graph_.layout = layout.ToString();
    RETURN_IF_ERROR(Cast(layout));
    std::vector<GroupHint> hints;
    for (const std::string& text : graph_.group_hints) {
      absl::StatusOr<GroupHint> hint = ParseGroupHint(text, layout);
      const bool traced = hints.size() < slices_.front().session.group_hints.size();
      if (!hint.ok() && traced && !options_.layout.empty())
        return absl::InvalidArgumentError(fmt::format(
            "--layout '{}' contradicts the group {} that the slices state; leave "
            "--layout out, or trace again with it",
            options_.layout, text));
      RETURN_IF_ERROR(hint.status());
      hints.push_back(*std::move(hint));
    }
    ASSIGN_OR_RETURN(TrialResult trial, PlayTrial(layout, hints, traced_, told_));
    graph_.communicators = std::move(trial.communicators);
    AddPrograms(std::move(trial.rooted), &graph_);
    CompareWithinClasses();
    return std::move(graph_);
  }

 private:
  absl::Status BuildPrograms() {
    std::vector<const RankTrace*> by_rank;
    for (const RankTrace& slice : slices_)
      by_rank.push_back(&slice);
    std::sort(by_rank.begin(), by_rank.end(), [](const auto* a, const auto* b) {
      return a->session.rank < b->session.rank;
    });
    for (const RankTrace* slice : by_rank) {
      ASSIGN_OR_RETURN(BuiltProgram built, BuildProgram(*slice, options_.kernel_times));
      const int32_t rank = slice->session.rank;
      for (const auto& [loss, count] : built.losses)
        graph_.losses.push_back(
            {Name(loss), fmt::format("rank {}", rank), Meaning(loss), count});
      for (const auto& [name, count] : slice->session.losses)
        graph_.losses.push_back(
            {name, fmt::format("rank {}", rank), "counted while tracing", count});
      for (const TracedNcclCall& call : slice->nccl_calls)
        if (call.kind != TracedNcclCall::Kind::kRelease)
          told_[{rank, call.communicator}] = {call.told_size, call.told_index};
      traced_.push_back({rank, slice->file, built.program.get()});
      graph_.programs.push_back(std::move(built.program));
    }
    return absl::OkStatus();
  }

  void CopyFacts() {
    static_cast<JobDescription&>(graph_) = slices_.front().session;
    graph_.group_hints.insert(graph_.group_hints.end(), options_.group_hints.begin(),
                              options_.group_hints.end());
  }

  absl::StatusOr<Layout> ChooseLayout() {
    const std::string& traced = slices_.front().session.layout;
    const std::string& stated = options_.layout.empty() ? traced : options_.layout;
    if (!stated.empty()) {
      absl::StatusOr<Layout> parsed = Layout::Parse(stated, graph_.world_size);
      if (!parsed.ok() &&
          !options_.layout.empty())  // "layout 'x': ...", a flag's value
        return absl::InvalidArgumentError(
            fmt::format("--{}", std::string(parsed.status().message())));
      ASSIGN_OR_RETURN(Layout layout, std::move(parsed));
      if (!traced.empty() && !options_.layout.empty()) {
        ASSIGN_OR_RETURN(const Layout other, Layout::Parse(traced, graph_.world_size));
        if (layout.ToString() != other.ToString())
          return absl::InvalidArgumentError(fmt::format(
              "--layout '{}' contradicts the layout that the slices state, '{}'; "
              "leave --layout out, or trace again with it",
              stated, traced));
      }
      graph_.layout_inferred =
          options_.layout.empty() && slices_.front().session.layout_inferred;
      return layout;
    }
    graph_.layout_inferred = true;
    return InferLayout(graph_.world_size, graph_.group_hints, traced_, told_);
  }

  // Classes, and which program each rank plays.
  absl::Status Cast(const Layout& layout) {
    const std::map<int32_t, int32_t> leaders = LeadersByClass(layout, traced_);
    for (int32_t rank_class = 0; rank_class < layout.classes(); ++rank_class)
      if (!leaders.contains(rank_class))
        return MissingClass(layout, rank_class);
    CastRanks(layout, traced_, &graph_);
    return absl::OkStatus();
  }

  absl::Status MissingClass(const Layout& layout, int32_t rank_class) const {
    const std::vector<int32_t> ranks = RanksOfClass(layout, rank_class);
    int32_t suggested = ranks.front();
    for (const RankPlan::Entry& entry : PlanRanks(layout).entries)
      if (entry.rank_class == rank_class && !entry.deciding)
        suggested = entry.rank;
    return absl::FailedPreconditionError(fmt::format(
        "layout {}: no slice shows what the ranks of {} do ({}); trace one of them, "
        "for example rank {}",
        layout.ToString(), ClassName(layout, rank_class), FormatRanks(ranks),
        suggested));
  }

  // Ranks that were both traced keep what is theirs. Where they communicate
  // differently, their followers do what the leader does, which may be wrong, so it
  // is said. A class that was traced to its last rank has none.
  void CompareWithinClasses() {
    std::set<uint32_t> followed;
    for (int32_t rank = 0; rank < graph_.world_size; ++rank)
      if (graph_.ranks[static_cast<size_t>(rank)].leader != rank)
        followed.insert(graph_.ranks[static_cast<size_t>(rank)].rank_class);
    for (const TracedProgram& t : traced_) {
      const ExecutionGraph::Rank& part = graph_.ranks[static_cast<size_t>(t.rank)];
      if (!followed.contains(part.rank_class))
        continue;
      const auto first =
          std::find_if(traced_.begin(), traced_.end(), [&](const TracedProgram& other) {
            return graph_.ranks[static_cast<size_t>(other.rank)].rank_class ==
                   part.rank_class;
          });
      if (first->rank == t.rank)
        continue;
      const std::string difference =
          CommunicationDifference(*first->program, *t.program);
      if (!difference.empty())
        graph_.losses.push_back(
            {"class_members_differ",
             fmt::format("ranks {} and {}", first->rank, t.rank),
             fmt::format(
                 "two ranks of one class communicate differently, and its other "
                 "ranks do what the first one does: {}",
                 difference),
             1});
    }
  }

  std::span<const RankTrace> slices_;
  const GraphBuildOptions& options_;
  ExecutionGraph graph_;
  std::vector<TracedProgram> traced_;  // by rank
  ToldByRank told_;
};

}  // namespace

absl::StatusOr<ExecutionGraph> BuildGraph(std::span<const RankTrace> slices,
                                          const GraphBuildOptions& options) {
  return GraphBuilder(slices, options).Run();
}

}  // namespace vrank::graph
