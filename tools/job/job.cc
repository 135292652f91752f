#include "tools/job/job.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/guest/channel.h"
#include "base/status_macros.h"
#include "base/whole_file.h"
#include "emulator/launch/launcher_command.h"
#include "graph/models/cluster.h"
#include "graph/models/kernel_values.h"
#include "tools/job/kernel_descriptions.h"
#include "tools/job/kernel_times.h"
#include "tools/machine/machine_gpus.h"

namespace vrank::tools {
namespace {

// The virtual clocks start at fixed readings, so that what a program prints is the same
// in every run: 2026-01-01 00:00:00 UTC, on a machine that came up 1,000 s before.
constexpr int64_t kRealtimeAtStart = int64_t{1767225600} * 1'000'000'000;
constexpr int64_t kMonotonicAtStart = int64_t{1000} * 1'000'000'000;

// The cluster that a GPU is usually sold in, by the beginning of its name.
constexpr std::pair<const char*, const char*> kUsualClusters[] = {
    {"a100", "hgx-a100-ib200"}, {"b200", "hgx-b200-ib400"}};
constexpr const char* kOtherCluster = "hgx-h100-ib400";

std::string UsualCluster(const std::string& gpu) {
  for (const auto& [beginning, cluster] : kUsualClusters)
    if (gpu.rfind(beginning, 0) == 0)
      return cluster;
  return kOtherCluster;
}

protocol::Settings MakeSettings(const graph::Gpu& gpu,
                                const std::map<size_t, uint32_t>& host_costs,
                                const graph::EngineOptions& engine,
                                const graph::AlphaBetaNetwork& network) {
  protocol::Settings settings{};
  settings.launch_queue_depth = engine.launch_queue_depth;
  settings.launch_latency_ns = engine.launch_latency.nanoseconds();
  settings.realtime_at_start_ns = kRealtimeAtStart;
  settings.monotonic_at_start_ns = kMonotonicAtStart;
  const CommunicatorMemory communicators = network.communicator_memory();
  settings.communicator_bytes = communicators.first_bytes;
  settings.communicator_peer_bytes = communicators.peer_bytes;
  settings.communicator_single_bytes = communicators.single_bytes;
  settings.communicator_tree_bytes = communicators.tree_bytes;
  settings.communicator_nvls_bytes = communicators.nvls_bytes;
  settings.communicator_nvls_members = communicators.nvls_members;
#define VRANK_HOST_COST(id, default_ns, meaning)                          \
  settings.host_costs_ns[static_cast<size_t>(HostCost::id)] = default_ns; \
  settings.assumed_host_costs |= uint64_t{1} << static_cast<size_t>(HostCost::id);
#include "base/guest/host_costs.def"
#undef VRANK_HOST_COST
  // Who states a cost vouches for it.
  for (const auto& [row, ns] : host_costs) {
    settings.host_costs_ns[row] = ns;
    settings.assumed_host_costs &= ~(uint64_t{1} << row);
  }
  settings.gpu = gpu.properties;
  return settings;
}

// Those that are real, and those that play their own recorded program.
std::vector<int32_t> RanksWithCalls(const RunOptions& options) {
  std::vector<int32_t> ranks = options.real_ranks;
  for (const emulator::VirtualRank& rank : options.virtual_ranks)
    if (rank.part == emulator::VirtualRank::Part::kRecorded && rank.leader < 0)
      ranks.push_back(rank.rank);
  return ranks;
}

// Whether the person named the real ranks, for messages.
graph::CallSource SourceOfCalls(const RunOptions& options) {
  return options.trace_files.empty() && !options.stop_when ? graph::CallSource::kReal
                                                           : graph::CallSource::kSlice;
}

// The ranks with a file are traced; see tracer/options.h for the variables.
void AddTracer(const std::map<int32_t, std::string>& files,
               emulator::SessionOptions* session) {
  if (files.empty())
    return;
  const std::string& folder = session->launch.guest_folder;
  const std::string tracer = folder + "/libvrank_tracer.so";
  session->launch.preload_tools.push_back("libvrank_tracer.so");
  for (const auto& [rank, file] : files) {
    auto& variables = session->launch.rank_variables[static_cast<uint32_t>(rank)];
    variables = {{"CUDA_INJECTION64_PATH", tracer},
                 {"VRANK_TRACE_FILE", file},
                 {"VRANK_TRACE_REQUIRED", "1"}};
    // On a real GPU CUPTI is NVIDIA's, which the loader finds, and takes NVTX's ranges.
    if (session->launch.real_gpu)
      variables.emplace_back("NVTX_INJECTION64_PATH", tracer);
    else
      variables.emplace_back("VRANK_TRACE_CUPTI", folder + "/libcupti.so.13");
  }
}

}  // namespace

absl::StatusOr<Job> Job::Make(const JobFlags& flags, int32_t world_size,
                              std::vector<std::string> command) {
  Job job;
  job.flags_ = flags;
  job.command_ = std::move(command);
  ASSIGN_OR_RETURN(job.installation_, FindInstallation());
  if (flags.layout.empty()) {
    job.layout_ = graph::Layout::Flat(world_size);
  } else {
    ASSIGN_OR_RETURN(job.layout_, graph::Layout::Parse(flags.layout, world_size));
  }
  for (const std::string& group : flags.groups) {
    ASSIGN_OR_RETURN(graph::GroupHint hint, graph::ParseGroupHint(group, *job.layout_));
    job.group_hints_.push_back(std::move(hint));
  }
  ASSIGN_OR_RETURN(job.gpu_, graph::LoadGpu(flags.gpu, job.installation_.data_dir));
  job.cluster_name_ =
      flags.cluster.empty() ? UsualCluster(job.gpu_.short_name) : flags.cluster;
  ASSIGN_OR_RETURN(job.cluster_,
                   graph::LoadCluster(job.cluster_name_, job.installation_.data_dir));
  if (flags.ranks_per_node != 0)
    job.cluster_.set_ranks_per_node(flags.ranks_per_node);
  RETURN_IF_ERROR(ReadKernelCosts(flags.kernels, job.installation_).status());
  if (!flags.values.empty()) {
    ASSIGN_OR_RETURN(job.value_rules_, graph::ReadKernelValues(flags.values));
  }
  ASSIGN_OR_RETURN(job.kernel_times_,
                   ReadKernelTimes(flags.kernel_times, job.gpu_.short_name,
                                   ", or choose that GPU with --gpu"));
  ASSIGN_OR_RETURN(job.iteration_pattern_,
                   emulator::MakeIterationPattern(flags.iteration_range.value_or(
                       emulator::kDefaultIterationRange)));
  ASSIGN_OR_RETURN(job.stragglers_, ParseStragglers(flags.stragglers, world_size));
  for (const std::string& text : flags.host_costs) {
    ASSIGN_OR_RETURN(const auto cost, ParseHostCost(text));
    if (!job.host_costs_.insert(cost).second)
      return absl::InvalidArgumentError(
          fmt::format("--host-cost '{}': this cost was given already; give one", text));
  }
  if (!flags.max_assumed.empty()) {
    ASSIGN_OR_RETURN(job.max_assumed_, ParsePercent(flags.max_assumed));
  }
  ASSIGN_OR_RETURN(job.host_time_, PlanHostTime(flags));
  return job;
}

namespace {

// What `flag` records is saved when the job has ended: an error of the place should not
// come only then.
absl::Status CheckCanRecord(const char* flag, const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error))
    return absl::InvalidArgumentError(
        fmt::format("{} {}: it is a folder; name a file", flag, path));
  errno = 0;
  const bool opened = WholeFile(path).stream() != nullptr;
  const int reason = errno;
  if (opened)
    return absl::OkStatus();
  return absl::FailedPreconditionError(
      fmt::format("{} {}: cannot be written: {}; does its folder exist, with room?",
                  flag, path, std::strerror(reason)));
}

}  // namespace

absl::Status Run::SetPayloads(const JobFlags& flags, emulator::HubOptions* hub) {
  for (const std::string& text : flags.payload_rules) {
    absl::StatusOr<emulator::PayloadRule> parsed = emulator::ParsePayloadRule(text);
    if (!parsed.ok())
      return absl::InvalidArgumentError(
          fmt::format("--payload: {}", std::string(parsed.status().message())));
    emulator::PayloadRule rule = *std::move(parsed);
    if (rule.policy == emulator::PayloadPolicy::kRecorded &&
        flags.recorded_payloads.empty())
      return absl::InvalidArgumentError(fmt::format(
          "--payload {}: recorded values come from --recorded-payloads FILE", text));
    rules_.Add(std::move(rule));
  }
  hub->rules = &rules_;
  if (!flags.recorded_payloads.empty()) {
    ASSIGN_OR_RETURN(emulator::RecordedPayloads recorded,
                     emulator::RecordedPayloads::Load(flags.recorded_payloads));
    recorded_ = std::make_unique<emulator::RecordedPayloads>(std::move(recorded));
    hub->recorded = recorded_.get();
  }
  recording_file_ = flags.record_payloads;
  if (!recording_file_.empty()) {
    RETURN_IF_ERROR(CheckCanRecord("--record-payloads", recording_file_));
    recording_ = std::make_unique<emulator::RecordedPayloads>();
    hub->recording = recording_.get();
  }
  return absl::OkStatus();
}

absl::Status Run::Execute() {
  if (host_time_recording_ != nullptr)
    host_time_recording_->Begin();
  absl::Status status = session_->Run();
  if (status.ok())
    status = membership_->CheckLayoutIsTold();
  if (const std::string unused = rules_.DescribeUnused();
      status.ok() && on_note_ && !unused.empty())
    on_note_("--payload: " + unused + "; vrank's names of communicators count");
  if (status.ok() && recording_ != nullptr)
    status = recording_->Save(recording_file_);
  if (status.ok() && host_time_recording_ != nullptr)
    status = host_time_recording_->Save(session_->world(), on_note_);
  std::error_code stays;  // logs of a job that fails are what its user wants to see
  if (!status.ok())
    for (const std::filesystem::path& folder : made_folders_)
      std::filesystem::remove(folder, stays);
  return status;
}

absl::Status Run::MakeFolder(const std::filesystem::path& folder) {
  if (folder.empty())
    return absl::OkStatus();
  std::error_code error;
  for (std::filesystem::path missing = std::filesystem::absolute(folder, error);
       !error && !std::filesystem::exists(missing, error);
       missing = missing.parent_path())
    made_folders_.push_back(missing);
  std::filesystem::create_directories(folder, error);
  return error ? absl::FailedPreconditionError(
                     fmt::format("--log-dir {}: {}", folder.string(), error.message()))
               : absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Run>> Run::Make(const Job& job, RunOptions options) {
  std::unique_ptr<Run> run(new Run());
  RETURN_IF_ERROR(run->MakeFolder(options.log_dir));
  run->real_ranks_ = options.real_ranks;
  run->virtual_ranks_ = options.virtual_ranks;
  ASSIGN_OR_RETURN(graph::KernelCosts costs,
                   ReadKernelCosts(job.flags_.kernels, job.installation_));
  run->kernel_model_ = std::make_unique<graph::KernelModel>(job.gpu_, std::move(costs));
  run->kernel_times_ = job.kernel_times_;
  run->kernel_model_->UseRecordedTimes(run->kernel_times_.get());
  run->pricer_ =
      std::make_unique<emulator::KernelModelPricer>(run->kernel_model_.get());
  run->network_ = std::make_unique<graph::AlphaBetaNetwork>(job.cluster_);
  std::vector<graph::GroupHint> hints = job.group_hints_;
  hints.insert(hints.end(), options.group_hints.begin(), options.group_hints.end());
  run->membership_ = std::make_unique<graph::MembershipInference>(
      *job.layout_, RanksWithCalls(options), std::move(hints), SourceOfCalls(options));
  // Recorded programs have the ids of the run in which they were recorded.
  run->membership_->CompareIdsOf(options.real_ranks);

  emulator::SessionOptions session;
  RETURN_IF_ERROR(run->SetPayloads(job.flags_, &session.world.hub));
  session.launch.command = job.command_;
  ASSIGN_OR_RETURN(session.launch.guest_folder, FindGuestFolder(job.installation_));
  session.launch.log_folder = options.log_dir;
  if (!job.value_rules_.empty())
    session.launch.variables.emplace_back("VRANK_VALUES", job.value_rules_);
  session.world_size = job.world_size();
  session.ranks_per_node = graph::RanksPerNode(job.cluster_);
  session.world.ranks_per_node = session.ranks_per_node;
  session.world.gpus_per_node = static_cast<int32_t>(job.cluster_.gpus_per_node());
  session.gpus_per_node = static_cast<int32_t>(job.cluster_.gpus_per_node());
  if (job.flags_.launcher)
    session.launch.launcher = emulator::LauncherName(job.command_);
  session.launch.real_gpu = job.flags_.real_gpu;
  // What a launch takes to reach a real device has passed when its work begins there.
  if (job.flags_.real_gpu) {
    session.world.engine.launch_latency = Duration::Nanoseconds(1);
    session.world.host_time = graph::Source::kMeasured;
    session.launch.real_time_origin_ns =
        std::chrono::steady_clock::now().time_since_epoch().count();
    session.launch.real_gpus = CountMachineGpus();
    session.launch.ranks_of_node = static_cast<uint32_t>(session.ranks_per_node);
  }
  session.real_ranks = options.real_ranks;
  for (int32_t rank = 0; rank < job.world_size(); ++rank)
    session.world.classes.push_back(job.layout_->ClassOf(rank));
  session.virtual_ranks = std::move(options.virtual_ranks);
  run->settings_ =
      MakeSettings(job.gpu_, job.host_costs_, session.world.engine, *run->network_);
  // The ranks' clocks are real, and show what their calls cost.
  if (job.flags_.real_gpu) {
    run->settings_.realtime_at_start_ns =
        std::chrono::system_clock::now().time_since_epoch().count();
    std::fill(std::begin(run->settings_.host_costs_ns),
              std::end(run->settings_.host_costs_ns), 0);
    run->settings_.assumed_host_costs = 0;
  }
  const std::string& host_time_file = job.flags_.record_host_time;
  if (!host_time_file.empty()) {
    RETURN_IF_ERROR(CheckCanRecord("--record-host-time", host_time_file));
    run->host_time_recording_ =
        std::make_unique<HostTimeRecording>(host_time_file, job.command_);
    session.world.gap_recorder = run->host_time_recording_->recorder();
  }
  Tell(job.host_time_, !host_time_file.empty(), &run->settings_);
  session.recorded_gaps = job.host_time_.gaps;
  session.settings = run->settings_;
  session.world.results.iteration_pattern = job.iteration_pattern_;
  session.world.results.collectives = options.collectives;
  session.world.results.member_ends = options.member_ends;
  session.world.retain_programs = options.retain_programs;
  session.world.keep_communicators =
      options.keep_communicators || !options.trace_files.empty();
  // A slice holds the work's own times: whoever plays the graph makes ranks slow.
  if (options.trace_files.empty())
    session.world.work_factors = job.stragglers_;
  session.hang_after =
      std::chrono::milliseconds(static_cast<int64_t>(job.flags_.hang_after_s * 1000));
  session.failure_grace = std::chrono::milliseconds(
      static_cast<int64_t>(job.flags_.failure_grace_s * 1000));
  session.survive_failures = job.flags_.survive_failures;
  AddTracer(options.trace_files, &session);
  session.stop_when = std::move(options.stop_when);
  session.on_line = std::move(options.on_line);
  session.on_progress = std::move(options.on_progress);
  run->on_note_ = options.on_note;
  session.on_note = std::move(options.on_note);
  run->session_ =
      std::make_unique<emulator::Session>(std::move(session), run->network_.get(),
                                          run->membership_.get(), run->pricer_.get());
  return run;
}

}  // namespace vrank::tools
