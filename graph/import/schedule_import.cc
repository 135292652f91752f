#include "graph/import/schedule_import.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/communication_kernel.h"
#include "base/status_macros.h"
#include "base/text_proto.h"
#include "graph/import/schedule.pb.h"
#include "graph/import/schedule_partners.h"
#include "graph/schema/lane_gaps.h"

namespace vrank::graph {
namespace {

// More ranks than any job has, and more bytes than a person reads or a parser's memory
// should take: damage, or the wrong file.
constexpr int32_t kMostRanks = 1 << 18;
constexpr uint64_t kMostBytes = uint64_t{1} << 30;
constexpr int64_t kLatestNs = int64_t{1} << 62;                   // 146 years
constexpr int64_t kLongestNs = int64_t{86'400'000'000'000} * 60;  // 60 days

constexpr uint32_t kWorld = 1;  // every rank's number of the communicator of all
constexpr uint32_t kFirstLane = 1;
constexpr uint64_t kTransferBytes = 1;  // a recorded network asks no more

absl::Status InStep(int32_t rank, const ScheduleStep& step, const std::string& why) {
  return absl::InvalidArgumentError(
      fmt::format("rank {}, {}: {}", rank, step.name(), why));
}

bool IsLength(int64_t ns) {
  return ns >= 0 && ns <= kLongestNs;
}

bool IsPoint(int64_t ns) {
  return ns >= -kLatestNs && ns <= kLatestNs;
}

absl::Status CheckTask(int32_t rank, const ScheduleStep& step, int place) {
  const ScheduleTask& task = step.task(place);
  const std::string subject = fmt::format("task {} '{}'", place, task.name());
  if (!IsLength(task.ns()) || !IsLength(task.gap_ns()))
    return InStep(
        rank, step,
        fmt::format("{} takes {} ns and begins {} ns late; both are from 0 to "
                    "60 days, correct them",
                    subject, task.ns(), task.gap_ns()));
  if (task.has_end_ns() &&
      (!IsPoint(task.end_ns()) || !IsLength(task.end_ns() - step.begin_ns())))
    return InStep(rank, step,
                  fmt::format("{} ends at {} ns, before its step or 60 days after it; "
                              "correct it",
                              subject, task.end_ns()));
  if (task.lane().empty())
    return InStep(rank, step, fmt::format("{} has no lane; give it one", subject));
  for (const int32_t before : task.after())
    if (before < 0 || before >= place)
      return InStep(rank, step,
                    fmt::format("{} comes after task {}, which is no earlier one of "
                                "the step",
                                subject, before));
  return absl::OkStatus();
}

absl::Status CheckSteps(const ScheduleRank& rank) {
  int64_t before_ns = -kLatestNs, lengths_ns = 0;
  for (const ScheduleStep& step : rank.step()) {
    if (!IsPoint(step.begin_ns()) || !IsPoint(step.end_ns()))
      return InStep(rank.rank(), step, "its times are none; correct them");
    if (step.end_ns() < step.begin_ns())
      return InStep(rank.rank(), step, "it ends before it begins; correct its times");
    if (step.begin_ns() < before_ns)
      return InStep(rank.rank(), step,
                    "it begins before the step ahead of it has ended; list steps in "
                    "order of time");
    before_ns = step.end_ns();
    for (int i = 0; i < step.task_size(); ++i) {
      RETURN_IF_ERROR(CheckTask(rank.rank(), step, i));
      lengths_ns += step.task(i).ns() + step.task(i).gap_ns();
      if (!IsLength(lengths_ns))
        return InStep(rank.rank(), step,
                      "the tasks up to here take more than 60 days; give fewer steps");
    }
  }
  return absl::OkStatus();
}

// Every rank of the world, once, with as many steps as the others.
absl::Status CheckRanks(const Schedule& schedule) {
  const int32_t world = schedule.world_size();
  if (world < 1 || world > kMostRanks)
    return absl::InvalidArgumentError(fmt::format(
        "world_size {} is none of a job; state the number of ranks", world));
  std::set<int32_t> seen;
  for (const ScheduleRank& rank : schedule.rank()) {
    if (rank.rank() < 0 || rank.rank() >= world)
      return absl::InvalidArgumentError(fmt::format(
          "rank {} of a world of {}; correct one of both", rank.rank(), world));
    if (!seen.insert(rank.rank()).second)
      return absl::InvalidArgumentError(
          fmt::format("rank {} is listed twice; give each once", rank.rank()));
    if (rank.step_size() == 0 || rank.step_size() != schedule.rank(0).step_size())
      return absl::InvalidArgumentError(
          fmt::format("rank {} has {} steps and rank {} has {}; give the same steps of "
                      "all ranks",
                      schedule.rank(0).rank(), schedule.rank(0).step_size(),
                      rank.rank(), rank.step_size()));
    RETURN_IF_ERROR(CheckSteps(rank));
  }
  int64_t first_ns = kLatestNs, last_ns = -kLatestNs;
  for (const ScheduleRank& rank : schedule.rank()) {
    first_ns = std::min(first_ns, rank.step(0).begin_ns());
    last_ns = std::max(last_ns, rank.step(rank.step_size() - 1).end_ns());
  }
  if (!seen.empty() && !IsLength(last_ns - first_ns))
    return absl::InvalidArgumentError(
        fmt::format("the last step ends {} days after the first begins; give the "
                    "steps of one run, in nanoseconds of one clock",
                    (last_ns - first_ns) / (kLongestNs / 60)));
  if (seen.size() != static_cast<size_t>(world))
    return absl::InvalidArgumentError(
        fmt::format("{} ranks of a world of {}; give all of them", seen.size(), world));
  return absl::OkStatus();
}

// Numbers of what the ranks share: the n-th group is communicator kWorld + 1 + n.
class ScheduleWriter {
 public:
  ScheduleWriter(const ScheduleRank& rank, int32_t world_size, int64_t job_begin_ns,
                 const SchedulePartners& partners)
      : rank_(rank),
        world_size_(world_size),
        job_begin_ns_(job_begin_ns),
        partners_(partners),
        program_(std::make_unique<Program>(true)) {}

  std::unique_ptr<Program> Run(RecordedRank* recorded) {
    recorded->rank = rank_.rank();
    CreateCommunicators();
    int64_t host_ns = job_begin_ns_;
    for (const ScheduleStep& step : rank_.step()) {
      const bool is_step = !step.name().empty();
      const uint32_t name = is_step ? program_->AddName(step.name()) : 0;
      due_ns_ += step.begin_ns() - host_ns;
      host_ns = step.end_ns();
      if (is_step)
        Append(Op{.kind = OpKind::kRangeBegin, .a = name});
      WriteStep(step, recorded);
      if (!is_step)
        continue;
      Append(Op{.kind = OpKind::kRangeEnd, .a = name});
      recorded->iterations.push_back({step.name(), step.begin_ns() - job_begin_ns_,
                                      step.end_ns() - job_begin_ns_});
    }
    program_->Close();
    return std::move(program_);
  }

 private:
  void Append(Op op) {
    op.source = op.host_source = Source::kRecorded;
    op.host_ns = std::exchange(due_ns_, 0);
    program_->Append(op);
  }

  void Create(uint32_t number, const Creation& creation) {
    Append(Op{.kind = OpKind::kCreateCommunicator,
              .a = number,
              .b = program_->AddCreation(creation)});
  }

  // All ranks split the world once per group; those outside stand aside.
  void CreateCommunicators() {
    if (partners_.groups.empty())
      return;
    Creation world;
    world.ranks = static_cast<uint32_t>(world_size_);
    world.rank = static_cast<uint32_t>(rank_.rank());
    world.unique_id[0] = 1;
    world.name = "world";
    Create(kWorld, world);
    uint32_t number = kWorld;
    for (const auto& [name, group] : partners_.groups) {
      numbers_[name] = ++number;
      const auto own =
          std::find(group.members.begin(), group.members.end(), rank_.rank());
      Creation split;
      split.parent = kWorld;
      split.color = own == group.members.end() ? protocol::kNoColor : 0;
      split.key = static_cast<int32_t>(own - group.members.begin());
      split.name = name;
      Create(number, split);
    }
  }

  void WriteStep(const ScheduleStep& step, RecordedRank* recorded) {
    std::set<int32_t> awaited;
    for (const ScheduleTask& task : step.task())
      awaited.insert(task.after().begin(), task.after().end());
    std::map<int32_t, uint32_t> tokens;  // by place
    std::set<uint32_t> lanes;
    for (int32_t i = 0; i < step.task_size(); ++i) {
      const ScheduleTask& task = step.task(i);
      const uint32_t lane = LaneOf(task.lane());
      lanes.insert(lane);
      for (const int32_t before : task.after())
        Append(Op{.kind = OpKind::kWaitToken, .lane = lane, .a = tokens[before]});
      if (task.gap_ns() > 0) {
        Append(Op{.kind = OpKind::kHostFunc,
                  .work = WorkClass::kHostFunc,
                  .lane = lane,
                  .value = task.gap_ns(),
                  .a = program_->AddName(kUnexplainedGapName)});
        recorded->unexplained_device_ns += task.gap_ns();
      }
      WriteTask(task, lane);
      recorded->ends_ns.push_back(task.has_end_ns() ? task.end_ns() - job_begin_ns_
                                                    : RecordedRank::kNoEnd);
      if (awaited.count(i) != 0) {
        tokens[i] = next_token_++;
        Append(Op{.kind = OpKind::kRecordToken, .lane = lane, .a = tokens[i]});
      }
    }
    for (const uint32_t lane : lanes)
      Append(Op{.kind = OpKind::kHostWaitLane, .lane = lane});
  }

  uint32_t LaneOf(const std::string& name) {
    return lanes_.try_emplace(name, kFirstLane + static_cast<uint32_t>(lanes_.size()))
        .first->second;
  }

  void WriteTask(const ScheduleTask& task, uint32_t lane) {
    if (!task.group().empty()) {
      const SchedulePartners::Group& group = partners_.groups.at(task.group());
      const CollectiveCall& call = group.calls[uses_[task.group()]++];
      Append(Op{.kind = OpKind::kCollective,
                .lane = lane,
                .a = numbers_.at(task.group()),
                .b = program_->AddCollective(call)});
      return;
    }
    const bool sends = task.has_send_to();
    if (!sends && !task.has_receive_from()) {
      Append(Op{.kind = OpKind::kWork,
                .work = WorkClass::kKernel,
                .lane = lane,
                .value = task.ns(),
                .a = program_->AddName(task.name())});
      return;
    }
    // Both meet, and then it takes as long as it took.
    const int32_t peer = sends ? task.send_to() : task.receive_from();
    const std::pair<int32_t, int32_t> pair =
        sends ? std::pair(rank_.rank(), peer) : std::pair(peer, rank_.rank());
    const uint32_t peer_index = peer > rank_.rank() ? 1 : 0;
    Append(Op{.kind = OpKind::kTransfers,
              .lane = lane,
              .a = numbers_.at(PairName(pair.first, pair.second)),
              .b = program_->AddTransfers({Transfer{.bytes = kTransferBytes,
                                                    .peer = peer_index,
                                                    .is_send = sends ? 1u : 0u}})});
    const int64_t ns = partners_.transfers_ns.at(pair)[transfers_[pair]++];
    Append(Op{.kind = OpKind::kWork,
              .work = WorkClass::kKernel,
              .lane = lane,
              .value = ns,
              .a = program_->AddName(
                  WithOperation(task.name(), sends ? "send" : "receive"))});
  }

  const ScheduleRank& rank_;
  const int32_t world_size_;
  const int64_t job_begin_ns_;
  const SchedulePartners& partners_;
  std::unique_ptr<Program> program_;
  std::map<std::string, uint32_t> numbers_;  // communicators of groups
  std::map<std::string, uint32_t> lanes_;
  std::map<std::string, size_t> uses_;  // of a group so far
  std::map<std::pair<int32_t, int32_t>, size_t> transfers_;
  uint32_t next_token_ = 1;
  int64_t due_ns_ = 0;  // host time that the next op carries
};

uint64_t CountTasks(const Schedule& schedule) {
  uint64_t tasks = 0;
  for (const ScheduleRank& rank : schedule.rank())
    for (const ScheduleStep& step : rank.step())
      tasks += static_cast<uint64_t>(step.task_size());
  return tasks;
}

}  // namespace

absl::StatusOr<ImportedRun> ImportSchedule(const Schedule& schedule,
                                           const std::string& file) {
  RETURN_IF_ERROR(CheckRanks(schedule));
  ASSIGN_OR_RETURN(const SchedulePartners partners, FindPartners(schedule));
  ImportedRun out;
  out.events = CountTasks(schedule);
  ExecutionGraph& graph = out.graph;
  graph.world_size = schedule.world_size();
  graph.layout = fmt::format("dp={}", graph.world_size);
  graph.gpu = schedule.gpu().empty() ? "a GPU without a name" : schedule.gpu();
  graph.launch_queue_depth = 1024;  // a timer shows no queue
  int64_t begin_ns = std::numeric_limits<int64_t>::max();
  std::map<int32_t, const ScheduleRank*> ranks;
  for (const ScheduleRank& rank : schedule.rank()) {
    ranks[rank.rank()] = &rank;
    begin_ns = std::min(begin_ns, rank.step(0).begin_ns());
  }
  std::vector<int32_t> all;
  for (const auto& [rank, own] : ranks) {
    RecordedRank recorded;
    recorded.file = file;
    graph.programs.push_back(
        ScheduleWriter(*own, graph.world_size, begin_ns, partners).Run(&recorded));
    graph.recorded_ranks.push_back(std::move(recorded));
    graph.ranks.push_back({0, static_cast<uint32_t>(rank), rank});
    all.push_back(rank);
  }
  graph.classes.push_back({"all", std::move(all)});
  for (const auto& [name, group] : partners.groups)
    graph.communicators.push_back({name, name, group.members});
  return out;
}

absl::StatusOr<ImportedRun> ReadSchedule(const std::string& file) {
  const auto named = [&](const absl::Status& status) {
    return absl::Status(status.code(), fmt::format("schedule '{}': {}", file,
                                                   std::string(status.message())));
  };
  std::error_code error;
  const uint64_t bytes = std::filesystem::file_size(file, error);
  if (!error && bytes > kMostBytes)
    return named(absl::InvalidArgumentError(fmt::format(
        "{} bytes; at most {} are read, give fewer steps", bytes, kMostBytes)));
  Schedule schedule;
  RETURN_IF_ERROR(ReadTextProto(file, &schedule));
  auto run = ImportSchedule(schedule, file);
  if (!run.ok())
    return named(run.status());
  run->bytes = bytes;
  return run;
}

}  // namespace vrank::graph
