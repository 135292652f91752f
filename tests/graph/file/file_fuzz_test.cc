// FuzzGraphFiles over a bounded number of mutated files, with every compiler.

#include "tests/graph/file/file_fuzz.h"

#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graph/file/graph_file.h"
#include "graph/file/graph_meta.h"
#include "graph/file/kernel_table.h"
#include "tests/base/mutate.h"
#include "tests/graph/file/sample_graph.h"

namespace vrank::graph {
namespace {

std::string Parts(const ExecutionGraph& graph) {
  const Program& program = *graph.programs[0];
  std::string parts(1, static_cast<char>(program.size()));
  for (uint64_t op = 0; op < program.size(); ++op)
    parts.append(reinterpret_cast<const char*>(&program.op(op)), sizeof(Op));
  return parts + ToMeta(graph).SerializeAsString();
}

std::string Table() {
  KernelTable table("h100");
  table.Add({"_Z1av", {8, 1, 1}, {128, 1, 1}, 0}, 400);
  table.Add({"_Z1av", {8, 1, 1}, {128, 1, 1}, 0}, 100);
  table.Add({"_Z1bv", {1, 2, 3}, {64, 1, 1}, 512}, 70);
  table.AddSource("rank000000.vtrace");
  table.Finish();
  return table.Serialize();
}

TEST(FileFuzzTest, HoldsUnderMutatedFiles) {
  const ExecutionGraph graph = SampleGraph(20);
  std::vector<std::string> seeds(4);
  seeds[0].append(1, '\0').append(*EncodeGraph(graph));
  seeds[1].append(1, '\1').append(Parts(graph));
  seeds[2].append(1, '\2').append(Table());
  seeds[3].append(1, '\3').append(Table());
  std::mt19937 random(1);
  for (int round = 0; round < 20'000; ++round) {
    const std::string input =
        Mutated(seeds[random() % seeds.size()], 8, SmallValues(), &random);
    FuzzGraphFiles(reinterpret_cast<const uint8_t*>(input.data()), input.size());
  }
}

}  // namespace
}  // namespace vrank::graph
