// Which calls are recorded, and under which name.

#include "tracer/cupti/call_filter.h"

#include <gtest/gtest.h>

namespace vrank::tracer {
namespace {

TEST(CallFilterTest, TakesVersionsOffNames) {
  EXPECT_EQ(WithoutVersion("cudaLaunchKernel_v7000"), "cudaLaunchKernel");
  EXPECT_EQ(WithoutVersion("cuMemAlloc_v2"), "cuMemAlloc");
  EXPECT_EQ(WithoutVersion("cudaMemcpy_ptds_v7000"), "cudaMemcpy_ptds");
  EXPECT_EQ(WithoutVersion("cuMemcpyHtoD_v2_ptds"), "cuMemcpyHtoD_v2_ptds");
  EXPECT_EQ(WithoutVersion("cudaMemcpy2D"), "cudaMemcpy2D");
  EXPECT_EQ(WithoutVersion(""), "");
}

TEST(CallFilterTest, KeepsWhatBecomesANode) {
  for (const char* name :
       {"cudaLaunchKernelExC_v11060", "cuLaunchKernelEx", "cudaMemcpyAsync_v3020",
        "cuMemcpyHtoDAsync_v2", "cudaStreamSynchronize_ptsz_v7000", "cudaMalloc_v3020",
        "cudaFreeAsync_v11020", "cudaEventRecordWithFlags_v11010", "cuCtxSynchronize",
        "cudaStreamWaitEvent_v3020", "cuStreamWaitValue32_v2"})
    EXPECT_TRUE(IsWorthARecord(name)) << name;
}

TEST(CallFilterTest, LeavesOutTheRest) {
  for (const char* name : {"cudaGetDevice_v3020", "cudaGetLastError_v3020",
                           "cudaPointerGetAttributes_v4000", "cuCtxGetCurrent",
                           "cudaEventCreate_v3020", "ncclAllReduce", ""})
    EXPECT_FALSE(IsWorthARecord(name)) << name;
}

}  // namespace
}  // namespace vrank::tracer
