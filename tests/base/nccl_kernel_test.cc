#include "base/nccl_kernel.h"

#include <gtest/gtest.h>

namespace vrank {
namespace {

TEST(NcclKernelTest, KnowsThemMangledAndNot) {
  for (
      const char* name :
      {"ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)",
       "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
       "_Z39ncclDevKernel_AllReduce_Sum_f32_RING_LL24ncclDevKernelArgsStorageILm4096EE",
       "ncclSymDevKernel_AllReduce_RSxLD_AGxST_sum_bf16(ncclSymDevArgs)",
       "ncclSymkDevKernel_AllGather_STMC(ncclSymkDevWorkArgs4K)",
       "ncclSymkDevKernel_ReduceScatter_LD_sum_f32_profile(ncclSymkDevWorkArgs4K)",
       "_Z43ncclSymkDevKernel_AllReduce_AGxLL_R_sum_f3221ncclSymkDevWorkArgs4K"})
    EXPECT_TRUE(IsNcclKernel(name)) << name;
}

TEST(NcclKernelTest, LeavesAllOthersAlone) {
  for (const char* name :
       {"", "_Z", "_Z12", "_Z6kernelv", "oneRankReduce", "nccl", "my_ncclDevKernel_x",
        "_Z16fooncclDevKernelv", "void at::native::reduce_kernel<512>(float*)"})
    EXPECT_FALSE(IsNcclKernel(name)) << name;
}

}  // namespace
}  // namespace vrank
