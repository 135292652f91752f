#include "graph/import/kineto_import.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "graph/import/collective_match.h"
#include "graph/import/communication_match.h"
#include "graph/import/communication_use.h"
#include "graph/import/dependencies.h"
#include "graph/import/execution_trace.h"
#include "graph/import/host_order.h"
#include "graph/import/kineto_reader.h"
#include "graph/import/program_writer.h"
#include "graph/import/transfer_match.h"
#include "graph/import/transfer_peers.h"

namespace vrank::graph {
namespace {

// More ranks than any job has; a larger number is damage.
constexpr int64_t kMostRanks = 1 << 18;

// Of one rank, on its way into the graph.
struct Profile {
  Recording recording;
  HostOrder order;
  Dependencies dependencies;
  std::map<uint32_t, std::string> operations;  // CommunicationUses
};

class Importer {
 public:
  explicit Importer(const KinetoImportOptions& options) : options_(options) {}

  absl::StatusOr<ImportedRun> Run() {
    RETURN_IF_ERROR(ReadAll());
    RETURN_IF_ERROR(CheckHeaders());
    RETURN_IF_ERROR(JoinExecutionTraces());
    Explain();
    RETURN_IF_ERROR(Match());
    WriteAll();
    return std::move(out_);
  }

 private:
  absl::Status ReadAll() {
    if (options_.files.empty())
      return absl::InvalidArgumentError("no recording is given");
    for (const std::string& file : options_.files) {
      options_.progress(fmt::format("reading {}", file));
      ASSIGN_OR_RETURN(Recording recording, ReadKineto(file));
      out_.events += recording.events;
      out_.bytes += recording.bytes;
      if (recording.calls.empty() && recording.works.empty())
        return absl::InvalidArgumentError(fmt::format(
            "recording '{}': no call of CUDA or HIP and no work of a device; record "
            "with ProfilerActivity.CUDA",
            file));
      if (recording.rank < 0 && options_.files.size() > 1)
        return absl::InvalidArgumentError(
            fmt::format("recording '{}': it does not say whose rank it is "
                        "(\"distributedInfo\"), and others are given; import it alone",
                        file));
      const int64_t rank = std::max<int64_t>(0, recording.rank);
      if (rank >= kMostRanks || recording.world_size > kMostRanks)
        return absl::InvalidArgumentError(
            fmt::format("recording '{}': rank {} of {} is no rank of a job; the file "
                        "is damaged",
                        file, rank, recording.world_size));
      const auto [place, fresh] =
          profiles_.try_emplace(static_cast<int32_t>(rank), Profile());
      if (!fresh)
        return absl::InvalidArgumentError(fmt::format(
            "recordings '{}' and '{}' are both of rank {}; give one of each",
            place->second.recording.file, file, rank));
      place->second.recording = std::move(recording);
    }
    return absl::OkStatus();
  }

  absl::Status CheckHeaders() {
    const Recording& first = profiles_.begin()->second.recording;
    int64_t world = first.world_size;
    if (world < 0)  // a recording that does not say: as many as there are
      world = profiles_.rbegin()->first + 1;
    for (auto& [rank, profile] : profiles_) {
      const Recording& other = profile.recording;
      if (other.world_size != first.world_size)
        return DifferentRuns(
            first, other,
            fmt::format("world sizes {} and {}", first.world_size, other.world_size));
      if (rank >= world)
        return absl::InvalidArgumentError(
            fmt::format("recording '{}': rank {} of a world of {}; the file is damaged",
                        other.file, rank, world));
      if (other.gpu != first.gpu)
        return DifferentRuns(first, other,
                             fmt::format("GPUs '{}' and '{}'", first.gpu, other.gpu));
    }
    out_.graph.world_size = static_cast<int32_t>(world);
    return absl::OkStatus();
  }

  absl::Status DifferentRuns(const Recording& a, const Recording& b,
                             const std::string& how) const {
    return absl::InvalidArgumentError(
        fmt::format("recordings '{}' and '{}' are not of one run: {}; give the files "
                    "of one run",
                    a.file, b.file, how));
  }

  // A trace does not say whose rank it is, but which process wrote it.
  absl::Status JoinExecutionTraces() {
    for (const std::string& file : options_.execution_traces) {
      options_.progress(fmt::format("reading {}", file));
      ASSIGN_OR_RETURN(const ExecutionTrace trace, ReadExecutionTrace(file));
      const auto found = std::find_if(
          profiles_.begin(), profiles_.end(),
          [&](const auto& row) { return row.second.recording.pid == trace.pid; });
      if (found == profiles_.end())
        return absl::InvalidArgumentError(
            fmt::format("execution trace '{}': it is of process {}, and no recording "
                        "is; give the traces of the run that was recorded",
                        file, trace.pid));
      RETURN_IF_ERROR(JoinExecutionTrace(trace, &found->second.recording));
    }
    return absl::OkStatus();
  }

  void Explain() {
    options_.progress("looking for what everything waits for");
    latency_ns_ = std::numeric_limits<int64_t>::max();
    for (auto& [rank, profile] : profiles_) {
      profile.order = OrderHost(profile.recording, &losses_[rank]);
      latency_ns_ = std::min(latency_ns_, profile.order.shortest_latency_ns);
    }
    for (auto& [rank, profile] : profiles_)
      profile.dependencies = FindDependencies(profile.recording, profile.order,
                                              latency_ns_, &losses_[rank]);
  }

  absl::Status Match() {
    RETURN_IF_ERROR(CheckSameTime());
    std::vector<RankCommunication> ranks;
    for (auto& [rank, profile] : profiles_) {
      RankCommunication one;
      one.rank = rank;
      one.recording = &profile.recording;
      one.dependencies = &profile.dependencies;
      ASSIGN_OR_RETURN(CommunicationUses found,
                       FindCommunication(profile.recording, profile.order, rank,
                                         out_.graph.world_size, &losses_[rank]));
      one.uses = std::move(found.collectives);
      one.transfers = std::move(found.transfers);
      profile.operations = std::move(found.operations);
      ranks.push_back(std::move(one));
    }
    InferMembers(out_.graph.world_size, &ranks, &losses_);
    InferPeers(&ranks, &losses_);
    MatchCollectives(ranks, &losses_, &match_);
    MatchTransfers(ranks, &losses_, &match_);
    RETURN_IF_ERROR(CheckOneRun(match_));
    RETURN_IF_ERROR(CheckGroupsAtTheSameTime());
    out_.clocks = match_.clocks.found();
    for (const auto& [rank, difference] : out_.clocks)
      losses_[rank][ImportLoss::kClocksDiffer] = difference.collectives;
    return absl::OkStatus();
  }

  static bool Overlap(const Profile& a, const Profile& b) {
    return a.order.window.end_ns >= b.order.window.begin_ns &&
           b.order.window.end_ns >= a.order.window.begin_ns;
  }
  absl::Status NotAtTheSameTime(const Profile& a, const Profile& b) const {
    const auto& [first, second] = a.order.window.end_ns < b.order.window.begin_ns
                                      ? std::tie(a, b)
                                      : std::tie(b, a);
    return DifferentRuns(
        first.recording, second.recording,
        fmt::format("one ends {:.3f} s before the other begins, or their clocks differ "
                    "by as much",
                    static_cast<double>(second.order.window.begin_ns -
                                        first.order.window.end_ns) /
                        1e9));
  }

  // Each rank ran while another one did.
  absl::Status CheckSameTime() const {
    if (profiles_.size() == 1)
      return absl::OkStatus();
    for (const auto& [rank, one] : profiles_) {
      const Profile* other = nullptr;
      bool overlaps = false;
      for (const auto& [peer, profile] : profiles_) {
        if (peer == rank)
          continue;
        other = &profile;
        overlaps = Overlap(one, profile);
        if (overlaps)
          break;
      }
      if (!overlaps)
        return NotAtTheSameTime(one, *other);
    }
    return absl::OkStatus();
  }
  // ... and members of a group do so together. Transfers of a pipeline join ranks that
  // never meet.
  absl::Status CheckGroupsAtTheSameTime() const {
    for (const CommunicationMatch::Group& group : match_.groups)
      for (const int32_t a : group.members)
        for (const int32_t b : group.members)
          if (!group.of_transfers && !Overlap(profiles_.at(a), profiles_.at(b)))
            return NotAtTheSameTime(profiles_.at(a), profiles_.at(b));
    return absl::OkStatus();
  }

  void WriteAll() {
    options_.progress("writing the programs");
    FindCommonSteps();
    ExecutionGraph& graph = out_.graph;
    graph.layout = fmt::format("dp={}", graph.world_size);
    graph.gpu = profiles_.begin()->second.recording.gpu;
    if (graph.gpu.empty())
      graph.gpu = "a GPU without a name";
    graph.launch_latency_ns = latency_ns_;
    // A full queue shows as a long call, which the host's time holds.
    graph.launch_queue_depth = 1024;
    int64_t begin_ns = std::numeric_limits<int64_t>::max();
    for (const auto& [rank, profile] : profiles_)
      begin_ns = std::min(begin_ns, profile.order.window.begin_ns);
    std::vector<int32_t> all;
    for (int32_t rank = 0; rank < graph.world_size; ++rank) {
      all.push_back(rank);
      graph.ranks.push_back({0, static_cast<uint32_t>(rank), rank});
      const auto found = profiles_.find(rank);
      if (found == profiles_.end()) {
        graph.programs.push_back(WriteAbsentProgram(rank, graph.world_size, match_));
        continue;
      }
      const Profile& profile = found->second;
      WrittenRank written =
          WriteProgram({rank, graph.world_size, begin_ns, latency_ns_,
                        &profile.recording, &profile.order, &profile.dependencies,
                        &match_, &profile.operations, &common_steps_});
      graph.programs.push_back(std::move(written.program));
      graph.recorded_ranks.push_back(std::move(written.recorded));
      out_.memory[rank] = std::move(written.memory);
      if (written.not_nested != 0)
        losses_[rank][ImportLoss::kNotNested] += written.not_nested;
    }
    for (const auto& [rank, profile] : profiles_)
      AddLosses(rank, profile.recording);
    graph.classes.push_back({"all", std::move(all)});
    for (const CommunicationMatch::Group& group : match_.groups)
      graph.communicators.push_back({group.name, group.name, group.members});
  }

  // A profiler that one rank starts later shows other steps of the same run. Iterations
  // are the steps common to all ranks; without common steps, each rank keeps its own.
  void FindCommonSteps() {
    std::map<std::string, size_t> ranks_of;
    for (const auto& [rank, profile] : profiles_)
      for (const std::string& step : StepsOf(profile))
        ++ranks_of[step];
    for (const auto& [step, ranks] : ranks_of)
      if (ranks == profiles_.size())
        common_steps_.insert(step);
    for (const auto& [rank, profile] : profiles_) {
      const std::set<std::string> steps = StepsOf(profile);
      // A recording without steps is one.
      const size_t own = std::max<size_t>(1, steps.size());
      if (const size_t other = own - common_steps_.size();
          ranks_of.size() != common_steps_.size() && other != 0)
        losses_[rank][ImportLoss::kOtherSteps] += other;
    }
  }
  static std::set<std::string> StepsOf(const Profile& profile) {
    std::set<std::string> steps;
    for (const Point& point : profile.order.points)
      if (const Recording& recording = profile.recording;
          point.kind == PointKind::kRangeBegin) {
        const std::string& name = recording.names[recording.activities[point.row].name];
        if (name.rfind(kProfilerStep, 0) == 0)
          steps.insert(name);
      }
    return steps;
  }

  void AddLosses(int32_t rank, const Recording& recording) {
    uint64_t unread = 0;
    for (const auto& [category, count] : recording.unread)
      unread += count;
    if (unread != 0)
      losses_[rank][ImportLoss::kUnknownEvents] += unread;
    if (recording.virtual_times) {
      losses_[rank][ImportLoss::kVirtualTimes] = recording.works.size();
      if (recording.virtual_times->assumed_host_ns > 0)
        losses_[rank][ImportLoss::kAssumedHost] =
            static_cast<uint64_t>(recording.virtual_times->assumed_host_ns);
    }
    for (const auto& [loss, count] : losses_[rank])
      out_.graph.losses.push_back({Name(loss),
                                   loss == ImportLoss::kClocksDiffer
                                       ? DescribeClock(rank, out_.clocks.at(rank))
                                       : fmt::format("rank {}", rank),
                                   Meaning(loss), count});
  }

  const KinetoImportOptions& options_;
  ImportedRun out_;
  std::map<int32_t, Profile> profiles_;
  std::map<int32_t, ImportLosses> losses_;
  int64_t latency_ns_ = 0;
  CommunicationMatch match_;
  std::set<std::string> common_steps_;  // empty: the ranks have none in common
};

}  // namespace

absl::StatusOr<ImportedRun> ImportKineto(const KinetoImportOptions& options) {
  return Importer(options).Run();
}

}  // namespace vrank::graph
