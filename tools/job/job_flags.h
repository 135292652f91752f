// Flags that emulate, validate and demo share: the machine, the models, the output.
//
// Thread rule: plain values.

#ifndef VRANK_TOOLS_JOB_JOB_FLAGS_H_
#define VRANK_TOOLS_JOB_JOB_FLAGS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "base/rank_list.h"
#include "emulator/world/result_collector.h"
#include "emulator/world/world.h"

namespace CLI {
class App;
}  // namespace CLI

namespace vrank::tools {

struct JobFlags {
  std::string layout;            // empty: one dimension, dp
  bool layout_inferred = false;  // `layout` was learned, nobody stated it
  std::vector<std::string> groups;
  std::string gpu = "h100";
  std::string cluster;  // empty: the one that belongs to the GPU
  std::vector<std::string> kernels;
  std::vector<std::string> kernel_times;
  std::vector<std::string> host_costs;
  std::vector<std::string> stragglers;
  std::string max_assumed;                     // empty: no limit
  std::optional<std::string> iteration_range;  // without it the usual names
  double hang_after_s = 60;
  double failure_grace_s = 10;
  bool survive_failures = false;  // emulate
  std::string log_dir;
  std::vector<std::string> payload_rules;
  std::string values;                              // a file of kernel_values.proto
  std::string recorded_payloads, record_payloads;  // files
  std::string host_time = "modelled";              // or measured, or files by commas
  std::string record_host_time;                    // a file
  std::string host_speed;                          // empty: 1
  bool force_host_time = false;
  bool real_gpu = false;        // the ranks keep this machine's GPUs
  bool launcher = false;        // the command starts the ranks itself
  uint32_t ranks_per_node = 0;  // 0: one per GPU of a node
  bool json = false;
  bool quiet = false;
};

void AddJobFlags(CLI::App* app, JobFlags* flags);
// A program that is a known launcher (torchrun, mpirun) implies --launcher.
void ImplyLauncher(const std::vector<std::string>& program, JobFlags* flags);
void AddRealGpuFlag(CLI::App* app, JobFlags* flags);
// What does not go together with --real-gpu.
absl::Status CheckRealGpuFlags(const JobFlags& flags);
// For commands that play ranks; a slice holds the work's own times.
void AddStragglerFlag(CLI::App* app, std::vector<std::string>* stragglers);

// "ID=NS" for a row of base/guest/host_costs.def ("launch", "event_record"): the row
// and its new cost.
absl::StatusOr<std::pair<size_t, uint32_t>> ParseHostCost(const std::string& text);
// "5=1.7": work of rank 5 takes 1.7 times as long. Exact for up to six decimals.
absl::StatusOr<std::pair<int32_t, emulator::WorkFactor>> ParseStraggler(
    const std::string& text, int32_t world_size);
// "1.7": above 0. Exact for up to six decimals; nullopt: it is none.
std::optional<emulator::WorkFactor> ParseFactor(std::string digits);
// Several of them, by rank. No rank has two.
absl::StatusOr<std::map<int32_t, emulator::WorkFactor>> ParseStragglers(
    const std::vector<std::string>& texts, int32_t world_size);
// A list of ranks that `flag` gives; an error names the flag.
absl::StatusOr<RankList> ParseRankFlag(const std::string& flag, const std::string& text,
                                       int32_t world_size);
// "2%", "2" or "0.5%": a share.
absl::StatusOr<double> ParsePercent(const std::string& text);

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_JOB_JOB_FLAGS_H_
