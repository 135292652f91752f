// Description files that were edited by hand or by chance: GPUs, clusters, costs and
// values of kernels, schedules. What loads is used by its model.

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/flow/cluster_flows.h"
#include "graph/flow/topology.h"
#include "graph/import/schedule_import.h"
#include "graph/models/alpha_beta_network.h"
#include "graph/models/cluster.h"
#include "graph/models/gpu.h"
#include "graph/models/kernel_costs.h"
#include "graph/models/kernel_values.h"
#include "tests/base/mutate.h"
#include "tests/tools/fuzz_rounds.h"

namespace vrank {
namespace {

using graph::CollectiveCall;
using graph::CollectiveKind;
using testing::HasSubstr;

std::string Text(const std::string& name) {
  std::ifstream file(std::string(VRANK_DATA_DIR) + "/" + name);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  // Comments take most of the changes and show nothing.
  std::string bare;
  bool comment = false;
  for (const char c : text) {
    comment = c == '\n' ? false : comment || c == '#';
    if (!comment)
      bare += c;
  }
  return bare;
}

constexpr char kCosts[] = R"costs(
kernel { name: "adam::update" bytes: "4 * arg0 * blocks" flops: "arg0 ^ 2" }
kernel { regex: "void k<(\\d+), (\\w+)>.*" bytes: "m1 * m2 * n" flops: "1"
  unit: TENSOR_BF16 reached { compute_major: 9 share: 0.7 issued: "2 * m1" }
  field { name: "n" at: 8 type: INT64 } instructions: "ceildiv(threads, 32)"
}
)costs";
constexpr char kValues[] = R"(
rule { kernel: "found_inf*" type: FLOAT32 value: 0 }
rule { kernel: "*count" type: INT64 value: 12 }
)";
constexpr char kSchedule[] = R"(
world_size: 2 gpu: "h100" group { name: "dp" rank: [0, 1] }
rank { rank: 0 step { name: "step 1" begin_ns: 0 end_ns: 900
  task { name: "f" lane: "a" ns: 100 end_ns: 100 }
  task { name: "s" lane: "b" after: 0 ns: 50 send_to: 1 }
  task { name: "r" lane: "a" ns: 300 group: "dp" operation: "all_reduce" gap_ns: 3 } } }
rank { rank: 1 step { name: "step 1" begin_ns: 0 end_ns: 900
  task { name: "s" lane: "b" ns: 70 receive_from: 0 }
  task { name: "r" lane: "a" after: 0 ns: 300 group: "dp" operation: "all_reduce" } } }
)";

void UseCluster(const graph::ClusterDescription& cluster) {
  const graph::AlphaBetaNetwork network(cluster);
  std::vector<int32_t> members(24);
  std::iota(members.begin(), members.end(), 0);
  const graph::Topology topology = graph::Topology::Of(cluster, 24);
  const graph::ClusterFlows flows(&network, &topology);
  for (const auto kind : {CollectiveKind::kAllReduce, CollectiveKind::kAllToAll,
                          CollectiveKind::kBroadcast, CollectiveKind::kGather}) {
    for (const uint64_t count : {uint64_t{1}, uint64_t{1} << 50}) {
      const CollectiveCall call{.operation = kind, .count = count};
      EXPECT_GT(network.Collective(call, members).duration.nanoseconds(), 0);
      for (const graph::CollectivePiece& piece : flows.Collective(call, members))
        EXPECT_GE(piece.plan.alone_ns, 0);
    }
  }
  EXPECT_GT(network.Transfer(uint64_t{1} << 50, 0, 23).duration.nanoseconds(), 0);
  EXPECT_GE(network.Creation(members).duration.nanoseconds(), 0);
}

void UseCosts(const std::string& path) {
  graph::KernelCosts costs;
  if (!costs.AddFile(path, graph::KernelCosts::Strictness{}).ok())
    return;
  for (const char* name : {"_Z1kILi5EfEvPT0_i", "_ZN4adam6updateEPfl", ""}) {
    std::vector<double> captures;
    const auto* entry = costs.Find(name, &captures);
    if (entry != nullptr)
      (void)costs.Evaluate(
          *entry, {},
          std::vector<double>(entry->arguments.size() + entry->fields.size(), 3.0),
          captures);
  }
}

TEST(TextFuzzTest, NoDescriptionHurts) {
  const std::string folder =
      testing::TempDir() + "/text_fuzz_" + std::to_string(getpid());
  std::filesystem::create_directories(folder);
  const std::string path = folder + "/fuzz.textproto";
  const std::string seeds[] = {Text("clusters/hgx-h100-ib400.textproto"),
                               Text("gpus/h100-sxm5-80gb.textproto"), kCosts, kValues,
                               kSchedule};
  uint64_t loaded[std::size(seeds)] = {};
  FuzzRounds([&](std::mt19937* random) {
    const size_t kind = (*random)() % std::size(seeds);
    const std::string text =
        Mutated(seeds[kind], 5, "0123456789-.{}[]:\"\\eEinfa_,*+?()|^$ ", random);
    std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
    switch (kind) {
      case 0: {
        const auto cluster = graph::LoadCluster(path, VRANK_DATA_DIR);
        loaded[kind] += cluster.ok();
        if (cluster.ok())
          UseCluster(*cluster);
        break;
      }
      case 1:
        loaded[kind] += graph::LoadGpu(path, VRANK_DATA_DIR).ok();
        break;
      case 2:
        UseCosts(path);
        break;
      case 3:
        loaded[kind] += graph::ReadKernelValues(path).ok();
        break;
      default:
        loaded[kind] += graph::ReadSchedule(path).ok();
    }
  });
  for (const size_t kind : {0, 1, 3, 4})
    EXPECT_GT(loaded[kind], 0u) << kind;
  std::filesystem::remove_all(folder);
}

// The error names the field; nothing is believed.
TEST(TextFuzzTest, OddValuesAreNamed) {
  const std::string path = testing::TempDir() + "/odd_values.textproto";
  const std::string cluster = Text("clusters/hgx-h100-ib400.textproto");
  const auto error_with = [&](const std::string& from, const std::string& to) {
    std::string text = cluster;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    std::ofstream(path, std::ios::trunc) << text;
    return std::string(graph::LoadCluster(path, VRANK_DATA_DIR).status().message());
  };
  const struct {
    const char *from, *to, *error;
  } kCases[] = {
      {"operation: ALL_REDUCE", "operation: 99",
       "inside.algorithm[3].operation[0]: 99 is none of ALL_REDUCE, ALL_GATHER"},
      {"operation: ALL_REDUCE", "operation: 8",
       "inside.algorithm[3].operation[0]: 8 is none of"},
      {"shape: RING", "shape: 99", "shape: 99 is none of RING, TREE, CONSTANT"},
      {"operation: ALL_REDUCE", "operation: [ALL_REDUCE, ALL_REDUCE]",
       "inside.nvls_small names ALL_REDUCE twice"},
      {"nic_gbs: 48.5", "nic_gbs: nan", "nic_gbs: nan is no number"},
      {"nic_gbs: 48.5", "nic_gbs: inf", "nic_gbs: inf is no number"},
      {"nic_gbs: 48.5", "nic_gbs: -1", "nic_gbs must be from 1e-06 to 1e+09, is -1"},
      {"nic_gbs: 48.5", "nic_gbs: 0", "nic_gbs must be"},
      {"nic_gbs: 48.5", "nic_gbs: 1e300", "nic_gbs must be"},
      {"nic_gbs: 48.5", "nic_gbs: 1 nic_gbs: 2", "nic_gbs"},
      {"nic_gbs: 48.5", "nic_gb: 48.5", "nic_gb"},
      {"gpus_per_node: 8", "gpus_per_node: 4294967295", "gpus_per_node must be"},
      {"gpus_per_node: 8", "gpus_per_node: 8 ranks_per_node: 4294967295",
       "ranks_per_node must be 0 or from 1 to 65536, is 4.29497e+09"},
      {"nics_per_node: 8", "nics_per_node: -1", "Expected integer"},
      {"nics_per_node: 8", "nics_per_node: 99999999999", "Integer out of range"},
      {"base_ns: 6600", "base_ns: 9223372036854775807", "ring_ll.base_ns must be"},
      {"base_ns: 6600", "base_ns: -5", "ring_ll.base_ns must be"},
      {"creation_member_ns: 1000000", "creation_member_ns: 9223372036854775807",
       "creation_member_ns must be"},
      {"transfer_credit_bytes: 4194304", "transfer_credit_bytes: 18446744073709551615",
       "transfer_credit_bytes must be"},
  };
  EXPECT_EQ(error_with("nic_gbs: 48.5", "nic_gbs: 48.25"), "");
  for (const auto& one : kCases)
    EXPECT_THAT(error_with(one.from, one.to), HasSubstr(one.error)) << one.to;
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace vrank
