// A small graph with something of everything.

#ifndef VRANK_TESTS_GRAPH_FILE_SAMPLE_GRAPH_H_
#define VRANK_TESTS_GRAPH_FILE_SAMPLE_GRAPH_H_

#include <memory>

#include "graph/program/execution_graph.h"

namespace vrank::graph {

// Two ranks of one class, with a program of `ops` >= 8 ops.
inline ExecutionGraph SampleGraph(uint64_t ops) {
  ExecutionGraph graph;
  graph.world_size = 2;
  graph.layout = "dp=2,order=dp";
  graph.gpu = "h100";
  graph.virtual_gpu = true;
  graph.command = "trainer --steps 2";
  graph.launch_latency_ns = 2000;
  graph.launch_queue_depth = 1024;
  graph.classes.push_back({"all", {0, 1}});
  graph.ranks = {{0, 0, 0}, {0, 0, 0}};
  graph.communicators.push_back({"world", "dp", {0, 1}});
  graph.losses.push_back({"dropped_records", "rank 0", "what it means", 7});
  auto program = std::make_unique<Program>(true);
  Creation world;
  world.ranks = 2;
  world.name = "dp";
  program->Append(Op{
      .kind = OpKind::kCreateCommunicator, .a = 1, .b = program->AddCreation(world)});
  const uint32_t kernel = program->AddName("_Z6kernelv");
  while (program->size() + 1 < ops) {
    const auto size = static_cast<int64_t>(program->size());
    switch (size % 4) {
      case 0:
        program->Append(Op{.kind = OpKind::kWork,
                           .source = Source::kAssumed,
                           .work = WorkClass::kKernel,
                           .launch = 1,
                           .lane = 1,
                           .host_ns = size,
                           .value = 3 * size,
                           .a = kernel,
                           .b = 0xffff'ffff});
        break;
      case 1:
        program->Append(Op{
            .kind = OpKind::kCollective,
            .launch = 1,
            .lane = 2,
            .a = 1,
            .b = program->AddCollective({.count = static_cast<uint64_t>(size % 5)})});
        break;
      case 2:
        program->Append(Op{.kind = OpKind::kTransfers,
                           .lane = 2,
                           .a = 1,
                           .b = program->AddTransfers({{8, 1, 1}, {8, 1, 0}})});
        break;
      default:
        program->Append(Op{.kind = OpKind::kRecordToken, .lane = 1, .a = 3});
    }
  }
  program->Append(Op{.kind = OpKind::kHostWaitLane, .lane = 1, .host_ns = 5});
  program->Close();
  graph.programs.push_back(std::move(program));
  return graph;
}

// The program with another op at one place.
inline std::unique_ptr<Program> WithOp(const Program& program, uint64_t place,
                                       const Op& op) {
  auto ops = std::make_shared<std::vector<Op>>();
  for (uint64_t i = 0; i < program.size(); ++i)
    ops->push_back(i == place ? op : program.op(i));
  return std::make_unique<Program>(std::span<const Op>(*ops), program.details(), ops);
}

}  // namespace vrank::graph

#endif  // VRANK_TESTS_GRAPH_FILE_SAMPLE_GRAPH_H_
