// A job as the command line describes it, ready to be run once or several times.
//
// Everything that a run needs and no run changes: descriptions of GPU and cluster, cost
// files, the layout. Each run gets models of its own, so that one cannot see another.
//
// Thread rule: one thread.

#ifndef VRANK_TOOLS_JOB_JOB_H_
#define VRANK_TOOLS_JOB_JOB_H_

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <absl/status/statusor.h>

#include "base/pattern.h"
#include "emulator/decode/kernel_model_pricer.h"
#include "emulator/session/session.h"
#include "graph/file/kernel_table.h"
#include "graph/membership/layout.h"
#include "graph/membership/membership_inference.h"
#include "graph/models/alpha_beta_network.h"
#include "graph/models/gpu.h"
#include "graph/models/kernel_model.h"
#include "tools/job/host_time_plan.h"
#include "tools/job/host_time_recording.h"
#include "tools/job/job_flags.h"
#include "tools/machine/installation.h"

namespace vrank::tools {

class Job {
 public:
  // Reads all files and checks all flags.
  static absl::StatusOr<Job> Make(const JobFlags& flags, int32_t world_size,
                                  std::vector<std::string> command);

  const JobFlags& flags() const { return flags_; }
  const graph::Layout& layout() const { return *layout_; }
  bool layout_was_stated() const { return !flags_.layout.empty(); }
  bool real_gpu() const { return flags_.real_gpu; }
  int32_t world_size() const { return layout_->world_size(); }
  const graph::Gpu& gpu() const { return gpu_; }
  const std::string& cluster_name() const { return cluster_name_; }
  const std::vector<std::string>& command() const { return command_; }
  const Pattern& iteration_pattern() const { return iteration_pattern_; }
  const std::map<int32_t, emulator::WorkFactor>& stragglers() const {
    return stragglers_;
  }
  const HostTimePlan& host_time() const { return host_time_; }
  // The largest share of the critical path that may be assumed.
  const std::optional<double>& max_assumed() const { return max_assumed_; }

 private:
  friend class Run;
  Job() = default;

  JobFlags flags_;
  Installation installation_;
  std::optional<graph::Layout> layout_;
  std::vector<graph::GroupHint> group_hints_;
  graph::Gpu gpu_;
  std::shared_ptr<const graph::KernelTable> kernel_times_;  // may be nullptr
  std::string cluster_name_;
  graph::ClusterDescription cluster_;
  Pattern iteration_pattern_;
  std::map<int32_t, emulator::WorkFactor> stragglers_;
  std::string value_rules_;  // graph/models/kernel_values.h
  std::map<size_t, uint32_t> host_costs_;
  std::optional<double> max_assumed_;
  HostTimePlan host_time_;
  std::vector<std::string> command_;
};

struct RunOptions {
  std::vector<int32_t> real_ranks;
  std::vector<emulator::VirtualRank> virtual_ranks;
  bool retain_programs = false;
  bool collectives = false;
  bool member_ends = false;
  bool keep_communicators = false;  // emulator::World::communicators
  // What communicators group, beside what the job's flags say.
  std::vector<graph::GroupHint> group_hints;
  // Real ranks to be traced, and where the raw trace of each goes (absolute paths).
  std::map<int32_t, std::string> trace_files;
  // Ends the run before the program's end (emulator::SessionOptions).
  std::function<bool(const emulator::World&)> stop_when;
  std::string log_dir;
  std::function<void(int32_t rank, bool is_stderr, std::string_view line)> on_line;
  std::function<void(const emulator::Progress&)> on_progress;
  std::function<void(const std::string&)> on_note;
};

// One run of a job, with its models and its results.
class Run {
 public:
  static absl::StatusOr<std::unique_ptr<Run>> Make(const Job& job, RunOptions options);

  // REQUIRES: called once.
  absl::Status Execute();

  const std::vector<int32_t>& real_ranks() const { return real_ranks_; }
  const std::vector<emulator::VirtualRank>& virtual_ranks() const {
    return virtual_ranks_;
  }
  emulator::Session& session() { return *session_; }
  const emulator::Session& session() const { return *session_; }
  // What the guests are told, before each learns its rank.
  const protocol::Settings& settings() const { return settings_; }
  const graph::KernelModel& kernel_model() const { return *kernel_model_; }
  const graph::MembershipInference& membership() const { return *membership_; }

 private:
  absl::Status SetPayloads(const JobFlags& flags, emulator::HubOptions* hub);
  // With those above it; notes which were missing.
  absl::Status MakeFolder(const std::filesystem::path& folder);

  Run() = default;

  std::vector<int32_t> real_ranks_;
  std::vector<emulator::VirtualRank> virtual_ranks_;
  protocol::Settings settings_{};
  std::shared_ptr<const graph::KernelTable> kernel_times_;  // of kernel_model_
  std::unique_ptr<graph::KernelModel> kernel_model_;
  std::unique_ptr<emulator::KernelModelPricer> pricer_;
  std::unique_ptr<graph::AlphaBetaNetwork> network_;
  std::unique_ptr<graph::MembershipInference> membership_;
  emulator::PayloadRules rules_;
  std::unique_ptr<emulator::RecordedPayloads> recorded_, recording_;
  std::function<void(const std::string&)> on_note_;
  std::string recording_file_;
  std::unique_ptr<HostTimeRecording> host_time_recording_;
  std::vector<std::filesystem::path> made_folders_;  // the innermost first
  std::unique_ptr<emulator::Session> session_;
};

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_JOB_JOB_H_
