#include "graph/import/program_writer.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/communication_kernel.h"
#include "graph/import/host_account.h"
#include "graph/schema/lane_gaps.h"

namespace vrank::graph {
namespace {

constexpr uint32_t kWorld = 1;  // every rank's number of the communicator of all
// Lanes: where launch latencies pass, and the streams behind it.
constexpr uint32_t kLaunchLane = 1;
constexpr uint32_t kFirstStreamLane = 2;
constexpr uint32_t kLaunchToken = 1;
constexpr uint32_t kFirstWorkToken = 2;
// A call that takes longer and waits for nothing known is not the host's own work.
constexpr int64_t kLongCallNs = 1'000'000;
constexpr size_t kMostHostRows = 40;

uint32_t CommunicatorOf(const CommunicationMatch& match, uint32_t group,
                        int32_t world_size) {
  const bool is_world =
      match.groups[group].members.size() == static_cast<size_t>(world_size);
  return is_world && group == 0 ? kWorld : group + kWorld + 1;
}

// All ranks split the world once per group; those outside stand aside.
void CreateCommunicators(int32_t rank, int32_t world_size,
                         const CommunicationMatch& match, Source times,
                         Program* program) {
  if (match.groups.empty())
    return;
  Creation world;
  world.ranks = static_cast<uint32_t>(world_size);
  world.rank = static_cast<uint32_t>(rank);
  world.unique_id[0] = 1;
  world.name = "world";
  const auto create = [=](uint32_t number, const Creation& creation) {
    program->Append(Op{.kind = OpKind::kCreateCommunicator,
                       .source = times,
                       .host_source = times,
                       .a = number,
                       .b = program->AddCreation(creation)});
  };
  create(kWorld, world);
  for (uint32_t group = 0; group < match.groups.size(); ++group) {
    const uint32_t number = CommunicatorOf(match, group, world_size);
    if (number == kWorld)
      continue;
    const std::vector<int32_t>& members = match.groups[group].members;
    const auto own = std::find(members.begin(), members.end(), rank);
    Creation split;
    split.parent = kWorld;
    split.color = own == members.end() ? protocol::kNoColor : 0;
    split.key = static_cast<int32_t>(own - members.begin());
    split.name = match.groups[group].name;
    create(number, split);
  }
}

// Totals of the GPU of which the most bytes were reserved.
class MemoryTotals {
 public:
  explicit MemoryTotals(const std::vector<MemoryTotal>& totals) {
    const auto fullest = std::max_element(
        totals.begin(), totals.end(), [](const MemoryTotal& a, const MemoryTotal& b) {
          return a.reserved_bytes < b.reserved_bytes;
        });
    for (const MemoryTotal& total : totals)
      if (total.device == fullest->device)
        totals_.push_back(total);
  }

  // What is held at `begin_ns` counts. Zero where the totals begin later than `end_ns`.
  RecordedMemory Between(int64_t begin_ns, int64_t end_ns) const {
    auto total = std::partition_point(
        totals_.begin(), totals_.end(),
        [&](const MemoryTotal& one) { return one.at_ns <= begin_ns; });
    if (total != totals_.begin())
      --total;
    RecordedMemory peak;
    for (; total != totals_.end() && total->at_ns <= end_ns; ++total) {
      peak.allocated_bytes = std::max(peak.allocated_bytes, total->allocated_bytes);
      peak.reserved_bytes = std::max(peak.reserved_bytes, total->reserved_bytes);
    }
    return peak;
  }

  // By how much the reserved bytes change until `at_ns`, since the last query.
  int64_t ChangeUntil(int64_t at_ns) {
    const int64_t before = reserved_bytes_;
    for (; next_ < totals_.size() && totals_[next_].at_ns <= at_ns; ++next_)
      reserved_bytes_ = totals_[next_].reserved_bytes;
    return reserved_bytes_ - before;
  }

 private:
  std::vector<MemoryTotal> totals_;
  size_t next_ = 0;
  int64_t reserved_bytes_ = 0;
};

class Writer {
 public:
  explicit Writer(const WriterInput& input)
      : in_(input),
        recording_(*input.recording),
        order_(*input.order),
        account_(*input.recording),
        memory_(input.recording->memory),
        times_(input.recording->virtual_times ? Source::kModelled : Source::kRecorded),
        program_(std::make_unique<Program>(true)),
        tokens_(recording_.works.size(), 0),
        host_ns_(input.job_begin_ns),
        names_(recording_.names.size(), 0) {
    const auto own = input.match->collectives.find(input.rank);
    collectives_ = own == input.match->collectives.end() ? nullptr : &own->second;
    const auto transfers = input.match->transfers.find(input.rank);
    transfers_ =
        transfers == input.match->transfers.end() ? nullptr : &transfers->second;
  }

  WrittenRank Run() {
    CreateCommunicators(in_.rank, in_.world_size, *in_.match, times_, program_.get());
    out_.recorded.rank = in_.rank;
    out_.recorded.file = recording_.file;
    out_.memory.whole = memory_.Between(std::numeric_limits<int64_t>::min(),
                                        std::numeric_limits<int64_t>::max());
    // The ranks of a job do not begin a step at one time: where each begins is given.
    Advance(order_.window.begin_ns, kNoRow);
    const bool has_steps = HasSteps();
    if (!has_steps)
      WholeRange(OpKind::kRangeBegin, order_.window.begin_ns);
    for (uint32_t i = 0; i < order_.points.size(); ++i)
      Write(i, order_.points[i]);
    WriteMemory(std::numeric_limits<int64_t>::max());
    if (!has_steps)
      WholeRange(OpKind::kRangeEnd, order_.host_end_ns);
    FindLongCalls();
    program_->Close();
    out_.recorded.host = account_.Rows(kMostHostRows);
    out_.not_nested = account_.not_nested();
    out_.recorded.unexplained_device_ns = in_.dependencies->unexplained_ns;
    out_.program = std::move(program_);
    return std::move(out_);
  }

 private:
  // What a recording without the profiler's steps counts as: one.
  static constexpr char kWholeRecording[] = "ProfilerStep (the whole recording)";

  // What a step that is no iteration is called: another name than an iteration's.
  static constexpr char kOtherStep[] = "not on all ranks: ";

  const std::string& RangeName(uint32_t row) const {
    return recording_.names[recording_.activities[row].name];
  }
  bool IsProfilerStep(uint32_t row) const {
    return RangeName(row).rfind(kProfilerStep, 0) == 0;
  }
  bool IsStep(uint32_t row) const {
    return IsProfilerStep(row) &&
           (in_.steps->empty() || in_.steps->count(RangeName(row)) != 0);
  }
  uint32_t NameOfRange(uint32_t row) {
    return IsProfilerStep(row) && !IsStep(row)
               ? program_->AddName(kOtherStep + RangeName(row))
               : NameOf(recording_.activities[row].name);
  }
  bool HasSteps() const {
    return std::any_of(order_.points.begin(), order_.points.end(), [&](const Point& p) {
      return p.kind == PointKind::kRangeBegin && IsStep(p.row);
    });
  }

  // As graph/iterations/rank_iterations.h defines begin and end; the outermost of
  // nested steps counts.
  void BeginIteration(const std::string& name, int64_t host_ns) {
    if (open_steps_++ != 0)
      return;
    step_begin_ns_ = host_ns;
    out_.recorded.iterations.push_back(
        {name, SinceStart(std::max(host_ns, completed_ns_)), 0});
  }
  void EndIteration(int64_t host_ns) {
    if (--open_steps_ != 0)
      return;
    RecordedRank::Iteration& step = out_.recorded.iterations.back();
    step.end_ns = SinceStart(std::max(host_ns, completed_ns_));
    out_.memory.steps.push_back(memory_.Between(step_begin_ns_, host_ns));
  }

  int64_t SinceStart(int64_t at_ns) const { return at_ns - in_.job_begin_ns; }

  // The host is at `at_ns` now; kNoRow: nobody's time.
  void Advance(int64_t at_ns, uint32_t thread) {
    if (at_ns <= host_ns_)
      return;
    if (thread != kNoRow)
      account_.Spend(thread, host_ns_, at_ns);
    due_ns_ += at_ns - host_ns_;
    host_ns_ = at_ns;
  }

  void Append(Op op) { Append(op, times_); }
  void Append(Op op, Source source) {
    op.source = source;
    op.host_source = times_;
    op.host_ns = std::exchange(due_ns_, 0);
    program_->Append(op);
  }

  uint32_t NameOf(uint32_t name) {
    if (names_[name] == 0)
      names_[name] = program_->AddName(recording_.names[name]);
    return names_[name];
  }

  uint32_t NameOfWork(uint32_t row) {
    const uint32_t name = recording_.works[row].name;
    const auto operation = in_.operations->find(row);
    if (operation == in_.operations->end())
      return NameOf(name);
    return program_->AddName(WithOperation(recording_.names[name], operation->second));
  }

  void WholeRange(OpKind kind, int64_t at_ns) {
    if (kind == OpKind::kRangeBegin) {
      BeginIteration(kWholeRecording, at_ns);
    } else {
      Advance(at_ns, order_.main_thread);
      EndIteration(host_ns_);
    }
    Append(Op{.kind = kind, .a = program_->AddName(kWholeRecording)});
  }

  // What the allocator took of the device, and gave back.
  void WriteMemory(int64_t until_ns) {
    if (const int64_t change = memory_.ChangeUntil(until_ns); change != 0)
      Append(Op{.kind = OpKind::kMemory,
                .value = change,
                .b = static_cast<uint32_t>(MemoryOwner::kProgram)});
  }

  void Write(uint32_t index, const Point& point) {
    WriteMemory(point.at_ns);
    switch (point.kind) {
      case PointKind::kRangeBegin:
      case PointKind::kRangeEnd:
        Advance(point.at_ns, point.thread);
        if (IsStep(point.row) && point.kind == PointKind::kRangeBegin)
          BeginIteration(RangeName(point.row), host_ns_);
        else if (IsStep(point.row))
          EndIteration(host_ns_);
        Append(Op{.kind = point.kind == PointKind::kRangeBegin ? OpKind::kRangeBegin
                                                               : OpKind::kRangeEnd,
                  .a = NameOfRange(point.row)});
        break;
      case PointKind::kHostWait:
        WriteHostWait(index, point);
        break;
      case PointKind::kWork:
        WriteWork(point);
        break;
      default:  // waits of streams are told at the work that waits
        break;
    }
  }

  void WriteHostWait(uint32_t index, const Point& point) {
    const HostCall& call = recording_.calls[point.row];
    Advance(call.time.begin_ns, point.thread);
    const auto awaited = in_.dependencies->host_waits.find(index);
    if (awaited == in_.dependencies->host_waits.end())
      return;
    for (const uint32_t work : awaited->second) {
      Append(Op{.kind = OpKind::kHostWaitToken, .a = tokens_[work]});
      host_ns_ = std::max(host_ns_, in_.dependencies->works[work].end_ns);
    }
  }

  void WriteWork(const Point& point) {
    if (point.thread != kNoRow)
      Advance(point.at_ns, point.thread);
    const DeviceWork& work = recording_.works[point.row];
    const WorkStart& start = in_.dependencies->works[point.row];
    const uint32_t lane = kFirstStreamLane + work.stream;
    // Work without a launch is issued where the host is then.
    const int64_t behind = point.thread == kNoRow ? point.at_ns - host_ns_ : 0;
    const int64_t latency = start.latency_ns + std::max<int64_t>(0, behind);
    if (latency > 0) {
      Append(Op{.kind = OpKind::kHostFunc,
                .work = WorkClass::kHostFunc,
                .lane = kLaunchLane,
                .value = latency,
                .a = program_->AddName(kLaunchLatencyName)});
      Append(Op{.kind = OpKind::kRecordToken, .lane = kLaunchLane, .a = kLaunchToken});
      Append(Op{.kind = OpKind::kReleaseLane, .lane = kLaunchLane});
      Append(Op{.kind = OpKind::kWaitToken, .lane = lane, .a = kLaunchToken});
    }
    for (const uint32_t awaited : start.awaited)
      Append(Op{.kind = OpKind::kWaitToken, .lane = lane, .a = tokens_[awaited]});
    if (start.gap_ns > 0)
      Append(Op{.kind = OpKind::kHostFunc,
                .work = WorkClass::kHostFunc,
                .lane = lane,
                .value = start.gap_ns,
                .a = program_->AddName(kUnexplainedGapName)});
    WriteItself(point.row, lane);
    out_.recorded.ends_ns.push_back(SinceStart(start.end_ns));
    completed_ns_ = std::max(completed_ns_, start.end_ns);
    if (in_.dependencies->is_awaited[point.row]) {
      tokens_[point.row] = next_token_++;
      Append(Op{.kind = OpKind::kRecordToken, .lane = lane, .a = tokens_[point.row]});
    }
  }

  void WriteItself(uint32_t row, uint32_t lane) {
    const DeviceWork& work = recording_.works[row];
    const WorkStart& start = in_.dependencies->works[row];
    if (collectives_ != nullptr) {
      const auto found = collectives_->find(row);
      if (found != collectives_->end()) {
        const MatchedCollective& matched = found->second;
        Append(Op{.kind = OpKind::kCollective,
                  .lane = lane,
                  .a = CommunicatorOf(*in_.match, matched.group, in_.world_size),
                  .b = program_->AddCollective(matched.call)});
        return;
      }
    }
    int64_t length_ns = start.end_ns - start.begin_ns;
    if (transfers_ != nullptr) {
      const auto found = transfers_->find(row);
      if (found != transfers_->end()) {
        const MatchedTransfers& matched = found->second;
        Append(Op{.kind = OpKind::kTransfers,
                  .lane = lane,
                  .a = CommunicatorOf(*in_.match, matched.group, in_.world_size),
                  .b = program_->AddTransfers(matched.transfers)});
        length_ns = matched.then_ns;
      }
    }
    Append(Op{.kind = OpKind::kWork,
              .work = work.work,
              .lane = lane,
              .value = length_ns,
              .a = NameOfWork(row)},
           recording_.SourceOf(work));
  }

  void FindLongCalls() {
    std::vector<bool> waits(recording_.calls.size());
    for (const Point& point : order_.points)
      if (point.kind == PointKind::kHostWait)
        waits[point.row] = true;
    for (size_t i = 0; i < recording_.calls.size(); ++i) {
      const HostCall& call = recording_.calls[i];
      const int64_t length = call.time.end_ns - call.time.begin_ns;
      if (!waits[i] && !order_.helper_threads[call.thread] && length > kLongCallNs)
        out_.recorded.unexplained_host_ns += length;
    }
  }

  const WriterInput& in_;
  const Recording& recording_;
  const HostOrder& order_;
  HostAccount account_;
  MemoryTotals memory_;
  const Source times_;  // who vouches for them
  std::unique_ptr<Program> program_;
  WrittenRank out_;
  const std::map<uint32_t, MatchedCollective>* collectives_ = nullptr;
  const std::map<uint32_t, MatchedTransfers>* transfers_ = nullptr;
  std::vector<uint32_t> tokens_;  // by work that is awaited
  uint32_t next_token_ = kFirstWorkToken;
  int64_t host_ns_;  // how far the program's host has come, as recorded
  int64_t completed_ns_ = std::numeric_limits<int64_t>::min();  // of work so far
  int open_steps_ = 0;
  int64_t step_begin_ns_ = 0;    // of the host, outermost
  int64_t due_ns_ = 0;           // host time that the next op carries
  std::vector<uint32_t> names_;  // of the recording -> of the program
};

}  // namespace

WrittenRank WriteProgram(const WriterInput& input) {
  return Writer(input).Run();
}

std::unique_ptr<Program> WriteAbsentProgram(int32_t rank, int32_t world_size,
                                            const CommunicationMatch& match) {
  auto program = std::make_unique<Program>(true);
  CreateCommunicators(rank, world_size, match, Source::kRecorded, program.get());
  program->Close();
  return program;
}

}  // namespace vrank::graph
