// From traces of a real GPU to a table of kernel times.

#include "graph/build/kernel_collection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/build/program_builder.h"
#include "tests/graph/build/hand_trace.h"

namespace vrank::graph {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

void Launch(HandTrace* hand, uint32_t grid, int64_t ns) {
  hand->Call("cudaLaunchKernel", 0, 10);
  TracedWork& work = hand->Work(WorkClass::kKernel, 100, 100 + ns);
  work.grid[0] = grid;
  work.block[0] = 128;
}

TEST(KernelCollectionTest, TakesEveryKernelByItsLaunch) {
  HandTrace hand(/*virtual_gpu=*/false);
  hand.trace.file = "some/folder/rank000003.vtrace";
  for (const int64_t ns : {30, 10, 20})
    Launch(&hand, 4, ns);
  Launch(&hand, 8, 70);
  hand.Call("cudaMemcpyAsync", 0, 10);
  hand.Work(WorkClass::kCopy, 0, 1000);
  KernelTable table("h100");
  ASSERT_TRUE(CollectKernels(hand.trace, &table).ok());
  table.Finish();
  ASSERT_EQ(table.rows().size(), 2u);
  const auto& [key, row] = *table.rows().begin();
  EXPECT_EQ(key.name, "_Z6kernelv");
  EXPECT_THAT(key.grid, ElementsAre(4, 1, 1));
  EXPECT_EQ(row.count, 3u);
  EXPECT_EQ(row.median_ns, 20);
  EXPECT_THAT(table.sources(), ElementsAre("rank000003.vtrace"));
}

TEST(KernelCollectionTest, LeavesOutWhatSaysNothingAboutTheKernel) {
  HandTrace hand(/*virtual_gpu=*/false);
  // Of NCCL, with and without its call known; one that did not end.
  hand.Call("cuLaunchKernelEx", 0, 10);
  hand.Work(WorkClass::kKernel, 100, 900);
  TracedOperation operation;
  operation.correlation = 1;
  hand.trace.operations.push_back(operation);
  hand.Call("cuLaunchKernelEx", 10, 20);
  hand.Work(WorkClass::kKernel, 100, 900).name =
      hand.Name("_Z34ncclDevKernel_AllReduce_Sum_f32_RINGv");
  hand.Call("cuLaunchKernelEx", 20, 25);
  hand.Work(WorkClass::kKernel, 100, 900).name =
      hand.Name("_Z37ncclSymkDevKernel_AllGather_LLMC_more21ncclSymkDevWorkArgs4K");
  hand.Call("cudaLaunchKernel", 25, 30);
  hand.Work(WorkClass::kKernel, 100, 0);
  Launch(&hand, 4, 0);  // begins and ends at one time, which no kernel does
  KernelTable table("h100");
  ASSERT_TRUE(CollectKernels(hand.trace, &table).ok());
  table.Finish();
  EXPECT_TRUE(table.rows().empty());
}

TEST(KernelCollectionTest, RefusesTimesOfAModelOrOfAnotherGpu) {
  const HandTrace modelled(/*virtual_gpu=*/true), recorded(/*virtual_gpu=*/false);
  KernelTable table("h100"), other("a100");
  EXPECT_THAT(std::string(CollectKernels(modelled.trace, &table).message()),
              HasSubstr("trace 'hand.vtrace': it is of a virtual GPU"));
  EXPECT_THAT(std::string(CollectKernels(recorded.trace, &other).message()),
              HasSubstr("trace 'hand.vtrace': the kernel table is of GPU 'a100', not "
                        "of 'h100'"));
}

TEST(KernelTimesTest, LaunchesThatATableHoldsTakeItsTime) {
  HandTrace hand(/*virtual_gpu=*/true);
  Launch(&hand, 4, 100);
  Launch(&hand, 8, 70);
  KernelTable table("h100");
  table.Add({"_Z6kernelv", {4, 1, 1}, {128, 1, 1}, 0}, 33);
  table.Finish();
  const auto built = BuildProgram(hand.trace, &table);
  ASSERT_TRUE(built.ok()) << built.status();
  std::vector<std::pair<int64_t, Source>> work;
  for (uint64_t i = 0; i < built->program->size(); ++i)
    if (const Op& op = built->program->op(i); op.kind == OpKind::kWork)
      work.emplace_back(op.value, op.source);
  EXPECT_THAT(work, ElementsAre(std::pair(int64_t{33}, Source::kRecorded),
                                std::pair(int64_t{70}, Source::kModelled)));
}

}  // namespace
}  // namespace vrank::graph
