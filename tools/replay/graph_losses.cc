#include "tools/replay/graph_losses.h"

#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/status_macros.h"
#include "tools/job/program_fingerprint.h"

namespace vrank::tools {
namespace {

std::string WithoutFolder(const std::string& command) {
  const size_t slash = command.rfind('/', command.find(' '));
  return slash == std::string::npos ? command : command.substr(slash + 1);
}

// The command from word `start` on, as WithoutFolder has it.
std::string Joined(const std::vector<std::string>& command, size_t start) {
  std::string text = command[start].substr(command[start].rfind('/') + 1);
  for (size_t i = start + 1; i < command.size(); ++i)
    text += " " + command[i];
  return text;
}

// "pp 1, pp 2 and 5 more"; "all".
std::string ClassNames(const graph::ExecutionGraph& graph,
                       const std::set<uint32_t>& classes) {
  constexpr size_t kNamed = 4;
  std::vector<std::string> names;
  for (const uint32_t one : classes)
    if (names.size() < kNamed)
      names.push_back(graph.classes[one].name);
  std::string text = fmt::format("{}", fmt::join(names, ", "));
  if (classes.size() > kNamed)
    text += fmt::format(" and {} more", classes.size() - kNamed);
  return text;
}

// Who plays what was recorded.
struct Playing {
  std::set<uint32_t> classes;
  uint64_t ranks = 0;
};

Playing WhoPlays(const graph::ExecutionGraph& graph,
                 std::span<const emulator::VirtualRank> cast) {
  Playing playing;
  for (const emulator::VirtualRank& rank : cast) {
    if (rank.part != emulator::VirtualRank::Part::kRecorded)
      continue;
    ++playing.ranks;
    playing.classes.insert(graph.ranks[static_cast<size_t>(rank.rank)].rank_class);
  }
  return playing;
}

// How the program of a command differs from the one that a graph was recorded from.
struct ProgramChange {
  bool command = false, version = false;
};

absl::StatusOr<ProgramChange> ChangeOfProgram(const graph::ExecutionGraph& graph,
                                              const std::vector<std::string>& command) {
  size_t start = 0;  // where the program begins, behind what starts it
  while (start < command.size() &&
         Joined(command, start) != WithoutFolder(graph.command))
    ++start;
  const bool same_command = start < command.size();
  ASSIGN_OR_RETURN(const std::string fingerprint,
                   ProgramFingerprint({command.begin() + static_cast<ptrdiff_t>(
                                                             same_command ? start : 0),
                                       command.end()}));
  return ProgramChange{
      !graph.command.empty() && !same_command,
      !graph.program_fingerprint.empty() && graph.program_fingerprint != fingerprint};
}

}  // namespace

absl::StatusOr<bool> IsProgramOf(const graph::ExecutionGraph& graph,
                                 const std::vector<std::string>& command) {
  ASSIGN_OR_RETURN(const ProgramChange change, ChangeOfProgram(graph, command));
  return !change.command && !change.version;
}

std::vector<LossRow> MisfitLosses(const GraphCast& graph_cast,
                                  std::span<const emulator::VirtualRank> cast) {
  std::vector<LossRow> rows;
  for (const GraphCast::Misfit& misfit : graph_cast.Misfits(cast))
    rows.push_back({"own_traces_not_played",
                    fmt::format("rank {} follows rank {}; its trace has: {}",
                                misfit.rank, misfit.follows, misfit.difference),
                    1,
                    "traced ranks that differ from the real rank they follow: the "
                    "graph is of another program, so what they alone do is left out"});
  return rows;
}

std::string WhyAGraphMayNotFit(const graph::ExecutionGraph& graph,
                               const std::string& path,
                               const std::vector<std::string>& command) {
  const absl::StatusOr<ProgramChange> change = ChangeOfProgram(graph, command);
  if (!change.ok() || (!change->command && !change->version))
    return "";
  if (change->command)
    return fmt::format(
        "likely cause: the graph {} was recorded from another command line, '{}', than "
        "the one that runs here, '{}'; trace that one, or run the other. What "
        "happened: ",
        path, graph.command, fmt::join(command, " "));
  return fmt::format(
      "likely cause: the graph {} was recorded from another version of the program, or "
      "of a file that its command names; trace this one. What happened: ",
      path);
}

absl::StatusOr<std::vector<LossRow>> OutdatedGraphLosses(
    const graph::ExecutionGraph& graph, std::span<const emulator::VirtualRank> cast,
    const std::vector<std::string>& command) {
  const auto [classes, playing] = WhoPlays(graph, cast);
  std::vector<LossRow> rows;
  if (playing == 0)
    return rows;
  const std::string who = ClassNames(graph, classes);
  ASSIGN_OR_RETURN(const ProgramChange change, ChangeOfProgram(graph, command));
  if (change.command)
    rows.push_back({"graph_of_another_command",
                    fmt::format("{} recorded with: {}", who, graph.command), playing,
                    "ranks that play what was recorded with another command line than "
                    "the one that is run"});
  if (change.version)
    rows.push_back({"graph_of_another_version",
                    fmt::format("{} recorded from: {}", who, graph.program_fingerprint),
                    playing,
                    "ranks that play what was recorded from another version of the "
                    "program, or of a file that its command names"});
  return rows;
}

absl::StatusOr<std::vector<LossRow>> OtherCostLosses(
    const graph::ExecutionGraph& graph, std::span<const emulator::VirtualRank> cast,
    const JobFlags& flags) {
  const auto [classes, playing] = WhoPlays(graph, cast);
  std::vector<LossRow> rows;
  if (playing == 0 || !graph.virtual_gpu)
    return rows;
  ASSIGN_OR_RETURN(const std::string costs, CostOptions(flags));
  if (costs != graph.cost_options)
    rows.push_back(
        {"graph_of_other_costs",
         fmt::format("{} recorded with: {}; here: {}", ClassNames(graph, classes),
                     graph.cost_options.empty() ? "no options" : graph.cost_options,
                     costs.empty() ? "none" : costs),
         playing,
         "ranks that play what was recorded with other costs (--kernels, "
         "--kernel-times, --host-cost, --host-time), or with other options or "
         "variables that change results, than the real ranks have"});
  return rows;
}

}  // namespace vrank::tools
