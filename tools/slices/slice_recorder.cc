#include "tools/slices/slice_recorder.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/rank_list.h"
#include "base/status_macros.h"
#include "emulator/world/cast.h"
#include "graph/build/host_timeline.h"
#include "graph/build/slice_agreement.h"
#include "graph/trace/trace_file.h"
#include "tools/job/communicator_learning.h"
#include "tools/job/deciding_ranks.h"
#include "tools/job/program_fingerprint.h"
#include "tools/job/run_losses.h"
#include "tools/job/run_provenance.h"
#include "tools/slices/slice_check.h"

namespace vrank::tools {
namespace {

namespace fs = std::filesystem;

// A disk with less room is full, as far as a trace is concerned.
constexpr uint64_t kLittleRoom = 1 << 20;

// Where the time of the rank's work came from. A name with several sources gets the
// least certain one: a ledger may say too little, never too much. What CUPTI cannot
// show of a launch, how much it weighs beyond its time, is spread over all of the name.
std::map<std::string, graph::TraceSession::WorkSource> WorkSources(
    const emulator::RealRank& rank) {
  auto certainty = [](graph::Source source) {
    return source == graph::Source::kAssumed ? -1 : static_cast<int>(source);
  };
  std::map<std::string, graph::TraceSession::WorkSource> sources;
  std::map<std::string, emulator::KernelTotal> of_all;
  for (const auto& [key, total] : rank.decoder().Totals().kernels) {
    const graph::TraceSession::WorkSource first{.source = key.second};
    graph::Source& source = sources.try_emplace(key.first, first).first->second.source;
    if (certainty(key.second) < certainty(source))
      source = key.second;
    of_all[key.first].count += total.count;
    of_all[key.first].unseen_ns += total.unseen_ns;
  }
  for (auto& [name, row] : sources) {
    const emulator::KernelTotal& all = of_all.at(name);
    row.unseen_ns = static_cast<uint32_t>(  // at most the largest of them
        (all.unseen_ns + static_cast<int64_t>(all.count) - 1) /
        static_cast<int64_t>(all.count));
  }
  std::erase_if(sources, [](const auto& row) {
    return row.second.source == graph::Source::kModelled;  // what is not listed
  });
  return sources;
}

graph::TraceSession DescribeSession(const Job& job, const Run& run, int32_t rank,
                                    const std::vector<graph::GroupHint>& hints,
                                    const std::string& fingerprint,
                                    const std::string& cost_options) {
  graph::TraceSession session;
  session.rank = rank;
  session.world_size = job.world_size();
  session.real_ranks = run.real_ranks();
  if (job.layout_was_stated())
    session.layout = job.layout().ToString();
  session.layout_inferred = job.flags().layout_inferred;
  session.group_hints = job.flags().groups;
  for (const graph::GroupHint& hint : hints)
    session.group_hints.push_back(hint.ToString(job.layout()));
  session.gpu = job.gpu().short_name;
  session.cluster = job.cluster_name();
  session.virtual_gpu = !job.real_gpu();
  session.command = fmt::format("{}", fmt::join(job.command(), " "));
  session.program_fingerprint = fingerprint;
  session.cost_options = cost_options;
  session.software = SoftwareOf(run);
  session.launch_latency_ns = run.settings().launch_latency_ns;
  session.launch_queue_depth = run.settings().launch_queue_depth;
  session.context_bytes = run.settings().gpu.context_bytes;
  session.kernel_gap_ns = job.real_gpu() ? 0 : job.gpu().description.kernel_gap_ns();
  const emulator::World& world = run.session().world();
  for (const auto& real : world.real())
    if (real->rank() == rank) {
      session.work_sources = WorkSources(*real);
      session.host_end_ns = world.engine().result(rank).end.ns;
    }
  for (const LossRow& loss : MakeLosses(run, rank))
    session.losses[loss.name] += loss.count;
  if (const auto served = world.communicators().find(rank);
      served != world.communicators().end())
    for (const auto& [number, communicator] : served->second)
      session.communicators[number] = {communicator.identity, communicator.members,
                                       !run.membership().assumptions().empty()};
  return session;
}

// The folder and those above it that are not there, the innermost first.
std::vector<std::string> MissingFolders(const std::string& folder) {
  std::vector<std::string> missing;
  std::error_code ignored;
  for (fs::path path = fs::absolute(folder).lexically_normal();
       !path.empty() && !fs::exists(path, ignored); path = path.parent_path())
    if (path.has_filename())
      missing.push_back(path.string());
  return missing;
}

}  // namespace

SliceRecorder::SliceRecorder(const Job* job, std::string folder, FolderLock lock,
                             bool overwrite, RankOutput* output,
                             std::string fingerprint, std::string cost_options)
    : job_(job),
      folder_(std::move(folder)),
      lock_(std::move(lock)),
      overwrite_(overwrite),
      output_(output),
      fingerprint_(std::move(fingerprint)),
      cost_options_(std::move(cost_options)) {}

absl::StatusOr<SliceRecorder> SliceRecorder::Make(const Job& job, std::string folder,
                                                  bool overwrite, RankOutput* output) {
  ASSIGN_OR_RETURN(std::string fingerprint, ProgramFingerprint(job.command()));
  ASSIGN_OR_RETURN(std::string cost_options, CostOptions(job.flags()));
  std::error_code error;
  std::vector<std::string> made = MissingFolders(folder);
  std::vector<RemovedOnInterruption> removed;  // from before they are there
  for (auto outer = made.rbegin(); outer != made.rend(); ++outer)
    removed.emplace_back(*outer);
  fs::create_directories(folder, error);
  if (error)
    return absl::FailedPreconditionError(
        fmt::format("{}: {}; -o takes a folder", folder, error.message()));
  ASSIGN_OR_RETURN(FolderLock lock, FolderLock::Take(folder));
  SliceRecorder recorder(&job, std::move(folder), std::move(lock), overwrite, output,
                         std::move(fingerprint), std::move(cost_options));
  recorder.made_ = std::move(made);
  recorder.removed_ = std::move(removed);
  return recorder;
}

void SliceRecorder::RemoveWhatIsEmpty(const std::vector<int32_t>& ranks) const {
  std::error_code ignored;
  for (const int32_t rank : ranks)
    if (fs::exists(RawPathOf(rank), ignored) &&
        fs::file_size(RawPathOf(rank), ignored) == 0)
      fs::remove(RawPathOf(rank), ignored);
  for (const std::string& folder : made_)
    fs::remove(folder, ignored);  // an empty one, and no other
}

graph::TraceSession SliceRecorder::SessionLike(graph::TraceSession like) const {
  like.world_size = job_->world_size();
  like.layout = job_->layout_was_stated() ? job_->layout().ToString() : "";
  like.gpu = job_->gpu().short_name;
  like.cluster = job_->cluster_name();
  like.virtual_gpu = !job_->real_gpu();
  like.command = fmt::format("{}", fmt::join(job_->command(), " "));
  like.program_fingerprint = fingerprint_;
  like.cost_options = cost_options_;
  return like;
}

absl::Status SliceRecorder::CheckFree(const std::vector<int32_t>& ranks) const {
  std::set<std::string> ours;
  for (const int32_t rank : ranks) {
    ours.insert(fs::path(PathOf(rank)).filename());
    if (!overwrite_ && fs::exists(PathOf(rank)))
      return absl::AlreadyExistsError(
          fmt::format("{}: there is a trace of rank {} already; use --overwrite, or "
                      "another folder",
                      PathOf(rank), rank));
  }
  std::error_code ignored;
  std::set<std::string> others;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_, ignored))
    if (entry.path().extension() == ".vtrace" &&
        !ours.contains(entry.path().filename()))
      others.insert(entry.path().string());
  for (const std::string& other : others) {
    constexpr char kWayOut[] = "remove it, or name another folder";
    const absl::StatusOr<graph::TraceSession> session = graph::ReadSession(other);
    if (!session.ok())
      return absl::FailedPreconditionError(
          fmt::format("{}: it would lie beside the slices of this job, and cannot be "
                      "read; {} ({})",
                      other, kWayOut, std::string(session.status().message())));
    const auto difference = graph::FindDifference(*session, SessionLike(*session));
    if (difference.has_value())
      return absl::FailedPreconditionError(fmt::format(
          "{}: it is of another job, and would lie beside the slices of this one: its "
          "{} is {}, here it is {}; {}",
          other, difference->what, difference->of_a, difference->of_b, kWayOut));
  }
  return absl::OkStatus();
}

void SliceRecorder::RemoveReplaced(const std::vector<int32_t>& ranks) const {
  for (const int32_t rank : ranks) {
    std::error_code ignored;
    if (!fs::exists(PathOf(rank), ignored))
      continue;
    const absl::StatusOr<graph::TraceSession> session =
        graph::ReadSession(PathOf(rank));
    if (!session.ok() || graph::FindDifference(*session, SessionLike(*session)))
      fs::remove(PathOf(rank), ignored);
  }
}

void SliceRecorder::TellWhatStays() const {
  SetWhatStays(passing_         ? ""
               : complete_ == 0 ? "no slice is complete"
                                : fmt::format("{} of {} slices are complete in {}",
                                              complete_, all_traced_.size(), folder_));
}

void SliceRecorder::RemoveWritten() {
  std::error_code ignored;
  for (const std::string& file : written_)
    fs::remove(file, ignored);
  written_.clear();
}

absl::StatusOr<std::vector<RecordedSlice>> SliceRecorder::Record(
    const std::vector<int32_t>& ranks) {
  std::vector<int32_t> real = ranks;
  std::unique_ptr<Run> run;
  const absl::Status status = RunWithDecidingRanks(
      &real, [&](const std::vector<int32_t>& all) { return Attempt(ranks, all, &run); },
      job_->flags().quiet);
  if (!status.ok()) {
    std::string kept;
    std::error_code ignored;
    for (const int32_t rank : ranks)
      if (!passing_ && fs::exists(RawPathOf(rank)) &&
          fs::file_size(RawPathOf(rank), ignored) != 0)
        kept +=
            fmt::format("{} {}", kept.empty() ? "; what was recorded up to then:" : ",",
                        RawPathOf(rank));
    return absl::Status(
        status.code(),
        fmt::format("slice of rank{} {}: {}{}", ranks.size() == 1 ? "" : "s",
                    FormatRanks(ranks), std::string(status.message()),
                    kept.empty() ? "" : kept + " (`vrank build --list` shows it)"));
  }
  std::vector<RecordedSlice> slices;
  for (const int32_t rank : ranks) {
    const InterruptionsHeld held;
    ASSIGN_OR_RETURN(RecordedSlice slice, Finish(rank, *run));
    written_.push_back(slice.file);
    ++complete_;
    TellWhatStays();
    slices.push_back(std::move(slice));
  }
  return slices;
}

absl::StatusOr<std::vector<RecordedSlice>> SliceRecorder::RecordAll(
    const std::vector<int32_t>& ranks, size_t together) {
  for (const LearnUpTo end : {LearnUpTo::kFirstIteration, LearnUpTo::kEnd}) {
    complete_ = 0;
    all_traced_ = ranks;
    TellWhatStays();
    ASSIGN_OR_RETURN(LearnedGroups learned, LearnGroups(*job_, end, ranks, output_));
    hints_ = std::move(learned.hints);
    open_ = false;
    RemoveReplaced(ranks);
    auto all = RecordEach(ranks, together, /*stop_if_open=*/!learned.whole);
    if (learned.whole || !open_)
      return all;
  }
  return absl::InternalError("the communicators were not learned");
}

absl::StatusOr<std::vector<RecordedSlice>> SliceRecorder::RecordEach(
    const std::vector<int32_t>& ranks, size_t together, bool stop_if_open) {
  std::vector<RecordedSlice> all;
  for (size_t begin = 0; begin < ranks.size(); begin += together) {
    const std::vector<int32_t> slice(
        ranks.begin() + static_cast<std::ptrdiff_t>(begin),
        ranks.begin() +
            static_cast<std::ptrdiff_t>(std::min(ranks.size(), begin + together)));
    output_->set_subject(fmt::format("slice {} of {} (rank {})", begin / together + 1,
                                     (ranks.size() + together - 1) / together,
                                     FormatRanks(slice)));
    ASSIGN_OR_RETURN(const std::vector<RecordedSlice> recorded, Record(slice));
    all.insert(all.end(), recorded.begin(), recorded.end());
    if (open_ && stop_if_open)
      break;
  }
  return all;
}

// What every session here has; who is virtual is not among it.
RunOptions SliceRecorder::Options(const std::vector<int32_t>& real) const {
  RunOptions options = OptionsWithOutput(*job_, output_);
  options.real_ranks = real;
  options.group_hints = hints_;
  return options;
}

absl::Status SliceRecorder::Attempt(const std::vector<int32_t>& traced,
                                    const std::vector<int32_t>& real,
                                    std::unique_ptr<Run>* run) {
  RunOptions options = Options(real);
  ASSIGN_OR_RETURN(options.virtual_ranks,
                   emulator::CastByClass(job_->layout(), real, true, all_traced_));
  for (const int32_t rank : traced) {
    std::error_code ignored;  // an attempt before this one may have left it
    fs::remove(RawPathOf(rank), ignored);
    options.trace_files[rank] = fs::absolute(RawPathOf(rank)).string();
  }
  options.retain_programs = !job_->real_gpu();  // for CheckSlice
  ASSIGN_OR_RETURN(*run, Run::Make(*job_, std::move(options)));
  const absl::Status status = (*run)->Execute();
  output_->Clear();
  open_ |= (*run)->membership().inferred_without_hint();
  return status;
}

absl::StatusOr<RecordedSlice> SliceRecorder::Finish(int32_t rank,
                                                    const Run& run) const {
  RecordedSlice slice;
  slice.rank = rank;
  slice.file = PathOf(rank);
  for (const int32_t other : run.real_ranks())
    if (other != rank)
      slice.beside.push_back(other);
  const std::string raw = RawPathOf(rank);
  if (!fs::exists(raw))
    return absl::NotFoundError(fmt::format(
        "rank {} left no trace: it used no GPU; trace a rank that does", rank));
  std::error_code ignored;
  if (fs::file_size(raw, ignored) == 0 &&
      fs::space(folder_, ignored).available >= kLittleRoom)
    return absl::DataLossError(fmt::format(
        "rank {} left an empty trace: the program ended without what is due at its "
        "exit (_exit, quick_exit, os._exit: let it call exit)",
        rank));
  // On a real GPU the emulator has seen nothing but NCCL's operations.
  const graph::Program* emulated = nullptr;
  for (const auto& real : run.session().world().real())
    if (real->rank() == rank && !job_->real_gpu())
      emulated = &real->program();
  const absl::Status finished = graph::FinishSlice(
      raw, DescribeSession(*job_, run, rank, hints_, fingerprint_, cost_options_),
      run.settings().realtime_at_start_ns,
      emulated == nullptr ? std::vector<graph::TracedHostTime>()
                          : graph::HostTimesOf(*emulated),
      slice.file);
  if (!finished.ok() && fs::space(folder_, ignored).available < kLittleRoom)
    return absl::DataLossError(
        fmt::format("{}: its disk is full, so the trace of rank {} could not be "
                    "written; make room there, or name another folder",
                    folder_, rank));
  RETURN_IF_ERROR(finished);
  if (emulated != nullptr) {
    const auto compared = CheckSlice(slice.file, *emulated, check_);
    if (!compared.ok()) {
      fs::remove(slice.file, ignored);
      return compared.status();
    }
    slice.compared_nodes = *compared;
  }
  fs::remove(raw, ignored);
  slice.bytes = fs::file_size(slice.file, ignored);
  return slice;
}

std::string SliceRecorder::PathOf(int32_t rank) const {
  return fmt::format("{}/rank{:06}.vtrace", folder_, rank);
}

std::string SliceRecorder::RawPathOf(int32_t rank) const {
  return PathOf(rank) + ".raw";
}

}  // namespace vrank::tools
