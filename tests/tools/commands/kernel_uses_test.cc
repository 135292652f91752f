// `vrank kernels list`: sums over ranks, and a cost file to fill in.

#include "tools/report/kernel_uses.h"

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "graph/file/graph_file.h"
#include "graph/models/kernel_costs.h"
#include "tools/commands/kernels_command.h"

namespace vrank::tools {
namespace {

using graph::ExecutionGraph;
using graph::Op;
using graph::OpKind;
using graph::Source;
using graph::WorkClass;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr char kScaleFloat[] = "_Z5scaleIfEvPT_ifm";
constexpr char kScaleDouble[] = "_Z5scaleIdEvPT_ifm";

struct Work {
  const char* name;
  WorkClass work;
  Source source;
  int64_t ns;
  uint32_t unseen_ns = 0;
};

std::unique_ptr<graph::Program> MakeProgram(const std::vector<Work>& works) {
  auto program = std::make_unique<graph::Program>(true);
  for (const Work& work : works)
    program->Append(Op{.kind = OpKind::kWork,
                       .source = work.source,
                       .work = work.work,
                       .lane = 1,
                       .value = work.ns,
                       .a = program->AddName(work.name),
                       .b = work.unseen_ns});
  program->Append(Op{.kind = OpKind::kHost, .host_ns = 1'000'000});
  program->Close();
  return program;
}

// Three ranks; ranks 0 and 1 play the first program.
ExecutionGraph MakeGraph() {
  ExecutionGraph graph;
  graph.launch_queue_depth = 1024;
  graph.world_size = 3;
  graph.layout = "dp=3";
  graph.gpu = "h100";
  graph.classes = {{"all", {0, 1, 2}}};
  graph.ranks = {{0, 0, 0}, {0, 0, 0}, {0, 1, 2}};
  graph.programs.push_back(
      MakeProgram({{kScaleFloat, WorkClass::kKernel, Source::kAssumed, 10},
                   {kScaleFloat, WorkClass::kKernel, Source::kAssumed, 30},
                   {"cublasGemmEx", WorkClass::kGemm, Source::kModelled, 500}}));
  graph.programs.push_back(
      MakeProgram({{kScaleDouble, WorkClass::kKernel, Source::kAssumed, 7},
                   {"plain", WorkClass::kKernel, Source::kAssumed, 5},
                   {"_Z4fastPf", WorkClass::kKernel, Source::kRecorded, 3}}));
  return graph;
}

TEST(KernelUsesTest, SumsOverAllRanksTheLongestFirst) {
  const auto uses = graph::KernelsByTime(MakeGraph());
  ASSERT_EQ(uses.size(), 5u);
  EXPECT_EQ(uses[0].name, "cublasGemmEx");
  EXPECT_EQ(uses[0].launches, 2u);
  EXPECT_EQ(uses[0].total_ns, 1000);
  EXPECT_EQ(uses[1].name, kScaleFloat);
  EXPECT_EQ(uses[1].source, Source::kAssumed);
  EXPECT_EQ(uses[1].launches, 4u);
  EXPECT_EQ(uses[1].total_ns, 80);
  EXPECT_EQ(uses[1].min_ns, 10);
  EXPECT_EQ(uses[1].max_ns, 30);
  EXPECT_EQ(uses[4].name, "_Z4fastPf");
}

TEST(KernelUsesTest, WhatMayTakeLongestComesFirst) {
  ExecutionGraph graph = MakeGraph();
  EXPECT_THAT(KernelUsesText(graph, graph::KernelsByTime(graph), "f"),
              Not(HasSubstr("reach")));
  graph.programs[1] =
      MakeProgram({{"plain", WorkClass::kKernel, Source::kAssumed, 5, 41'000'000}});
  const auto uses = graph::KernelsByTime(graph);
  EXPECT_EQ(uses[0].name, "plain");
  EXPECT_EQ(uses[0].total_ns, 5);
  EXPECT_EQ(uses[0].weight_ns(), 41'000'005);
  EXPECT_THAT(KernelUsesText(graph, uses, "f"),
              AllOf(HasSubstr("up to, if it reads all that it can reach\nplain"),
                    HasSubstr("  41.000 ms\n")));
  EXPECT_THAT(KernelUsesJson(graph, uses, "f"), HasSubstr("\"weight_ns\": 41000005"));
  EXPECT_THAT(CostFileSkeleton(uses), HasSubstr("(up to 41000005 ns if it reads all"));
}

TEST(KernelUsesTest, SkeletonHasOneEntryForEachAssumedKernel) {
  const std::string text = CostFileSkeleton(graph::KernelsByTime(MakeGraph()));
  graph::KernelCostFile file;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &file)) << text;
  ASSERT_EQ(file.kernel_size(), 2);
  EXPECT_EQ(file.kernel(0).name(), "scale");
  EXPECT_EQ(file.kernel(1).name(), "plain");
  EXPECT_THAT(text, AllOf(HasSubstr("void scale<float>(float*, int, float, unsigned "
                                    "long)"),
                          HasSubstr("void scale<double>"),
                          HasSubstr("scalars: arg1, arg2, arg3"),
                          HasSubstr("use the launch alone"), Not(HasSubstr("cublas")),
                          Not(HasSubstr("fast"))));
}

// Kernels are told apart by their whole names; only a table for people cuts them.
TEST(KernelUsesTest, CutsNamesVisiblyAndOnlyInTheTable) {
  const std::string name = "a_kernel_whose_name_is_" + std::string(200, 'x') + "_long";
  ExecutionGraph graph;
  graph.launch_queue_depth = 1024;
  graph.world_size = 1;
  graph.ranks = {{0, 0, 0}};
  graph.programs.push_back(
      MakeProgram({{name.c_str(), WorkClass::kKernel, Source::kAssumed, 10}}));
  const auto uses = graph::KernelsByTime(graph);
  EXPECT_THAT(KernelUsesText(graph, uses, "f"),
              AllOf(HasSubstr("xxx..."), Not(HasSubstr(name))));
  EXPECT_THAT(KernelUsesJson(graph, uses, "f"), HasSubstr("\"mangled\": \"" + name));
  EXPECT_THAT(CostFileSkeleton(uses), HasSubstr("name: \"" + name + "\""));
}

TEST(KernelUsesTest, SkeletonIsRefusedUntilItIsFilledIn) {
  graph::KernelCostFile file;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      CostFileSkeleton(graph::KernelsByTime(MakeGraph())), &file));
  graph::KernelCosts costs;
  const absl::Status empty = costs.Add(file, "costs.textproto");
  EXPECT_THAT(std::string(empty.message()),
              AllOf(HasSubstr("kernel 'scale'"), HasSubstr("kernel 'plain'")));
  for (auto& entry : *file.mutable_kernel()) {
    entry.set_bytes("8 * threads");
    entry.set_flops("0");
  }
  graph::KernelCosts filled;
  ASSERT_TRUE(filled.Add(file, "costs.textproto").ok());
  EXPECT_NE(filled.Find(kScaleFloat), nullptr);
  EXPECT_NE(filled.Find(kScaleDouble), nullptr);
}

TEST(KernelUsesTest, TheCommandReadsAGraphAndWritesTheSkeleton) {
  const std::string folder = testing::TempDir() + "/kernel_uses_test";
  std::filesystem::create_directories(folder);
  const std::string file = folder + "/job.vgraph", costs = folder + "/costs.textproto";
  ASSERT_TRUE(graph::WriteGraph(MakeGraph(), file).ok());
  testing::internal::CaptureStdout();
  const int code =
      RunKernelsCommand(SplitAtDashes({"list", file, "--json", "--skeleton", costs}));
  fflush(stdout);
  const auto json = nlohmann::json::parse(testing::internal::GetCapturedStdout());
  EXPECT_EQ(code, kExitFine);
  EXPECT_EQ(json["schema"], "vrank.kernel_uses/1");
  EXPECT_EQ(json["total_ns"], 1095);
  EXPECT_EQ(json["kernels"][1]["source"], "assumed");
  EXPECT_TRUE(std::filesystem::exists(costs));
  std::ofstream(costs) << "filled in";
  testing::internal::CaptureStderr();
  EXPECT_EQ(RunKernelsCommand(SplitAtDashes({"list", file, "--skeleton", costs})),
            kExitFailed);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("it is there already, and what is filled in there would be "
                        "lost; name another file, or remove it"));
  std::string kept;
  std::getline(std::ifstream(costs), kept);
  EXPECT_EQ(kept, "filled in");
  testing::internal::CaptureStderr();
  EXPECT_EQ(RunKernelsCommand(
                SplitAtDashes({"list", file, "--skeleton", folder + "/none/costs"})),
            kExitFailed);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("cannot be written"));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace vrank::tools
